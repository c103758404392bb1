"""SIGKILL in the middle of an acks=all load: nothing acknowledged is missing afterwards, and nothing moved."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer, TopicPartition

from tests.compatibility.processes import TidelogProcess
from tests.compatibility.test_python_clients import confluent_consumer

FLUSHED = ("-X", "log.flush.interval.messages=1", "-X", "num.partitions=3")


Stored = dict[
    tuple[int | None, int | None], bytes | None
]  # value by (partition, offset), typed as confluent_kafka does


class Load:
    """A producer that never stops, and what it was promised: value by (partition, offset)."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged: Stored = {}
        self._topic = topic
        self._sent = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 1,
                "message.timeout.ms": 60_000,
                "reconnect.backoff.max.ms": 200,
            }
        )

    def until(self, count: int) -> None:
        """Send until `count` records more are acknowledged; some more are then in flight."""
        goal = len(self.acknowledged) + count
        while len(self.acknowledged) < goal:
            value = b"%d" % self._sent
            self._producer.produce(self._topic, value, on_delivery=self._delivered)
            self._sent += 1
            self._producer.poll(0.001 if self._sent % 10 == 0 else 0)

    def finish(self) -> None:
        assert self._producer.flush(60) == 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        self.acknowledged[message.partition(), message.offset()] = message.value()


def read_all(bootstrap: str, topic: str, partitions: range) -> Stored:
    consumer = confluent_consumer(bootstrap)
    ends = {index: consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=10)[1] for index in partitions}
    consumer.assign([TopicPartition(topic, index, 0) for index in partitions if ends[index]])
    stored: Stored = {}
    while len(stored) < sum(ends.values()):
        polled = consumer.consume(1000, timeout=10)
        assert polled, f"{len(stored)} of {sum(ends.values())} records came"
        stored.update({(message.partition(), message.offset()): message.value() for message in polled})
    consumer.close()
    return stored


def check_kills(data: Path, topic: str, *, kills: int, acknowledged_between: int) -> None:
    with TidelogProcess(data, *FLUSHED) as process:
        port = process.port
        load = Load(process.bootstrap, topic)
        load.until(acknowledged_between)
        process.kill()
    for _ in range(kills - 1):
        with TidelogProcess(data, *FLUSHED, port=port) as process:
            load.until(acknowledged_between)
            process.kill()
    with TidelogProcess(data, *FLUSHED, port=port) as process:
        load.finish()
        stored = read_all(process.bootstrap, topic, range(3))
    missing = {place: value for place, value in load.acknowledged.items() if stored.get(place) != value}
    assert missing == {}
    assert len(set(stored.values())) == len(stored), "idempotence: no value twice"


@pytest.mark.timed
def test_nothing_acknowledged_is_missing_after_kill_9_under_load(tmp_path: Path, topic: str) -> None:
    check_kills(tmp_path / "data", topic, kills=2, acknowledged_between=500)


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_nothing_acknowledged_is_missing_after_many_kills(tmp_path: Path, topic: str) -> None:
    check_kills(tmp_path / "data", topic, kills=20, acknowledged_between=2000)
