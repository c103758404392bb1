"""The fixtures, in runs of pytest of their own, as a user's project has them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

_SHARED = """
def test_one(kafka, kafka_topic, kafka_bootstrap_servers):
    assert kafka_bootstrap_servers == kafka.bootstrap_servers
    kafka.produce(kafka_topic, ["x"])
    assert len(kafka.records(kafka_topic)) == 1
    print("topic", kafka_topic)

def test_other(kafka, kafka_cluster, kafka_topic):
    assert kafka is kafka_cluster
    assert kafka.records(kafka_topic) == []
    assert len(kafka.broker_ids) == 2
"""

_OWN = """
import pytest

@pytest.mark.kafka(brokers=3, topics={"orders": 2}, config={"min.insync.replicas": 3})
def test_own(kafka, kafka_cluster):
    assert kafka is not kafka_cluster
    assert len(kafka.broker_ids) == 3
    kafka.wait_for_isr("orders", 1, size=3)

@pytest.mark.parametrize("name", ["a b", "ü/x"])
def test_topic(kafka_topic, name):
    assert kafka_topic.isascii() and " " not in kafka_topic
"""

_FAILING = """
import pytest

@pytest.mark.kafka(brokers=3, topics=["orders"])
def test_fails(kafka):
    kafka.kill(2)
    assert kafka.leader("orders") == 9
"""

_RUINING = """
import os, signal

def test_kill(kafka):
    kafka.kill(2)

def test_pause(kafka):
    assert all(map(kafka.is_alive, kafka.broker_ids))
    kafka.pause(3)

def test_stop_without_the_kit(kafka_cluster):
    kafka_cluster.cut(1, 2)
    os.kill(kafka_cluster.pid(1), signal.SIGSTOP)
    kafka_cluster.fill_disk(2)

def test_other(kafka, kafka_topic):
    assert not any(kafka.faults().values())
    assert kafka.wait_for_isr(kafka_topic) == [1, 2, 3]
    kafka.produce(kafka_topic, ["x"])
    kafka.kill(kafka.leader(kafka_topic))
    assert len(kafka.records(kafka_topic)) == 1
"""


def run(place: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    place.joinpath("test_it.py").write_text(text)
    place.joinpath("pytest.ini").write_text("[pytest]\naddopts = --strict-markers -p no:cacheprovider\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "-v", *options]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)


def test_tests_share_a_cluster_and_have_topics_of_their_own(tmp_path: Path) -> None:
    done = run(tmp_path, _SHARED, "--kafka-brokers", "2")
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_a_marked_test_has_a_cluster_of_its_own_also_with_others_beside_it(tmp_path: Path) -> None:
    done = run(tmp_path, _OWN, "-n", "2", "-W", "error")
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout


def test_whatever_a_test_does_to_the_shared_cluster_the_next_one_finds_it_whole(tmp_path: Path) -> None:
    done = run(tmp_path, _RUINING, "--kafka-brokers", "3")
    assert "4 passed" in done.stdout, done.stdout
    assert "error" not in done.stdout


def test_a_failure_comes_with_a_picture_of_the_cluster(tmp_path: Path) -> None:
    done = run(tmp_path, _FAILING)
    assert done.returncode == 1
    assert "- Kafka replicas -" in done.stdout
    assert "orders          0" in done.stdout
    assert "- Kafka broker 1 -" in done.stdout
    assert "- Kafka broker 2, not running -" in done.stdout


_FAILING_OTHERWISE = """
import pytest

@pytest.fixture
def broken(kafka):
    kafka.kill(1)
    kafka.wait_for_leader("nosuch", timeout_s=0.1)

def test_setup(broken):
    pass

def test_session(kafka_cluster):
    kafka_cluster.pause(1)
    kafka_cluster.wait_for_leader("nosuch", timeout_s=0.1)
"""


@pytest.mark.proof
def test_so_does_one_in_a_fixture_and_one_of_a_test_that_asks_for_the_shared_cluster_only(tmp_path: Path) -> None:
    done = run(tmp_path, _FAILING_OTHERWISE)
    assert "1 failed, 1 error" in done.stdout
    assert "- Kafka broker 1, not running -" in done.stdout
    assert "- Kafka broker 1 -" in done.stdout
    assert done.stdout.count("- Kafka replicas -") == 2


@pytest.mark.proof
def test_what_a_verb_failed_with_is_shown_at_the_line_of_the_test(tmp_path: Path) -> None:
    done = run(tmp_path, _FAILING_OTHERWISE, "-k", "test_session")
    failure = done.stdout.split("test_session _")[1].split("- Kafka replicas -")[0]
    assert '>       kafka_cluster.wait_for_leader("nosuch", timeout_s=0.1)' in failure
    assert "NotInTime: a broker to lead nosuch-0: not within 0.1 s" in failure
    assert failure.count(".py:") == 1
    assert len(failure.splitlines()) < 15


@pytest.mark.parametrize(
    ("mark", "sentence"),
    [
        ("brokers=0", "a cluster has 1 to 9 brokers, not 0"),
        ("broker=3", "@pytest.mark.kafka takes brokers=, topics=, config=, not broker"),
        ("3", "@pytest.mark.kafka takes brokers=, topics=, config=, not 3"),
    ],
)
def test_a_mark_that_makes_no_sense_is_told_what_makes_some(tmp_path: Path, mark: str, sentence: str) -> None:
    done = run(tmp_path, f"import pytest\n@pytest.mark.kafka({mark})\ndef test_it(kafka):\n    pass\n")
    assert done.returncode != 0
    assert sentence in done.stdout + done.stderr


def test_settings_of_all_clusters_are_checked(tmp_path: Path) -> None:
    done = run(tmp_path, _SHARED, "--kafka-config", "num.partitions")
    assert "--kafka-config num.partitions: NAME=VALUE is wanted" in done.stdout + done.stderr


def test_tests_that_want_no_cluster_do_not_wait_for_one_to_be_imported() -> None:
    code = "import sys, tidelog.testing.pytest_plugin; print([name for name in ('asyncio', 'tidelog.client') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_test_process_does_without_the_broker() -> None:
    """The host that brokers are forked from imports it once; twice would be the longer half of the first start."""
    code = "import sys; from tidelog.testing import Cluster; print('tidelog.broker' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
