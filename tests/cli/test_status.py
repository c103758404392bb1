"""What `tidelog status` makes of a cluster, healthy or not."""

from __future__ import annotations

import json

from tidelog.cli.status import Status
from tidelog.client import ClusterDescription, Leader, PartitionMetadata, TopicMetadata
from tidelog.model import BrokerEndpoint

BROKERS = (BrokerEndpoint(1, "a", 9092, "east"), BrokerEndpoint(2, "b", 9092))
CLUSTER = ClusterDescription(cluster_id="id", controller_id=2, brokers=BROKERS)


def partition(index: int, *, leader: int = 1, isr: tuple[int, ...] = (1, 2)) -> PartitionMetadata:
    return PartitionMetadata(index=index, leader=Leader(leader, 0), replicas=(1, 2), isr=isr)


def status(*partitions: PartitionMetadata, sizes: dict[int, int] | None = None) -> Status:
    topic = TopicMetadata(name="orders", topic_id=None, is_internal=False, partitions=partitions)
    return Status(cluster=CLUSTER, topics=[topic], sizes={} if sizes is None else sizes)


def test_a_healthy_cluster_in_a_few_lines() -> None:
    text = status(partition(0), partition(1, leader=2), sizes={1: 1500, 2: 2_000_000}).as_text(in_colour=False)
    assert text == (
        "cluster     id\n"
        "controller  broker 2\n"
        "topics      1\n"
        "partitions  2\n"
        "size        2.0 MB\n"
        "health      all partitions are in sync\n"
        "\n"
        "BROKER  ADDRESS  RACK  LEADERS  REPLICAS    SIZE\n"
        "1       a:9092   east        1         2  1.5 kB\n"
        "2*      b:9092   -           1         2  2.0 MB\n"
    )


def test_what_is_wrong_is_listed() -> None:
    found = status(partition(0), partition(1, isr=(1,)), partition(2, leader=-1, isr=()))
    assert [(row["partition"], row["trouble"]) for row in found.troubles] == [(1, "under-replicated"), (2, "no leader")]
    assert "1 without a leader, 1 under-replicated" in found.as_text(in_colour=False)


def test_programs_get_numbers() -> None:
    content = json.loads(status(partition(0, isr=(1,)), sizes={1: 5}).as_json())
    assert (content["topics"], content["partitions"], content["under_replicated_partitions"]) == (1, 1, 1)
    assert content["size_bytes"] == 5
    assert [broker["size_bytes"] for broker in content["brokers"]] == [5, None]
    assert [broker["is_controller"] for broker in content["brokers"]] == [False, True]


def test_partitions_that_refuse_acks_all_are_told_apart() -> None:
    topic = TopicMetadata(name="orders", topic_id=None, is_internal=False, partitions=(partition(0, isr=(1,)),))
    found = Status(cluster=CLUSTER, topics=[topic], sizes={}, min_isr={"orders": 2})
    assert [row["trouble"] for row in found.troubles] == ["under-replicated, acks=all refused"]
    assert "1 under-replicated (1 below min.insync.replicas)" in found.as_text(in_colour=False)
    assert json.loads(found.as_json())["under_min_isr_partitions"] == 1
