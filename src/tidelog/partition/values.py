"""The values a replica and its shell exchange."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.config.replication import LEADER_EPOCH
from tidelog.model import BrokerEpoch, BrokerId, LeaderEpoch, Offset, TimestampMs
from tidelog.storage import AbortedTransaction, EpochEndOffset


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """Leader and ISR of a partition as the registry holds them; `partition_epoch` orders all of them."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: int
    isr: tuple[BrokerId, ...]
    assignment: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...] = ()
    """Replicas of the assignment that a reassignment brings; they do not count for min.insync.replicas."""
    removing: tuple[BrokerId, ...] = ()
    """Replicas of the assignment that a reassignment takes away."""

    @property
    def original_count(self) -> int:
        """How many replicas the partition has, not counting those that a reassignment adds."""
        return sum(1 for broker_id in self.assignment if broker_id not in self.adding)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationRules:
    """What the broker's settings say about replication."""

    lag_time_max_ms: int = 30_000
    """A follower that has not caught up for longer than this is not in sync."""
    truncation: str = LEADER_EPOCH
    """`leader-epoch`; or `high-watermark`, which loses records and is there to show how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRead:
    """What a reader gets: bytes, and the bounds they were read under, taken at one instant."""

    records: bytes
    high_watermark: Offset
    last_stable_offset: Offset
    log_start_offset: Offset
    aborted_transactions: tuple[AbortedTransaction, ...] | None  # None for readers that do not filter.


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerFetch:
    """What a follower asks of its leader. Its fetch offset says at once what it holds: there is no other acknowledgement."""

    replica_id: BrokerId
    broker_epoch: BrokerEpoch
    fetch_offset: Offset
    current_leader_epoch: LeaderEpoch
    last_fetched_epoch: LeaderEpoch
    """The newest epoch in the follower's log; -1 asks for no comparison."""
    log_start_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerRead:
    """What a follower gets. The bounds are those of before its fetch counted, so what it commits shows in its next answer."""

    records: bytes
    high_watermark: Offset
    last_stable_offset: Offset
    log_start_offset: Offset
    diverging: EpochEndOffset | None = None
    """Where the logs part at the latest; there are no records then and the high watermark is not to be taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPosition:
    """Where a follower goes on. An answer counts only if the position is the same as when it was asked for."""

    fetch_offset: Offset
    leader_epoch: LeaderEpoch
    last_fetched_epoch: LeaderEpoch
    log_start_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposal:
    """An ISR the leader asks the controller to commit, on top of the state of `partition_epoch`.

    A member is named with the broker epoch it last fetched under (KIP-903); -1 where that is unknown, and for the leader, whose shell
    knows it.
    """

    leader_epoch: LeaderEpoch
    partition_epoch: int
    isr: tuple[tuple[BrokerId, BrokerEpoch], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteDescription:
    """A follower as its leader sees it."""

    broker_id: BrokerId
    log_end_offset: Offset  # -1: has not fetched since the election.
    last_caught_up_ms: TimestampMs  # Wall clock; -1: not since the election.


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDescription:
    """A replica as it sees itself, for operators and for the controller that must choose between survivors."""

    is_leader: bool
    leader_id: BrokerId
    leader_epoch: LeaderEpoch
    last_epoch: LeaderEpoch
    """The newest epoch in its log."""
    log_start_offset: Offset
    log_end_offset: Offset
    high_watermark: Offset
    last_stable_offset: Offset
    isr: tuple[BrokerId, ...]
    assignment: tuple[BrokerId, ...]
    remotes: tuple[RemoteDescription, ...]
