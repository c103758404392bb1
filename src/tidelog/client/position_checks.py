"""Whether the log of a new leader still has what was read from the old one (KIP-320). Pure.

A new leader may lack records that we read from the old one, after an unclean election. So before anything is fetched in a new leader
epoch, the leader is asked where the epoch of the last record ends in its log: if that is before our position, the log was cut.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.client.assignment import Assignment, PartitionState
from tidelog.client.config_kinds import OffsetReset
from tidelog.client.errors import ClientError, LogTruncated
from tidelog.model import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicPartition


class EpochEnd(NamedTuple):
    """The largest epoch up to the one asked for that a leader's log has, and where it ends; -1 where it has none."""

    leader_epoch: LeaderEpoch
    end_offset: Offset


class PositionCheck(NamedTuple):
    """What a leader is asked about a position, to tell whether the answer still matters."""

    topic_partition: TopicPartition
    generation: int
    fetch_offset: Offset
    fetched_epoch: LeaderEpoch
    leader_epoch: LeaderEpoch


class PositionChecks:
    """The checks of one consumer's partitions; a partition in need of one is not fetched."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment

    def on_leader_epoch(self, topic_partition: TopicPartition, leader_epoch: LeaderEpoch) -> None:
        """Metadata says that the partition is led in this epoch; a new one is not fetched from before it is checked."""
        state = self._assignment.state(topic_partition)
        state.leader_epoch = max(state.leader_epoch, leader_epoch)
        if state.fetch_offset is None or state.fetched_epoch == NO_LEADER_EPOCH:
            state.checked_epoch = state.leader_epoch  # Nothing is known to have been read that could have been cut.

    def due(self, now_ms: float) -> list[PositionCheck]:
        """What is to be asked of new leaders now."""
        states = map(self._assignment.state, self._assignment.topic_partitions)
        return [
            PositionCheck(s.topic_partition, s.generation, s.fetch_offset, s.fetched_epoch, s.leader_epoch)
            for s in states
            if s.needs_check and s.fetch_offset is not None and s.error is None and s.retry_at_ms <= now_ms
        ]

    def on_answer(self, check: PositionCheck, end: EpochEnd | ClientError | None) -> None:
        """The leader told where the epoch of our last record ends, cannot be asked such things (None), or never will tell."""
        if check.topic_partition not in self._assignment.topic_partitions:
            return
        state = self._assignment.state(check.topic_partition)
        if state.generation != check.generation or state.fetch_offset != check.fetch_offset:
            return  # It moved; or a fetch from before the election came, whose end is checked next.
        if isinstance(end, ClientError):
            state.error = end
        elif end is not None and end.end_offset < 0:
            self._on_cut(state, None)
        elif end is not None and end.end_offset < check.fetch_offset:
            self._on_cut(state, end)
        else:
            state.failures = 0
            state.checked_epoch = max(state.checked_epoch, check.leader_epoch)

    def _on_cut(self, state: PartitionState, end: EpochEnd | None) -> None:
        """Records before the position, or fetched ahead of it, are not in the leader's log."""
        position = state.position or 0
        if end is not None and end.end_offset >= position:
            # Nobody has seen what is gone: fetch again what was fetched ahead.
            self._assignment.seek(state.topic_partition, position)
        elif self._assignment.policy is OffsetReset.NONE:
            state.buffered.clear()
            state.error = LogTruncated(state.topic_partition, position, None if end is None else end.end_offset)
        elif end is None:
            self._assignment.seek_to(state.topic_partition, self._assignment.policy)
        else:
            # As Kafka's consumer: to where the logs part, which loses less than an end of the log would.
            self._assignment.seek(state.topic_partition, end.end_offset, last_epoch=end.leader_epoch)
