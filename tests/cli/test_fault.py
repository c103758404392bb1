"""`tidelog fault`: what the test kit does, for programs in other languages."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compatibility.processes import TidelogUp
from tidelog.testing import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def kafka() -> Iterator[Cluster]:
    with Cluster(2, topics={"orders": 1}) as cluster:
        yield cluster


def fault(kafka: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tidelog", "fault", *words, "-b", kafka.bootstrap_servers]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def done(kafka: Cluster, *words: str) -> str:
    finished = fault(kafka, *words)
    assert (finished.returncode, finished.stderr) == (0, "")
    return finished.stdout


def test_faults_begin_are_listed_and_end(kafka: Cluster) -> None:
    done(kafka, "cut", "1", "2")
    done(kafka, "cut", "clients", "2")
    done(kafka, "fill-disk", "1")
    done(kafka, "answer", "produce", "NOT_LEADER_OR_FOLLOWER", "--times", "0", "--broker", "1")
    done(kafka, "delay", "FETCH", "250", "--broker", "1", "--of-brokers")
    assert [(row["broker"], row["fault"]) for row in json.loads(done(kafka, "list", "--format", "json"))] == [
        (1, "cut from broker 2"),
        (1, "disk full"),
        (1, "Produce answered with NOT_LEADER_OR_FOLLOWER, until it is ended"),
        (1, "Fetch of brokers 250 ms late, until it is ended"),
        (2, "cut from broker 1"),
        (2, "cut from clients"),
    ]
    done(kafka, "mend", "2", "1")
    done(kafka, "free-disk", "1")
    assert kafka.faults()[2] == ["cut from clients"]
    done(kafka, "mend")
    assert kafka.faults()[2] == []
    assert len(kafka.faults()[1]) == 2
    done(kafka, "end")
    assert kafka.faults() == {1: [], 2: []}


def test_all_links_of_one_broker_are_mended_and_no_others(kafka: Cluster) -> None:
    done(kafka, "cut", "1", "2")
    done(kafka, "cut", "1", "clients")
    done(kafka, "cut", "2", "clients")
    done(kafka, "mend", "1")
    assert kafka.faults() == {1: [], 2: ["cut from clients"]}
    done(kafka, "mend", "2")
    assert kafka.faults() == {1: [], 2: []}


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("cut", "1", "1"), 2, "a link has two ends: two brokers, or a broker and `clients`"),
        (("cut", "clients", "clients"), 2, "a link has two ends"),
        (("cut", "1", "x"), 2, "'x' is not a broker id"),
        (("mend", "x"), 2, "'x' is not a broker id"),
        (("mend", "7"), 1, "broker 7 is not there; there are 1,2"),
        (("cut", "1", "7"), 1, "broker 7 is not there; there are 1,2"),
        (("fill-disk", "7"), 1, "broker 7 is not there"),
        (("kill", "7"), 1, "broker 7 is not there; there are 1,2"),
        (("resume", "7"), 1, "no broker 7 is paused on this machine"),
        (("move-leader", "nosuch"), 1, "there is no topic 'nosuch': UNKNOWN_TOPIC_OR_PARTITION"),
        (("move-leader", "orders", "5"), 1, "topic 'orders' has no partition 5: it has 1, numbered from 0"),
        (("move-leader", "orders", "--to", "7"), 1, "broker 7 is not in sync in orders-0: [1, 2] are"),
        (("answer", "Prodce", "NONE"), 2, "did you mean Produce?"),
        (("answer", "Produce", "NONE"), 1, "an error other than NONE"),
        (("delay", "Fetch", "0"), 2, "'0' is not a number of milliseconds (1 to 600000)"),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence(kafka: Cluster, words: tuple[str, ...], code: int, sentence: str) -> None:
    finished = fault(kafka, *words)
    assert finished.returncode == code
    assert sentence in finished.stderr
    assert kafka.faults() == {1: [], 2: []}


@pytest.mark.parametrize("verb", ["fill-disk", "kill", "pause", "restart"])
def test_a_broker_that_was_not_started_for_tests_refuses(verb: str) -> None:
    with Cluster(1, config={"tidelog.faults.enable": False}) as serious:
        refused = fault(serious, verb, "1")
        assert serious.is_alive(1)
    assert refused.returncode == 1
    assert "broker 1 was not started for tests, with tidelog.faults.enable=true" in refused.stderr


def test_a_leader_and_a_coordinator_are_moved_to_whom_one_likes(kafka: Cluster) -> None:
    kafka.wait_for_isr("orders")
    for broker in (2, 1):
        assert done(kafka, "move-leader", "orders", "--to", str(broker)) == f"broker {broker} leads orders-0\n"
        assert kafka.leader("orders") == broker
    assert done(kafka, "move-leader", "orders", "0") == "broker 2 leads orders-0\n"
    first = kafka.coordinator("billing")
    assert done(kafka, "move-coordinator", "billing").startswith(
        f"broker {3 - first} looks after group billing, by __con"
    )
    assert kafka.coordinator("billing") == 3 - first


def test_a_paused_broker_is_silent_until_it_is_resumed(kafka: Cluster) -> None:
    assert done(kafka, "pause", "2").startswith("paused broker 2 (process ")
    assert state_of(kafka.pid(2)) == "T"
    assert done(kafka, "resume", "2").startswith("broker 2 goes on (process ")
    assert state_of(kafka.pid(2)) != "T"
    kafka.wait_for_isr("orders")


def test_a_killed_broker_is_gone_at_once(kafka: Cluster) -> None:
    assert done(kafka, "kill", "2").startswith("killed broker 2 (process ")
    assert kafka.wait_for_leader("orders", broker=1) == 1
    assert not kafka.is_alive(2)
    kafka.start_broker(2)
    kafka.wait_for_isr("orders")


def test_a_broker_is_restarted_where_somebody_starts_it_again(tmp_path: Path) -> None:
    with TidelogUp(tmp_path / "data", "-X", "tidelog.faults.enable=true") as up:
        command = [sys.executable, "-m", "tidelog", "fault", "restart", "2", "-b", up.bootstrap]
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stdout) == (0, "broker 2 was stopped and is back\n"), finished.stderr


def state_of(pid: int) -> str:
    """The letter for what a process does now."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize(
    "words",
    [
        ("fault", "list"),
        ("fault", "cut", "1", "2"),
        ("replicas",),
        ("configs", "describe", "broker", "1"),
        ("groups", "list"),
        ("transactions", "list"),
    ],
)
def test_a_command_that_nobody_answers_ends_and_says_why(words: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "tidelog", *words, "-b", "127.0.0.1:1", "-X", "default.api.timeout.ms=500"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert finished.returncode == 1
    assert "127.0.0.1:1 lost: Connection refused" in finished.stderr
