"""`tidelog broker`: a file, the environment and -X make a broker; stderr and the exit code tell how it went."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.compatibility.processes import RunningProcess

COMMAND = [sys.executable, "-m", "tidelog", "broker"]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(f"node.id=4\nlisteners=PLAINTEXT://127.0.0.1:0\nlog.dirs={tmp_path / 'logs'}\nnum.io.threads=8\n")
    return path


def refused(*arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.slow
def test_it_serves_logs_to_stderr_and_stops_with_0(config: Path, tmp_path: Path) -> None:
    environment = {"KAFKA_NUM_PARTITIONS": "3", "KAFKA_OPTS": "-Dx=y", "KAFKA_NODE_ID": "9"}
    command = [*COMMAND, "--config", str(config), "-X", "node.id=5"]
    with RunningProcess(command, environment=environment) as broker:
        host, _, port = broker.wait_for(r"^ready bootstrap=(\S+)$")[1].rpartition(":")
        socket.create_connection((host, int(port)), timeout=60).close()
        assert broker.stop() == 0
    assert "broker ready broker_id=5" in broker.output
    assert "setting has no effect name=num.io.threads" in broker.output
    assert "environment variable is not a setting name=KAFKA_OPTS" in broker.output
    assert (tmp_path / "logs" / "meta.properties").exists()


def test_a_file_is_needed() -> None:
    done = refused()
    assert done.returncode == 2
    assert "--config" in done.stderr


def test_a_wrong_setting_exits_with_2(config: Path) -> None:
    done = refused("--config", str(config), "-X", "num.partitions=none")
    assert done.returncode == 2
    assert "num.partitions" in done.stderr


def test_a_setting_that_would_protect_it_keeps_it_from_starting(config: Path) -> None:
    done = refused("--config", str(config), "-X", "ssl.key.password=secret")
    assert done.returncode == 2
    assert "open to everybody" in done.stderr
    assert "secret" not in done.stderr


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = refused("--config", str(tmp_path / "none"))
    assert done.returncode == 2
    assert done.stderr == f"tidelog: --config {tmp_path / 'none'}: No such file or directory\n"


@pytest.mark.slow
def test_a_taken_port_exits_with_1_and_says_how_to_choose_another(config: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listener = f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}"
        done = refused("--config", str(config), "-X", f"listeners={listener}")
    assert done.returncode == 1
    assert "listeners=PLAINTEXT://HOST:PORT" in done.stderr
