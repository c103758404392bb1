"""The admin clients of Java 3.9, Java 4.x and KafkaJS, unmodified, against a broker as a user starts it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.compatibility.drivers import ClientError, Driver, Received
from tests.compatibility.message import messages
from tests.compatibility.processes import TidelogProcess

pytestmark = [pytest.mark.compat, pytest.mark.slow]


@contextmanager
def refusal(name: str) -> Iterator[None]:
    """What is done inside must fail with this error of the client."""
    with pytest.raises(ClientError) as raised:
        yield
    assert raised.value.name == name, raised.value


def test_a_topic_comes_and_goes(client: Driver, topic: str) -> None:
    client.ask("create", topic, 3, "retention.ms=86400000")
    assert [row[:4] for row in client.ask("describe", topic)] == [[str(index), "1", "1", "1"] for index in range(3)]
    assert topic in client.ask("topics")[0]
    client.ask("delete", topic)
    assert topic not in client.ask("topics")[0]


def test_java_is_told_the_settings_of_the_topic_it_creates(java: Driver, topic: str) -> None:
    (partitions, replicas, topic_id), *settings = java.ask("create", topic, 2, "retention.ms=86400000")
    assert (partitions, replicas) == ("2", "1")
    assert settings == [["retention.ms", "86400000", "DYNAMIC_TOPIC_CONFIG"]]
    assert {row[4] for row in java.ask("describe", topic)} == {topic_id}


@pytest.mark.parametrize(
    ("configs", "name"),
    [("", "TopicExistsException"), ("retention.ms=soon", "InvalidConfigurationException")],
    ids=["exists", "bad setting"],
)
def test_java_hears_why_a_topic_is_not_created(java: Driver, topic: str, configs: str, name: str) -> None:
    java.ask("create", topic, 1, "")
    with refusal(name):
        java.ask("create", topic if not configs else f"{topic}-2", 1, configs)


def test_java_hears_that_a_topic_is_unknown(java: Driver) -> None:
    with refusal("UnknownTopicOrPartitionException"):
        java.ask("delete", "never-made")


def test_the_cluster_is_described(client: Driver, tidelog: TidelogProcess) -> None:
    (_, cluster_id), *rest = client.ask("cluster")
    assert re.fullmatch(r"[\w-]{22}", cluster_id)
    assert rest == [["controller", "1"], ["broker", "1", tidelog.bootstrap]]


def test_records_before_an_offset_are_deleted(client: Driver, topic: str) -> None:
    client.produce(topic, messages(), compression_type="zstd")
    client.ask("delete-records", topic, 0, 20)
    found = client.positions(topic)
    assert (found["beginning"].offset, found["end"].offset) == (20, 54)
    received = client.consume(topic, 34, where=20)
    assert received == [Received(offset, messages()[offset]) for offset in range(20, 54)]


def test_java_deletes_all_records_and_is_told_the_new_start(java: Driver, topic: str) -> None:
    java.produce(topic, messages())
    assert java.ask("delete-records", topic, 0, 20) == [["20"]]
    assert java.ask("delete-records", topic, 0, 10) == [["20"]]
    assert java.ask("delete-records", topic, 0, -1) == [["54"]]
    assert java.positions(topic)["beginning"].offset == 54
    with refusal("OffsetOutOfRangeException"):
        java.ask("delete-records", topic, 0, 55)


def test_java_sees_where_a_partition_lies_and_how_large_it_is(
    java: Driver, tidelog: TidelogProcess, topic: str
) -> None:
    java.ask("create", topic, 2, "")
    java.produce(topic, messages())
    size = (tidelog.log_dir / f"{topic}-0" / f"{0:020}.log").stat().st_size
    assert java.ask("log-directories", topic) == [
        [str(tidelog.log_dir), f"{topic}-0", str(size), "0", "false"],
        [str(tidelog.log_dir), f"{topic}-1", "0", "0", "false"],
    ]


def test_java_sees_who_produced_last(java: Driver, topic: str) -> None:
    java.produce(topic, messages(), enable_idempotence="true")
    ((producer_id, epoch, sequence, timestamp),) = java.ask("producers", topic, 0)
    assert int(producer_id) >= 0
    assert (epoch, sequence, int(timestamp)) == ("0", "53", messages()[-1].timestamp_ms)


def test_java_hears_that_a_topic_to_describe_is_unknown(java: Driver) -> None:
    with refusal("UnknownTopicOrPartitionException"):
        java.ask("describe", "never-made")
