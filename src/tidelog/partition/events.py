"""What a partition wants its shell to do after a change of state. The shell performs them in one `match`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tidelog.model import Offset


@dataclass(frozen=True, slots=True)
class LogEndAdvanced:
    """Records were appended: followers waiting for them can be answered."""

    log_end_offset: Offset


@dataclass(frozen=True, slots=True)
class HighWatermarkAdvanced:
    """More records are committed: producers waiting for acks=all and consumers can be answered."""

    high_watermark: Offset


@dataclass(frozen=True, slots=True)
class FlushWanted:
    """The flush settings ask for an fsync before more is acknowledged."""


@dataclass(frozen=True, slots=True)
class LeadershipChanged:
    """Whoever waits on this replica under the old leader epoch must look again."""

    leader_epoch: int


PartitionEvent: TypeAlias = LogEndAdvanced | HighWatermarkAdvanced | FlushWanted | LeadershipChanged
