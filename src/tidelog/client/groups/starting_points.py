"""Where the partitions of a group's member begin, and how far they are: between its assignment and what is committed. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.client.assignment import Assignment, PartitionState
from tidelog.client.config_kinds import OffsetReset
from tidelog.client.errors import ClientError, NoPosition
from tidelog.client.groups.offset_commits import Committed
from tidelog.model import TopicPartition


class StartingPoints:
    """Looks after partitions that were assigned with `awaits_committed`."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment

    def positions(self) -> dict[TopicPartition, Committed]:
        """What to commit: where the program stands, in each partition that has a position."""
        states = map(self._assignment.state, self._assignment.topic_partitions)
        return {s.topic_partition: Committed(s.position, s.position_epoch) for s in states if s.position is not None}

    def waiting(self) -> list[PartitionState]:
        """Partitions that wait to be told what was committed."""
        states = map(self._assignment.state, self._assignment.topic_partitions)
        return [state for state in states if state.awaits_committed]

    def begin(
        self, asked: list[PartitionState], found: Mapping[TopicPartition, Committed | None], error: ClientError | None
    ) -> None:
        """Go on after what was committed, or where the policy says if nothing was; partitions that have moved on stay where they are."""
        still_waiting = {(state.topic_partition, state.generation) for state in self.waiting()}
        for state in asked:
            key = state.topic_partition
            if (key, state.generation) not in still_waiting:
                continue
            committed = found.get(key)
            if committed is not None:
                self._assignment.seek(key, committed.offset, last_epoch=committed.leader_epoch)
            elif error is not None or self._assignment.policy is OffsetReset.NONE:
                state.awaits_committed = False
                state.error = error or NoPosition(f"nothing is committed for {key} and auto.offset.reset is none")
            else:
                self._assignment.seek_to(key, self._assignment.policy)
