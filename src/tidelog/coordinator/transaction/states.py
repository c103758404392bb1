"""What is known of a transactional id: who may write under it, and how its transaction stands."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from tidelog.model import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    ProducerEpoch,
    ProducerId,
    ProducerIdentity,
    TimestampMs,
    TopicPartition,
)

EPOCH_MAX: Final = 32_767
"""Never given to a producer, so that there is always one left to fence it with."""

EPOCH_LAST: Final = EPOCH_MAX - 1
"""The last that a producer is given; after it the transactional id goes on under another producer id."""

NO_TIMEOUT_MS: Final = 2_147_483_647
"""The timeout of a producer that takes part in a two-phase commit (KIP-939): its transactions wait for it for ever."""


class TransactionStatus(enum.IntEnum):
    """As numbered in the records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6  # never written
    PREPARE_EPOCH_FENCE = 7  # never written

    @property
    def label(self) -> str:
        """As Kafka's tools write it: "PrepareCommit"."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_decided(self) -> bool:
        """Whether markers are under way: the outcome is certain, but not all partitions know it."""
        return self in {TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT}

    @property
    def is_idle(self) -> bool:
        """Whether no transaction is open or ending."""
        return self in {
            TransactionStatus.EMPTY,
            TransactionStatus.COMPLETE_COMMIT,
            TransactionStatus.COMPLETE_ABORT,
        }


class TransactionVersion(enum.IntEnum):
    """Which protocol a transaction follows (KIP-890): from 2 on each has an epoch of its own, and partitions are added by their leaders."""

    ZERO = 0
    ONE = 1
    TWO = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionState:
    """One transactional id, as its last record says. Partitions are in order."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    timeout_ms: int
    status: TransactionStatus
    partitions: tuple[TopicPartition, ...] = ()
    start_ms: TimestampMs = NO_TIMESTAMP
    last_update_ms: TimestampMs = NO_TIMESTAMP  # No two records of an id have the same.
    # Whose successor the owner is at its own request; none where somebody else made it so.
    previous_producer_id: ProducerId = NO_PRODUCER_ID
    # Who may end the transaction, where that is not who wrote it: a later incarnation that keeps what was prepared (KIP-939), or, while it
    # ends, the id that follows one whose epochs are used up.
    next_producer_id: ProducerId = NO_PRODUCER_ID
    next_producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    client_version: TransactionVersion = TransactionVersion.ZERO

    @property
    def writer(self) -> ProducerIdentity:
        """Under whose name the transaction was written; once it is decided, that of its markers."""
        return ProducerIdentity(self.producer_id, self.producer_epoch)

    @property
    def owner(self) -> ProducerIdentity:
        """The one pair whose holder may do anything. While a transaction is ending, it is the pair of the next one."""
        if self.next_producer_id == NO_PRODUCER_ID:
            return self.writer
        return ProducerIdentity(self.next_producer_id, max(self.next_producer_epoch, 0))

    @property
    def predecessor(self) -> ProducerIdentity | None:
        """Who asked for what made the owner: whoever comes with this pair again has not heard the answer. None if nobody may."""
        previous, owner = self.previous_producer_id, self.owner
        if previous == NO_PRODUCER_ID:
            return None
        return ProducerIdentity(previous, owner.producer_epoch - 1 if previous == owner.producer_id else EPOCH_LAST)

    @property
    def is_kept(self) -> bool:
        """Whether the open transaction waits for the outcome that a later incarnation will name (KIP-939), and gets no bigger."""
        return self.status is TransactionStatus.ONGOING and self.next_producer_id != NO_PRODUCER_ID

    @property
    def is_given_up(self) -> bool:
        """Whether it was decided, and all that is left is to abort what some partitions have open under a producer id that has no future."""
        is_last_epoch = self.producer_epoch == EPOCH_MAX and self.client_version is not TransactionVersion.TWO
        return (
            self.status is TransactionStatus.PREPARE_ABORT and is_last_epoch and self.next_producer_id != NO_PRODUCER_ID
        )

    @property
    def is_two_phase(self) -> bool:
        """Whether only its owner may end the transaction, however late."""
        return self.timeout_ms == NO_TIMEOUT_MS
