"""Ctrl-C in `tidelog produce` while lines wait: they are waited for, which is said, and what is given up is counted."""

from __future__ import annotations

import fcntl
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.waiting import eventually
from tidelog.testing import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture
def kafka() -> Iterator[Cluster]:
    with Cluster(1, topics=["orders"]) as cluster:
        yield cluster


def producer(kafka: Cluster, lines: bytes) -> subprocess.Popen[bytes]:
    """One that has read these lines, and waits for more."""
    command = [sys.executable, "-m", "tidelog", "produce", "-b", kafka.bootstrap_servers, "-t", "orders"]
    started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert started.stdin is not None
    started.stdin.write(lines)
    started.stdin.flush()
    eventually(lambda: _unread(started) == 0, "the lines are read")
    looks = iter(range(10_000))
    quiet: list[int] = []

    def is_quiet() -> bool:
        quiet.append(next(looks)) if _sleeps(started.pid) else quiet.clear()
        return len(quiet) >= 5

    eventually(is_quiet, "it has done with them what can be done")
    return started


def _unread(process: subprocess.Popen[bytes]) -> int:
    assert process.stdin is not None
    (count,) = struct.unpack("i", fcntl.ioctl(process.stdin, termios.FIONREAD, bytes(4)))
    return int(count)


def _sleeps(pid: int) -> bool:
    states = [each.read_text().rpartition(") ")[2][0] for each in Path(f"/proc/{pid}/task").glob("*/stat")]
    return set(states) == {"S"}


def interrupted_until(process: subprocess.Popen[bytes], pattern: str) -> None:
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    said = process.stderr.readline().decode()
    assert re.search(pattern, said), said


def test_lines_that_wait_for_metadata_are_delivered_after_ctrl_c(kafka: Cluster) -> None:
    kafka.pause(1)
    with producer(kafka, b"one\ntwo\n") as process:
        interrupted_until(process, "waiting for 1 record to be acknowledged; Ctrl-C again gives up")
        kafka.resume(1)
        assert process.wait(120) == 130
    assert [each.value for each in kafka.records("orders")] == [b"one", b"two"]


def test_lines_that_are_given_up_are_counted(kafka: Cluster) -> None:
    kafka.fail("Produce", "KAFKA_STORAGE_ERROR", times=None)
    with producer(kafka, b"one\ntwo\n") as process:
        interrupted_until(process, "waiting for 2 records to be acknowledged")
        interrupted_until(process, "2 records not delivered")
        assert process.wait(120) == 130
        assert process.stderr is not None
        assert b"KAFKA_STORAGE_ERROR" in process.stderr.read()  # and why
    kafka.end_faults()
    assert kafka.records("orders") == []
