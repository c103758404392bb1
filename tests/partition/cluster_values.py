"""The messages and machines of the small cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog.model import ApiError, BrokerId, ErrorCode
from tidelog.partition import FetchPosition, FollowerFetch, FollowerRead, IsrProposal, Leadership, Partition
from tidelog.simulation.disk import SimulatedDisk


@dataclass(slots=True)
class Asked:
    """A fetch on its way: to whom, from which position of which process, and the answer once there is one."""

    leader: BrokerId
    life: int
    position: FetchPosition
    sent: FollowerFetch
    answer: FollowerRead | ApiError | None = None


@dataclass(slots=True)
class Change:
    """An ISR change on its way, and the answer once there is one."""

    proposal: IsrProposal
    life: int
    answer: Leadership | ErrorCode | None = None


@dataclass(frozen=True, slots=True)
class Parked:
    """A produce request that waits for acks=all."""

    leader: BrokerId
    life: int
    reign: int
    offset: int
    value: str


@dataclass(slots=True)
class Broker:
    """A machine with a disk; its process may be down."""

    broker_id: BrokerId
    disk: SimulatedDisk = field(default_factory=SimulatedDisk)
    replica: Partition | None = None
    life: int = 0
    broker_epoch: int = 0
    known_since: int = 0
    """How many states there were when it registered: those told to an earlier life do not reach this one (KIP-380)."""
    checkpoint: int = 0
    watermarks: dict[int, int] = field(default_factory=dict)
    """The highest watermark seen in each reign of this life."""
