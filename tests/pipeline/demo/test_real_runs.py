"""Both demos as a person runs them, for a short while: with brokers, Spark and kills."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.waiting import eventually
from tests.compatibility.processes import RunningProcess
from tidelog.pipeline.demo.processes import session_members

pytestmark = [pytest.mark.spark, pytest.mark.proof, pytest.mark.timeout(600)]

PATIENCE_S = 500  # some twenty seconds are enough on a machine that has nothing else to do


@contextmanager
def demo(*words: str) -> Iterator[RunningProcess]:
    with RunningProcess([sys.executable, "-m", "tidelog", "demo", *words]) as process:
        yield process


def sessions_of(pid: int) -> list[int]:
    """The sessions of the programs that a demo has started: its children lead them."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def assert_gone(sessions: list[int]) -> None:
    left = [member for session in sessions for member in session_members(session)]
    assert left == []


def test_ctrl_c_while_spark_starts_ends_everything_without_a_word_of_python(tmp_path: Path) -> None:
    with demo("shop", "--port", "0", "--rate", "20", "--data", str(tmp_path / "shop")) as process:
        process.wait_for("3 brokers serve at", timeout_s=PATIENCE_S)
        sessions = eventually(lambda: found if len(found := sessions_of(process.pid)) == 2 else None, "Spark starts")
        os.kill(process.pid, signal.SIGINT)
        assert process.process.wait(60) == 0
    assert "stopping the orders, Spark and the brokers" in process.output
    assert "Traceback" not in process.output
    assert_gone(sessions)


def test_the_end_of_the_brokers_parent_ends_everything_and_is_told(tmp_path: Path) -> None:
    with demo("shop", "--port", "0", "--rate", "20", "--data", str(tmp_path / "shop")) as process:
        process.wait_for("3 brokers serve at", timeout_s=PATIENCE_S)
        sessions = eventually(lambda: found if len(found := sessions_of(process.pid)) == 2 else None, "Spark starts")
        (parent,) = [pid for pid in sessions if b"up" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
        os.kill(parent, signal.SIGKILL)
        assert process.process.wait(PATIENCE_S) == 1
    assert "the parent of the brokers ended with exit code -9" in process.output
    assert "Traceback" not in process.output
    eventually(lambda: not any(session_members(session) for session in sessions), "nobody is left")


def test_the_shop_cleans_enriches_and_adds_up_until_it_is_interrupted(tmp_path: Path) -> None:
    with demo("shop", "--port", "0", "--rate", "100", "--format", "json", "--data", str(tmp_path / "shop")) as process:
        found = process.wait_for(r'^\{.*"revenue_rows": [1-9]', timeout_s=PATIENCE_S)
        snapshot = json.loads(found.string)
        sessions = sessions_of(process.pid)
        os.kill(process.pid, signal.SIGINT)
        assert process.process.wait(60) == 0
    clean, revenue = snapshot["queries"]
    assert clean["rows"] >= revenue["rows"] > 0
    assert isinstance(clean["lag"], int)
    assert snapshot["cluster"]["is_current"]
    assert len(snapshot["cluster"]["brokers"]) == 3
    assert all(
        re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000Z", row["window_start"]) for row in snapshot["revenue"]
    )
    assert "Traceback" not in process.output
    assert_gone(sessions)


def test_what_is_killed_is_neither_lost_nor_doubled(tmp_path: Path) -> None:
    words = ("--seconds", "15", "--rate", "40", "--seed", "3", "--format", "json", "--data", str(tmp_path / "proof"))
    with demo("exactly-once", "--quiet", *words) as process:
        assert process.process.wait(PATIENCE_S) == 0, process.output
    proof = json.loads(process.output[process.output.index("{\n") :])
    assert proof["is_exact"] is True
    assert proof["verdict"]["records_in"] == proof["verdict"]["records_out"] > 100
    assert proof["verdict"]["windows"] > 0
    assert sum(proof["kills"].values()) > 0
    assert proof["seed"] == 3


def test_a_port_in_use_is_said_in_one_sentence(tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with demo("shop", "--port", str(port), "--brokers", "1", "--data", str(tmp_path / "shop")) as process:
            assert process.process.wait(120) == 1
    assert f"127.0.0.1:{port}" in process.output
    assert "Traceback" not in process.output
