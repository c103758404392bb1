"""What a partition wants its shell to do after a change of state. The shell performs them in one `match`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tidelog.model import Offset
from tidelog.partition.values import IsrProposal


@dataclass(frozen=True, slots=True)
class LogEndAdvanced:
    """Records were appended: followers waiting for them can be answered."""

    log_end_offset: Offset


@dataclass(frozen=True, slots=True)
class HighWatermarkAdvanced:
    """More records are committed: producers waiting for acks=all and consumers can be answered."""

    high_watermark: Offset


@dataclass(frozen=True, slots=True)
class LowWatermarkAdvanced:
    """Every live replica has forgotten more of its beginning: whoever waits for a deletion can be answered."""

    low_watermark: Offset


@dataclass(frozen=True, slots=True)
class FlushWanted:
    """The flush settings ask for an fsync before more is acknowledged."""


@dataclass(frozen=True, slots=True)
class LeadershipChanged:
    """Whoever waits on this replica under the old leader epoch must look again."""

    leader_epoch: int
    is_leader: bool


@dataclass(frozen=True, slots=True)
class IsrChangeWanted:
    """The leader asks the controller for another ISR. It asks for nothing else before it hears what became of this."""

    proposal: IsrProposal


@dataclass(frozen=True, slots=True)
class LogTruncated:
    """A follower has cut its log back to where it agrees with its leader's: it ended at one offset and ends at the other."""

    from_offset: Offset
    to_offset: Offset


PartitionEvent: TypeAlias = (
    LogEndAdvanced
    | HighWatermarkAdvanced
    | LowWatermarkAdvanced
    | FlushWanted
    | LeadershipChanged
    | IsrChangeWanted
    | LogTruncated
)
