"""What `tidelog brokers` makes of a cluster."""

from __future__ import annotations

from tidelog.cli.brokers import broker_rows, directory_rows
from tidelog.client import ClusterDescription, Leader, LogDirDescription, PartitionMetadata, TopicMetadata
from tidelog.model import BrokerEndpoint, ErrorCode, TopicPartition

CLUSTER = ClusterDescription(
    cluster_id="id",
    controller_id=2,
    brokers=(BrokerEndpoint(1, "a", 9092, "east"), BrokerEndpoint(2, "b", 9093)),
)


def test_each_broker_with_what_it_leads_has_and_keeps_up_with() -> None:
    partitions = (
        PartitionMetadata(index=0, leader=Leader(1, 0), replicas=(1, 2), isr=(1, 2)),
        PartitionMetadata(index=1, leader=Leader(1, 0), replicas=(2, 1), isr=(1,)),
    )
    topics = [TopicMetadata(name="t", topic_id=None, is_internal=False, partitions=partitions)]
    first, second = broker_rows(CLUSTER, topics, {1: 77})
    assert (first["address"], first["rack"], first["is_controller"], first["controller"]) == (
        "a:9092",
        "east",
        False,
        None,
    )
    assert (first["leaders"], first["replicas"], first["in_sync"], first["epoch"]) == (2, 2, 2, 77)
    assert (second["controller"], second["leaders"], second["replicas"], second["in_sync"]) == ("*", 0, 2, 1)
    assert second["epoch"] is None


def test_a_directory_with_its_size_and_what_is_wrong_with_it() -> None:
    good = LogDirDescription(
        path="/a",
        code=ErrorCode.NONE,
        sizes={TopicPartition("t", 0): 1500, TopicPartition("t", 1): 500},
        usable_bytes=10_000,
    )
    bad = LogDirDescription(path="/b", code=ErrorCode.KAFKA_STORAGE_ERROR, sizes={})
    first, second = directory_rows([good, bad])
    assert (first["partitions"], first["size_bytes"], first["size"], first["free"]) == (2, 2000, "2.0 kB", "10.0 kB")
    assert (first["error"], second["error"], second["free"]) == (None, "KAFKA_STORAGE_ERROR", None)
