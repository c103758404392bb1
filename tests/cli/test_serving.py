"""`tidelog up` as a process: what it prints, how it stops, what it says when it cannot start."""

from __future__ import annotations

import os
import pty
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.shell import on_terminal
from tests.compatibility.processes import RunningProcess, TidelogProcess

pytestmark = pytest.mark.slow


def up(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tidelog", "up", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def connect(bootstrap: str) -> None:
    host, _, port = bootstrap.rpartition(":")
    socket.create_connection((host, int(port)), timeout=60).close()


@pytest.mark.timed
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly_within_three_seconds(number: signal.Signals, tmp_path: Path) -> None:
    with TidelogProcess(tmp_path) as broker:
        connect(broker.bootstrap)
        asked = time.monotonic()
        broker.process.send_signal(number)
        assert broker.process.wait(3) == 0
        assert time.monotonic() - asked < 3


@pytest.mark.timed
def test_a_client_that_never_lets_go_does_not_delay_the_stop(tmp_path: Path) -> None:
    with TidelogProcess(tmp_path) as broker, socket.create_connection(("127.0.0.1", broker.port), timeout=60):
        broker.process.send_signal(signal.SIGTERM)
        assert broker.process.wait(3) == 0


def test_stdout_is_the_ready_line_and_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tidelog", "up", "--port", "0", "--data", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
    assert first.startswith("ready bootstrap=127.0.0.1:")
    assert rest == ""


def test_on_a_terminal_it_also_says_where_things_are_and_what_to_try(tmp_path: Path) -> None:
    said = on_terminal([sys.executable, "-m", "tidelog", "up", "--port", "0", "--data", str(tmp_path)])
    assert "ready bootstrap=127.0.0.1:" in said
    assert str(tmp_path / "broker-1") in said
    assert str(tmp_path / "logs" / "broker-1.log") in said
    assert f"{sys.executable} -m tidelog produce -b 127.0.0.1:" in said


def test_a_taken_port_is_named_and_another_way_shown(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = up("--port", str(port), "--data", str(tmp_path))
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "--port 0" in done.stderr
    assert f"held by process {os.getpid()}: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_taken_port_for_metrics_is_not_taken_for_the_brokers(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listener = f"metrics.listeners=http://127.0.0.1:{taken.getsockname()[1]}"
        done = up("--port", "0", "--data", str(tmp_path), "-X", listener)
    assert done.returncode == 1
    assert "-X metrics.listeners=http://HOST:PORT shows the metrics elsewhere" in done.stderr
    assert "--port" not in done.stderr


def test_a_host_that_is_not_ours_is_no_matter_of_ports(tmp_path: Path) -> None:
    done = up("--port", "0", "--data", str(tmp_path), "--host", "192.0.2.1")
    assert done.returncode == 1
    assert "cannot listen on 192.0.2.1:0" in done.stderr
    assert "--host HOST chooses another address of this machine" in done.stderr
    assert "--port" not in done.stderr


def test_ephemeral_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tidelog", "up", "--port", "0", "--ephemeral"]
    with RunningProcess(command, environment={"TMPDIR": str(tmp_path)}) as broker:
        broker.wait_for("^ready bootstrap=")
        [directory] = tmp_path.iterdir()
        assert (directory / "broker-1" / "meta.properties").exists()
        assert broker.stop() == 0
    assert list(tmp_path.iterdir()) == []


def test_a_data_directory_in_use_is_refused(tmp_path: Path) -> None:
    with TidelogProcess(tmp_path) as broker:
        done = up("--port", "0", "--data", str(tmp_path))
    assert done.returncode == 1
    assert str(tmp_path / "broker-1") in done.stderr
    assert f"held by process {broker.pid}: " in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_setting_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    done = up("--data", str(tmp_path), "-X", "num.partition=3")
    assert done.returncode == 2
    assert "did you mean num.partitions?" in done.stderr


def test_a_data_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = up("--data", str(tmp_path / "file" / "data"))
    assert done.returncode == 1
    assert "cannot make" in done.stderr


def test_data_survives_the_next_start_and_a_kill(tmp_path: Path) -> None:
    for stop in ("stop", "kill"):
        with TidelogProcess(tmp_path) as broker:
            send(broker, f"before {stop}")
            broker.stop() if stop == "stop" else broker.kill()
    with TidelogProcess(tmp_path) as broker:
        assert read_all(broker) == ["before stop", "before kill"]


def send(broker: RunningProcess, text: str) -> None:
    tidelog(broker, "produce", "-t", "kept", stdin=text)


def read_all(broker: RunningProcess) -> list[str]:
    return tidelog(broker, "consume", "-t", "kept", "-e").splitlines()


def tidelog(broker: RunningProcess, command: str, *arguments: str, stdin: str = "") -> str:
    assert isinstance(broker, TidelogProcess)
    line = [sys.executable, "-m", "tidelog", command, "-b", broker.bootstrap, *arguments]
    done = subprocess.run(line, input=stdin, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_reader_that_leaves_early_ends_the_writer_quietly(tmp_path: Path) -> None:
    with TidelogProcess(tmp_path) as broker:
        tidelog(broker, "produce", "-t", "many", stdin="x\n" * 50_000)
        command = [sys.executable, "-m", "tidelog", "consume", "-b", broker.bootstrap, "-t", "many"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as consumer:
            assert consumer.stdout is not None
            assert consumer.stderr is not None
            assert consumer.stdout.readline() == b"x\n"
            consumer.stdout.close()
            assert consumer.stderr.read() == b""
            assert consumer.wait(60) == 141


def test_ctrl_c_ends_a_consumer_quietly(tmp_path: Path) -> None:
    with TidelogProcess(tmp_path) as broker:
        tidelog(broker, "produce", "-t", "few", stdin="x")
        command = [sys.executable, "-m", "tidelog", "consume", "-b", broker.bootstrap, "-t", "few"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as consumer:
            assert consumer.stdout is not None
            assert consumer.stderr is not None
            assert consumer.stdout.readline() == b"x\n"
            consumer.send_signal(signal.SIGINT)
            assert consumer.stderr.read() == b""
            assert consumer.wait(60) == 130


def test_ctrl_c_ends_a_producer_that_is_typed_to_and_what_was_typed_is_there(tmp_path: Path) -> None:
    with TidelogProcess(tmp_path) as broker:
        command = [
            sys.executable,
            "-m",
            "tidelog",
            "produce",
            "-b",
            broker.bootstrap,
            "-t",
            "kept",
            "-v",
            "-X",
            "linger.ms=0",
        ]
        ours, theirs = pty.openpty()
        with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as producer:
            os.close(theirs)
            assert producer.stdout is not None
            assert producer.stderr is not None
            os.write(ours, b"one\ntwo\n")
            assert producer.stdout.readline() == b"kept-0@0\n"  # it reads on, and waits for the next line
            producer.send_signal(signal.SIGINT)
            assert producer.stderr.read() == b""
            assert producer.wait(60) == 130
        os.close(ours)
        assert read_all(broker) == ["one", "two"]
