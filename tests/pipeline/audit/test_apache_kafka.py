"""Data directories that Apache Kafka wrote: sound as it left them, with transactions and a compacted topic; damage in them is found."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # it does export it

from tests.cluster.waiting import eventually
from tests.compatibility.apache_kafka import KafkaProcess, ToolMissing, jars
from tidelog.cli.main import main
from tidelog.model import TopicPartition
from tidelog.pipeline.audit.findings import Check
from tidelog.pipeline.audit.running import AuditPlan, audit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.proof, pytest.mark.spark, pytest.mark.timeout(300)]

COMPACTED = {"cleanup.policy": "compact", "segment.ms": "300", "min.cleanable.dirty.ratio": "0.01"}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaProcess]:
    try:
        jars()
    except ToolMissing as missing:
        pytest.skip(str(missing))
    properties = {"auto.create.topics.enable": "false", "log.cleaner.backoff.ms": "200"}
    with KafkaProcess(tmp_path_factory.mktemp("kafka"), properties=properties) as process:
        yield process


def fill(kafka: KafkaProcess) -> None:
    """A topic with codecs and transactions, and one whose log Kafka has compacted."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    topics = [NewTopic("orders", 2, 1), NewTopic("state", 1, 1, config=COMPACTED)]
    for future in admin.create_topics(topics).values():
        future.result(30)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        send(kafka, "orders", [(b"%d" % n, b"value " * 20) for n in range(50)], **{"compression.type": codec})
    for number in range(4):
        transaction(kafka, commits=number % 2 == 0)
    checkpoint = kafka.log_dir / "cleaner-offset-checkpoint"

    def is_compacted() -> bool:
        send(kafka, "state", [(b"key %d" % (n % 3), b"value %d" % n) for n in range(30)])
        return checkpoint.exists() and "state 0" in checkpoint.read_text()

    eventually(is_compacted, "Kafka has compacted the topic", timeout_s=90)


def send(kafka: KafkaProcess, topic: str, rows: list[tuple[bytes, bytes]], **settings: str) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True, **settings})
    for key, value in rows:
        producer.produce(topic, key=key, value=value)
    assert producer.flush(30) == 0


def transaction(kafka: KafkaProcess, *, commits: bool) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "payments"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(10):
        producer.produce("orders", key=b"%d" % number, value=b"paid")
    producer.flush(30)
    producer.commit_transaction(30) if commits else producer.abort_transaction(30)


def test_a_directory_of_apache_kafka_is_sound_until_somebody_changes_it(
    spark: SparkSession, kafka: KafkaProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(kafka)
    assert main(["audit", "--data", str(kafka.log_dir)]) == 2
    assert "a broker is at work in it" in capsys.readouterr().err
    live = audit(spark, AuditPlan(directories=(str(kafka.log_dir),), is_live=True))
    assert live.findings == ()

    kafka.stop()
    report = audit(spark, AuditPlan(directories=(str(kafka.log_dir),)))
    assert report.findings == ()
    partitions = report.by_partition
    assert partitions[TopicPartition("state", 0)][0].is_compacted
    assert partitions[TopicPartition("__cluster_metadata", 0)][0].measured.batch_count > 0
    assert sum(partitions[TopicPartition("orders", index)][0].measured.record_count for index in (0, 1)) >= 250 + 40

    copy = tmp_path / "copy"
    shutil.copytree(kafka.log_dir, copy)
    properties = (copy / "meta.properties").read_text()
    (copy / "meta.properties").write_text(properties.replace("node.id=1", "node.id=2"))
    damage(copy / "orders-1" / "00000000000000000000.log")
    both = audit(spark, AuditPlan(directories=(str(kafka.log_dir), str(copy))))
    assert {(each.check, each.topic, each.partition, each.replicas) for each in both.findings} == {
        (Check.CHECKSUM, "orders", 1, ("2",)),
        (Check.REPLICAS, "orders", 1, ("2",)),
    }


def damage(segment: Path) -> None:
    content = bytearray(segment.read_bytes())
    content[70] ^= 1
    segment.write_bytes(content)
