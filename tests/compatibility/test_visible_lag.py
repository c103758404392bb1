"""The lag in records that `tidelog groups describe` tells, beside what a stock client reads on a topic that is compacted meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.cli.shell import Shell
from tests.cluster.waiting import eventually
from tests.compatibility.processes import TidelogProcess

pytestmark = pytest.mark.slow

TOPIC: Final = "compacted"
GROUP: Final = "readers"
COMPACTED: Final = (
    "cleanup.policy=compact",
    "min.cleanable.dirty.ratio=0.01",
    "segment.bytes=4096",
    "delete.retention.ms=0",
)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TidelogProcess]:
    with TidelogProcess(tmp_path / "data", "-X", "log.cleaner.backoff.ms=200") as process:
        yield process


def read_committed(bootstrap: str) -> list[bytes]:
    """All values that a consumer of committed records gets, to the end."""
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": "nobody",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    values: list[bytes] = []
    try:
        while True:
            message = consumer.poll(90)
            assert message is not None, "a consumer comes to the end"
            error = message.error()
            if error is None:
                values.append(message.value() or b"")
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # its public name
                return values
    finally:
        consumer.close()


def test_the_lag_in_records_is_what_a_read_committed_consumer_reads_of_a_compacted_topic(
    broker: TidelogProcess, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = Shell(broker.bootstrap, capfdbinary, monkeypatch)
    shell.ok("topics", "create", TOPIC, *(word for each in COMPACTED for word in ("--config", each)))
    shell.ok("groups", "reset", GROUP, "--topic", TOPIC, "--to-earliest", "--execute")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "writer"})
    producer.init_transactions(90)
    committed = 0
    for number in range(60):
        producer.begin_transaction()
        for key in range(5):
            producer.produce(TOPIC, key=f"k{(number + key) % 20}", value=f"{number}".encode() * 40)
        if number % 3 == 1:
            producer.flush(90)
            producer.abort_transaction(90)
        else:
            producer.commit_transaction(90)
            committed += 5

    def lag() -> dict[str, Any]:
        (row,) = json.loads(shell.ok("groups", "describe", GROUP, "--format", "json"))
        return dict(row)

    def agreed() -> tuple[int, int] | None:
        """Nothing is compacted between two looks that say the same."""
        before, values, after = lag(), read_committed(broker.bootstrap), lag()
        if before["visible_lag"] != after["visible_lag"] or len(values) > committed * 3 // 4:
            return None
        return len(values), before["visible_lag"]

    read, told = eventually(agreed, "the cleaner has been here, and rests")
    assert read == told
    row = lag()
    assert row["is_visible_lag_exact"]
    assert row["lag"] > 300 > committed > read >= 20
