"""Moving in: a topic's directories that Apache Kafka has written are served as they are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # it does export it

from tests.compatibility.apache_kafka import KafkaProcess, ToolMissing, jars
from tests.compatibility.processes import TidelogProcess

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(240)]

TOPIC = "orders"
PARTITIONS = 2
OURS = "partition.metadata"  # names the topic's id, which is another one here

Read = list[tuple[int, int, bytes | None, bytes | None]]


def make_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
        made.result(60)


def fill(bootstrap: str) -> None:
    """All codecs, several segments' worth of batches, and transactions of both ends."""
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True})
        for number in range(200):
            producer.produce(TOPIC, key=b"%d" % number, value=codec.encode() * 50, partition=number % PARTITIONS)
        assert producer.flush(60) == 0
    for number in range(4):
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "moving"})
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce(TOPIC, key=b"transaction", value=b"%d" % number, partition=0)
        if number % 2:
            producer.commit_transaction(60)
        else:
            producer.flush(60)
            producer.abort_transaction(60)


def read(bootstrap: str, isolation: str) -> Read:
    """Everything there is, partition by partition."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "none",
        "isolation.level": isolation,
        "enable.partition.eof": True,
        "enable.auto.commit": False,
    }
    consumer = Consumer(settings)
    found: Read = []
    for index in range(PARTITIONS):
        consumer.assign([TopicPartition(TOPIC, index, OFFSET_BEGINNING)])
        while True:
            message = consumer.poll(60)
            assert message is not None
            if message.error():  # the end
                break
            found.append((index, message.offset() or 0, message.key(), message.value()))
    consumer.close()
    return found


def move(source: Path, target: Path) -> None:
    """What docs/operations.md says: Kafka's files in place of the empty ones."""
    for file in target.iterdir():
        if file.name != OURS:
            file.unlink()
    for file in source.iterdir():
        if file.name != OURS:
            shutil.copy2(file, target)


def test_what_kafka_has_written_is_served_and_written_on(tmp_path: Path) -> None:
    try:
        jars()
    except ToolMissing as missing:
        pytest.skip(str(missing))
    with KafkaProcess(tmp_path / "kafka") as kafka:
        make_topic(kafka.bootstrap)
        fill(kafka.bootstrap)
        told = {isolation: read(kafka.bootstrap, isolation) for isolation in ("read_committed", "read_uncommitted")}
        kafka.stop()
    data = tmp_path / "tidelog"
    with TidelogProcess(data) as broker:
        make_topic(broker.bootstrap)
        broker.stop()
    for index in range(PARTITIONS):
        move(kafka.log_dir / f"{TOPIC}-{index}", data / "broker-1" / f"{TOPIC}-{index}")
    with TidelogProcess(data) as broker:
        assert {isolation: read(broker.bootstrap, isolation) for isolation in told} == told
        producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
        producer.produce(TOPIC, value=b"more", partition=1)
        assert producer.flush(60) == 0
        assert read(broker.bootstrap, "read_committed") == [*told["read_committed"], (1, 500, None, b"more")]
