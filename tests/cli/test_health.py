"""What an operator is told of a cluster that is not well: real brokers, of which one has died, or has no room left."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compatibility.processes import TidelogCluster, TidelogProcess
from tests.zookeeper_ensemble import ZooKeeperEnsemble

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def tidelog(bootstrap: str, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tidelog", *words, "-b", bootstrap]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)


def ok(bootstrap: str, *words: str, stdin: str = "") -> str:
    done = tidelog(bootstrap, *words, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_full_disk_is_named_by_status_and_producers_and_the_stop_is_clean(tmp_path: Path) -> None:
    with TidelogProcess(tmp_path, "-X", "tidelog.faults.enable=true") as broker:
        ok(broker.bootstrap, "produce", "-t", "orders", stdin="kept\n")
        assert tidelog(broker.bootstrap, "status").returncode == 0
        ok(broker.bootstrap, "fault", "fill-disk", "1")

        seen = tidelog(broker.bootstrap, "status")
        assert (seen.returncode, str(broker.log_dir) in seen.stdout) == (1, True)
        assert "is full" in seen.stdout
        patience = ("-X", "delivery.timeout.ms=3000", "-X", "request.timeout.ms=2000")
        refused = tidelog(broker.bootstrap, "produce", "-t", "orders", *patience, stdin="no room\n")
        assert refused.returncode == 1
        assert "KAFKA_STORAGE_ERROR" in refused.stderr
        assert broker.stop() == 0
        assert "Traceback" not in broker.output
    with TidelogProcess(tmp_path) as again:
        assert ok(again.bootstrap, "consume", "-t", "orders", "-e") == "kept\n"


@pytest.mark.timed
def test_a_broker_that_was_killed_is_named_long_before_zookeeper_gives_it_up(tmp_path: Path) -> None:
    with (
        ZooKeeperEnsemble(tmp_path / "ensemble", servers=1) as ensemble,
        TidelogCluster(tmp_path / "brokers", {"zookeeper.connect": ensemble.connect_string}) as cluster,
    ):
        ok(cluster.bootstrap, "topics", "create", "orders", "--partitions", "3")
        healthy = json.loads(ok(cluster.bootstrap, "status", "--format", "json"))
        assert all(broker["size_bytes"] is not None for broker in healthy["brokers"])
        cluster.kill(2)
        seen = tidelog(cluster.bootstrap, "status")
        assert seen.returncode == 1
        assert "broker 2" in seen.stdout
        content = json.loads(tidelog(cluster.bootstrap, "status", "--format", "json").stdout)
        assert content["unreachable_brokers"] == [2]
        assert all(each["size_bytes"] is not None for each in content["brokers"] if each["broker"] != 2)


@pytest.mark.parametrize(("broker_count", "size"), [(1, "40m"), pytest.param(3, "120m", marks=pytest.mark.timed)])
def test_on_a_disk_that_is_really_full_room_can_be_made_and_stops_and_starts_are_clean(
    broker_count: int, size: str, tmp_path: Path
) -> None:
    mount = f"mount -t tmpfs -o size={size} tmpfs {tmp_path}"
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    try:
        can_mount = subprocess.run([*command, mount], check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        can_mount = False
    if not can_mount:
        pytest.skip("a small file system cannot be mounted here")
    story = f'{mount} && "$0" -m tests.cli.full_disk {tmp_path} {broker_count}'
    done = subprocess.run([*command, story, sys.executable], check=False, capture_output=True, text=True, timeout=230)
    assert done.returncode == 0, done.stdout + done.stderr
