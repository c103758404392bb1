"""What a broker says when it cannot join: somebody has its number, its directory, or nobody keeps the registry."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.compatibility.processes import RunningProcess

pytestmark = pytest.mark.slow


def command(directory: Path, *settings: str, registry: Path) -> list[str]:
    """One broker with its own directory on a registry."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "server.properties"
    file.write_text(
        f"node.id=1\nlisteners=PLAINTEXT://127.0.0.1:0\nlog.dirs={directory / 'logs'}\ntidelog.registry.path={registry}\n"
    )
    given = [word for setting in settings for word in ("-X", setting)]
    return [sys.executable, "-m", "tidelog", "broker", "--config", str(file), *given]


def refused(line: list[str]) -> str:
    """The last words of a broker that could not serve."""
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return done.stderr


def test_a_number_that_a_live_broker_has(tmp_path: Path) -> None:
    registry = tmp_path / "registry.sqlite"
    with RunningProcess(command(tmp_path / "a", registry=registry)) as first:
        first.wait_for("^ready")
        said = refused(command(tmp_path / "b", registry=registry))
        assert "broker" in said
        assert "1" in said
        assert first.process.poll() is None


def test_a_directory_of_another_cluster(tmp_path: Path) -> None:
    with RunningProcess(command(tmp_path / "a", registry=tmp_path / "first.sqlite")) as first:
        first.wait_for("^ready")
    said = refused(command(tmp_path / "a", registry=tmp_path / "second.sqlite"))
    assert "has cluster id" in said
    assert str(tmp_path / "a" / "logs") in said


def test_a_directory_of_another_broker(tmp_path: Path) -> None:
    registry = tmp_path / "registry.sqlite"
    with RunningProcess(command(tmp_path / "a", registry=registry)) as first:
        first.wait_for("^ready")
    assert "this is 2" in refused(command(tmp_path / "a", "node.id=2", registry=registry))


def test_a_registry_that_is_down(tmp_path: Path) -> None:
    zookeeper = ("zookeeper.connect=127.0.0.1:1", "zookeeper.connection.timeout.ms=300")
    assert "127.0.0.1:1" in refused(command(tmp_path / "a", *zookeeper, registry=tmp_path / "r"))


def test_the_switch_of_the_laboratory_is_refused_alone_and_loud_together(tmp_path: Path) -> None:
    truncation = "replication.truncation=high-watermark"
    alone = command(tmp_path / "a", truncation, registry=tmp_path / "r")
    done = subprocess.run(alone, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "tidelog.lab.enable" in done.stderr
    both = command(tmp_path / "a", truncation, "tidelog.lab.enable=true", registry=tmp_path / "r")
    with RunningProcess(both) as broker:
        broker.wait_for("LAB ONLY: THIS BROKER LOSES ACKNOWLEDGED RECORDS")
