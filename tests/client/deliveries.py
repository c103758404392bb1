"""Records for accumulator tests, with somebody who notes what became of them."""

from __future__ import annotations

from dataclasses import replace

from tidelog.client.accumulator import Accumulator, AccumulatorLimits
from tidelog.client.batch import OutgoingRecord, RecordMetadata
from tidelog.client.errors import ClientError
from tidelog.client.sequencing import Sequencer
from tidelog.model import ProducerIdentity, TopicPartition
from tidelog.records.compression import Codec

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Noted:
    """Remembers the outcome, and that there was only one."""

    def __init__(self) -> None:
        self.outcomes: list[RecordMetadata | ClientError] = []

    def succeed(self, metadata: RecordMetadata) -> None:
        self.outcomes.append(metadata)

    def fail(self, error: ClientError) -> None:
        self.outcomes.append(error)


def record(value: bytes = b"v", delivery: Noted | None = None) -> OutgoingRecord:
    return OutgoingRecord(1000, None, value, (), delivery or Noted())


LIMITS = AccumulatorLimits(
    codec=Codec.NONE,
    batch_size_bytes=200,
    linger_ms=5,
    buffer_memory_bytes=10_000,
    request_size_bytes_max=1000,
    delivery_timeout_ms=1000,
)


def limits(**changes: int) -> AccumulatorLimits:
    return replace(LIMITS, **changes)  # type: ignore[arg-type]  # bool is an int


def idempotent(**changes: int) -> tuple[Accumulator, Sequencer]:
    sequencer = Sequencer()
    sequencer.adopt(ProducerIdentity(9, 0))
    return Accumulator(limits(**{"linger_ms": 0, "batch_size_bytes": 0, **changes}), sequencer), sequencer
