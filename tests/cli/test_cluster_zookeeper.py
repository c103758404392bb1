"""`tidelog up --brokers 3 --registry zookeeper://...`: the same cluster, kept by a real ZooKeeper."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.compatibility.processes import TidelogUp
from tests.zookeeper_ensemble import ZooKeeperEnsemble

pytestmark = pytest.mark.timed


def test_brokers_meet_in_zookeeper_and_one_that_is_killed_is_back(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ZooKeeperEnsemble(tmp_path / "ensemble", servers=1) as ensemble:
        address = f"zookeeper://{ensemble.connect_string}/tidelog/one"
        timeout = ("-X", "zookeeper.session.timeout.ms=2000")
        with TidelogUp(tmp_path / "data", "--registry", address, *timeout) as up:
            shell = Shell(up.bootstrap, capfdbinary, monkeypatch)
            shell.ok("produce", "-t", "kept", "-X", "acks=all", stdin=b"x\n")
            nodes = json.loads(
                shell.ok("registry", "show", "/brokers/ids", "-r", "--registry", address, "--format", "json")
            )
            assert [node["path"] for node in nodes[1:]] == [f"/brokers/ids/{number}" for number in (1, 2, 3)]
            assert all(node["ephemeral_owner"] for node in nodes[1:])
            up.signal_broker(2, signal.SIGKILL)
            up.wait_for_return(2)
            shell.ok("produce", "-t", "kept", "-X", "acks=all", stdin=b"y\n")
            assert shell.ok("consume", "-t", "kept", "-e") == b"x\ny\n"
            assert up.stop() == 0
    assert not (tmp_path / "data" / "registry.sqlite").exists()
