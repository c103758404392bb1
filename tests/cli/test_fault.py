"""`tidelog fault`: what the test kit does, for programs in other languages."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

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


def test_a_broker_that_was_not_started_for_tests_refuses() -> None:
    with Cluster(1, config={"tidelog.faults.enable": False}) as serious:
        refused = fault(serious, "fill-disk", "1")
    assert refused.returncode == 1
    assert "broker 1 was not started for tests, with tidelog.faults.enable=true" in refused.stderr


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
