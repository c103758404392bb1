"""What an admin says of transactions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from tidelog.client.admin_values import ProducerDescription
from tidelog.model import BrokerId, Offset, ProducerEpoch, ProducerId, TimestampMs, TopicPartition

TRANSACTION_STATE_TOPIC: Final = "__transaction_state"

STATES: Final = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
"""How a transactional id can stand, as Kafka's tools write it."""


class TransactionListing(NamedTuple):
    """A transactional id as its coordinator lists it."""

    transactional_id: str
    producer_id: ProducerId
    state: str
    coordinator: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """A transactional id as its coordinator knows it; the time and the partitions are those of the transaction that is open or ending."""

    transactional_id: str
    coordinator: BrokerId
    state: str
    timeout_ms: int
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    start_ms: TimestampMs | None = None
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that is open in one partition, with what the coordinator says of its producer; None where no coordinator knows it."""

    topic_partition: TopicPartition
    producer: ProducerDescription
    transaction: TransactionDescription | None

    @property
    def first_offset(self) -> Offset:
        """Where it began in this partition. What was there may be deleted since."""
        return self.producer.transaction_first_offset

    @property
    def is_hanging(self) -> bool:
        """Whether nobody will ever end it here: its coordinator knows of no transaction that this partition is part of."""
        return self.transaction is None or self.topic_partition not in self.transaction.partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPartition:
    """How far who reads committed records gets in a partition, and who keeps them from the rest."""

    topic_partition: TopicPartition
    last_stable_offset: Offset
    high_watermark: Offset
    open: tuple[OpenTransaction, ...]  # as they began

    @property
    def holder(self) -> OpenTransaction | None:
        """The one that began first; None where nobody has to wait."""
        is_behind = bool(self.open) and self.open[0].first_offset < self.high_watermark
        return self.open[0] if is_behind and self.waiting_count > 0 else None

    @property
    def waiting_count(self) -> int:
        """How many offsets lie behind the last stable one: those of the transaction itself, and of all that was written after it began."""
        return self.high_watermark - self.last_stable_offset
