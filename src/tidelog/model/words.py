"""Identifiers and small enumerations, spelled as the glossary spells them.

Offsets, epochs and ids are plain integers under an alias rather than NewTypes: they are computed with on the path of every batch, where a
NewType would cost a call per addition and buy little, since the names already say which is which.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

Offset: TypeAlias = int
LeaderEpoch: TypeAlias = int
BrokerId: TypeAlias = int
BrokerEpoch: TypeAlias = int
ProducerId: TypeAlias = int
ProducerEpoch: TypeAlias = int
TimestampMs: TypeAlias = int
TopicId: TypeAlias = UUID

NO_OFFSET: Final = -1
NO_LEADER_EPOCH: Final = -1
NO_LEADER: Final = -1
NO_BROKER_EPOCH: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1


class TopicPartition(NamedTuple):
    """One ordered log of a topic. A tuple because it is hashed on every request."""

    topic: str
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody calls on a partition

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"


class ProducerIdentity(NamedTuple):
    """Who writes: the id that the cluster gave a producer, and its epoch, which fences whoever had it before."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch


class BrokerEndpoint(NamedTuple):
    """Where clients reach a broker on one listener."""

    broker_id: BrokerId
    host: str
    port: int
    rack: str | None = None


class IsolationLevel(enum.IntEnum):
    """Which upper bound a reader gets: the high watermark, or the last stable offset."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class TimestampType(enum.IntEnum):
    """Who set a batch's timestamps."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class Acks(enum.IntEnum):
    """How much must hold a record before its producer hears of it."""

    ALL = -1
    NONE = 0
    LEADER = 1
