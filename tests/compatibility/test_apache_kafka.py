"""The oracle itself: Apache Kafka starts here, and its files are read back by its own tools."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from tests.compatibility.apache_kafka import KafkaProcess, dump_log

pytestmark = [pytest.mark.compat, pytest.mark.slow]


def test_kafka_writes_files_its_own_dump_reads(kafka: KafkaProcess, topic: str) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(topic, key=b"k", value=b"v")
    assert producer.flush(20) == 0

    said = dump_log(kafka.log_dir / f"{topic}-0" / "00000000000000000000.log", deep=True)

    assert "isvalid: true" in said
    assert "key: k payload: v" in said
