"""What an audit can find: one value per check, partition and replica, with the place of the first."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Check(enum.Enum):
    """What was looked at, in the order in which a report tells of it."""

    REPLICAS = "replicas"
    CHECKSUM = "checksum"
    DAMAGE = "damage"
    HIGH_WATERMARK = "high-watermark"
    EPOCH = "epoch"
    OFFSETS = "offsets"
    SEQUENCE = "sequence"
    TRANSACTION = "transaction"
    TOPIC_ID = "topic-id"
    MISSING_REPLICA = "missing-replica"
    CHECKPOINT = "checkpoint"
    TORN_TAIL = "torn-tail"

    @property
    def is_note(self) -> bool:
        """Whether it is only told: what a crash leaves above the high watermark, a broker cuts off when it starts."""
        return self is Check.TORN_TAIL


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The first of its kind in a partition, and how many there are. No replica is about all of them, no topic about a broker."""

    check: Check
    what: str
    replicas: tuple[str, ...] = ()
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    file: str | None = None
    position: int | None = None
    count: int = 1

    @property
    def place(self) -> tuple[str, int, bool, int, str]:
        """The order in which findings are told: by partition, then by offset, those without one last."""
        return (self.topic or "", self.partition or 0, self.offset is None, self.offset or 0, self.check.value)
