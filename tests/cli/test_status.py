"""What `tidelog status` makes of a cluster, healthy or not."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tidelog.cli.status import Status
from tidelog.client import ClusterDescription, Leader, LogDirDescription, PartitionMetadata, TopicMetadata
from tidelog.model import BrokerEndpoint, ErrorCode, TopicPartition
from tidelog.testing import Cluster

BROKERS = (BrokerEndpoint(1, "a", 9092, "east"), BrokerEndpoint(2, "b", 9092))
CLUSTER = ClusterDescription(cluster_id="id", controller_id=2, brokers=BROKERS)


def partition(index: int, *, leader: int = 1, isr: tuple[int, ...] = (1, 2)) -> PartitionMetadata:
    return PartitionMetadata(index=index, leader=Leader(leader, 0), replicas=(1, 2), isr=isr)


def directory(size: int, *, free: int = -1, code: ErrorCode = ErrorCode.NONE) -> LogDirDescription:
    return LogDirDescription(path="/logs", code=code, sizes={TopicPartition("orders", 0): size}, usable_bytes=free)


def status(*partitions: PartitionMetadata, directories: dict[int, LogDirDescription | str] | None = None) -> Status:
    topic = TopicMetadata(name="orders", topic_id=None, is_internal=False, partitions=partitions)
    told = {key: each if isinstance(each, str) else [each] for key, each in (directories or {}).items()}
    return Status(cluster=CLUSTER, topics=[topic], directories=told)


def test_a_healthy_cluster_in_a_few_lines() -> None:
    text = status(
        partition(0),
        partition(1, leader=2),
        directories={1: directory(1500, free=7_000_000_000), 2: directory(2_000_000)},
    ).as_text(in_colour=False)
    assert text == (
        "cluster     id\n"
        "controller  broker 2\n"
        "topics      1\n"
        "partitions  2\n"
        "size        2.0 MB\n"
        "health      all partitions are in sync\n"
        "\n"
        "BROKER  ADDRESS  RACK  LEADERS  REPLICAS    SIZE    FREE\n"
        "1       a:9092   east        1         2  1.5 kB  7.0 GB\n"
        "2*      b:9092   -           1         2  2.0 MB       -\n"
    )


def test_what_is_wrong_is_listed() -> None:
    found = status(partition(0), partition(1, isr=(1,)), partition(2, leader=-1, isr=()))
    assert [(row["partition"], row["trouble"]) for row in found.troubles] == [(1, "under-replicated"), (2, "no leader")]
    assert "1 without a leader, 1 under-replicated" in found.as_text(in_colour=False)


def test_programs_get_numbers() -> None:
    content = json.loads(status(partition(0, isr=(1,)), directories={1: directory(5), 2: "gone"}).as_json())
    assert (content["topics"], content["partitions"], content["under_replicated_partitions"]) == (1, 1, 1)
    assert content["size_bytes"] == 5
    assert [broker["size_bytes"] for broker in content["brokers"]] == [5, None]
    assert [broker["is_controller"] for broker in content["brokers"]] == [False, True]


def test_partitions_that_refuse_acks_all_are_told_apart() -> None:
    topic = TopicMetadata(name="orders", topic_id=None, is_internal=False, partitions=(partition(0, isr=(1,)),))
    found = Status(cluster=CLUSTER, topics=[topic], directories={}, min_isr={"orders": 2})
    assert [row["trouble"] for row in found.troubles] == ["under-replicated, acks=all refused"]
    assert "1 under-replicated (1 below min.insync.replicas)" in found.as_text(in_colour=False)
    assert json.loads(found.as_json())["under_min_isr_partitions"] == 1


def test_a_broker_that_does_not_answer_is_named_though_everything_seems_to_be_in_sync() -> None:
    found = status(partition(0), directories={1: directory(5), 2: "connection refused"})
    assert not found.is_healthy
    assert "health      broker 2 does not answer (connection refused)\n" in found.as_text(in_colour=False)
    content = json.loads(found.as_json())
    assert content["unreachable_brokers"] == [2]
    assert [broker["error"] for broker in content["brokers"]] == [None, "connection refused"]


def test_a_broker_that_was_given_up_is_named_as_long_as_replicas_are_assigned_to_it() -> None:
    topic = TopicMetadata(name="orders", topic_id=None, is_internal=False, partitions=(partition(0, isr=(1,)),))
    alone = ClusterDescription(cluster_id="id", controller_id=1, brokers=BROKERS[:1])
    found = Status(cluster=alone, topics=[topic], directories={1: [directory(5)]})
    assert "health      broker 2 is gone (1 replica assigned); 0 without a leader, 1 under" in found.as_text(
        in_colour=False
    )
    assert json.loads(found.as_json())["missing_brokers"] == [2]


def test_a_cluster_in_which_nobody_decides_is_not_healthy() -> None:
    nobody = ClusterDescription(cluster_id="id", controller_id=-1, brokers=BROKERS)
    found = Status(cluster=nobody, topics=[], directories={})
    assert not found.is_healthy
    assert "controller  -\n" in found.as_text(in_colour=False)
    assert "health      there is no controller: nothing can be decided\n" in found.as_text(in_colour=False)
    assert json.loads(found.as_json())["controller"] is None


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (directory(5, free=0), "broker 1: /logs is full (0 B free)"),
        (directory(5, code=ErrorCode.KAFKA_STORAGE_ERROR), "broker 1: /logs has failed (KAFKA_STORAGE_ERROR)"),
    ],
)
def test_a_log_directory_that_takes_nothing_more_is_named(bad: LogDirDescription, problem: str) -> None:
    found = status(partition(0), directories={1: bad, 2: directory(5, free=10**9)})
    assert not found.is_healthy
    assert problem in found.as_text(in_colour=False)
    assert json.loads(found.as_json())["bad_log_directories"] == [problem]


@pytest.mark.slow
def test_a_broker_that_hangs_is_named_long_before_its_session_ends() -> None:
    with Cluster(3, topics=["orders"]) as kafka:
        healthy = _status(kafka)
        assert healthy.returncode == 0
        assert all(broker["size_bytes"] is not None for broker in json.loads(healthy.stdout)["brokers"])
        kafka.pause(2)
        try:
            seen = _status(kafka)
            assert seen.returncode == 1
            content = json.loads(seen.stdout)
            assert content["unreachable_brokers"] + content["missing_brokers"] == [2]
        finally:
            kafka.resume(2)


def _status(kafka: Cluster) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tidelog", "status", "-b", kafka.bootstrap_servers, "--format", "json"]
    return subprocess.run(command, capture_output=True, text=True, check=False)
