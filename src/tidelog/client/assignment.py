"""A consumer's partitions: where it stands in each, what is fetched ahead, what to fetch next. Pure: told the time.

`position` is the next offset to hand out; `fetch_offset` the next to fetch, ahead of it by what is buffered. Everything that moves a
partition elsewhere (seek, reset, a new assignment) gives it a new generation, and answers to older questions are ignored.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidelog.client.config_kinds import OffsetReset
from tidelog.client.errors import ClientError, FetchFailed, NoPosition, OffsetOutOfRange
from tidelog.client.fetched import ConsumedRecord, FetchedRecords
from tidelog.client.verdict import SAYS_METADATA_IS_STALE
from tidelog.model import NO_LEADER_EPOCH, NO_OFFSET, ErrorCode, LeaderEpoch, Offset, TopicPartition

_BUFFERED_FETCHES_MAX = 2


class Watermarks(NamedTuple):
    """What the leader last said about the partition's ends; -1 where it has not."""

    high_watermark: Offset = NO_OFFSET
    last_stable_offset: Offset = NO_OFFSET
    log_start_offset: Offset = NO_OFFSET


NOT_TOLD: Final = Watermarks()


@dataclass(slots=True)
class PartitionState:
    """One assigned partition."""

    topic_partition: TopicPartition
    generation: int
    position: Offset | None = None
    fetch_offset: Offset | None = None
    fetched_epoch: LeaderEpoch = NO_LEADER_EPOCH  # of the record before `fetch_offset`
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH  # the newest that metadata told of
    checked_epoch: LeaderEpoch = NO_LEADER_EPOCH  # the newest whose log is known to agree with what was read
    position_epoch: LeaderEpoch = NO_LEADER_EPOCH  # of the record before `position`
    reset: OffsetReset | None = None  # where to go as soon as the leader has told the offset
    awaits_committed: bool = False  # nothing else is known until the coordinator has told what was committed
    buffered: deque[FetchedRecords] = field(default_factory=deque)
    watermarks: Watermarks = NOT_TOLD
    error: ClientError | None = None
    retry_at_ms: float = 0.0
    failures: int = 0

    @property
    def needs_check(self) -> bool:
        """Whether there is a new leader that might not have what was read."""
        return self.leader_epoch > self.checked_epoch


class Reaction(enum.Enum):
    """What the shell should do after an answer."""

    NOTHING = enum.auto()
    BACK_OFF = enum.auto()
    REFRESH_METADATA = enum.auto()


class Assignment:
    """The partitions of one consumer. At most `buffered_bytes_max` are fetched ahead, give or take one answer per broker."""

    def __init__(self, *, policy: OffsetReset, buffered_bytes_max: int) -> None:
        self.policy = policy
        self._buffered_bytes_max = buffered_bytes_max
        self._states: dict[TopicPartition, PartitionState] = {}
        self._next_generation = 0

    @property
    def topic_partitions(self) -> list[TopicPartition]:
        """What is assigned."""
        return list(self._states)

    @property
    def buffered_bytes(self) -> int:
        """What is fetched and not yet handed out."""
        return sum(fetched.size_bytes for state in self._states.values() for fetched in state.buffered)

    def assign(self, topic_partitions: Iterable[TopicPartition], *, awaits_committed: bool = False) -> None:
        """Have exactly these partitions; those already assigned stay where they are.

        New ones begin where the policy says; or, where offsets are committed, wait for somebody who knows them.
        """
        wanted = dict.fromkeys(topic_partitions)
        self._states = {key: state for key, state in self._states.items() if key in wanted}
        for topic_partition in wanted:
            if topic_partition not in self._states:
                state = self._states[topic_partition] = self._fresh(topic_partition)
                if awaits_committed:
                    state.awaits_committed, state.reset, state.error = True, None, None

    def state(self, topic_partition: TopicPartition) -> PartitionState:
        """An assigned partition. Raises NoPosition."""
        state = self._states.get(topic_partition)
        if state is None:
            raise NoPosition(f"{topic_partition} is not assigned to this consumer")
        return state

    def seek(
        self, topic_partition: TopicPartition, offset: Offset, *, last_epoch: LeaderEpoch = NO_LEADER_EPOCH
    ) -> None:
        """Stand at `offset`; whatever was fetched or wrong before is forgotten.

        Whoever remembers the leader epoch of the record before it learns if the log has been cut since.
        """
        self.state(topic_partition)
        state = self._fresh(topic_partition)
        state.reset = state.error = None
        state.position = state.fetch_offset = offset
        state.fetched_epoch = state.position_epoch = last_epoch
        self._states[topic_partition] = state

    def seek_to(self, topic_partition: TopicPartition, where: OffsetReset) -> None:
        """Go to an end of the log as soon as its offset is known."""
        self.state(topic_partition)
        state = self._fresh(topic_partition)
        state.reset = where
        state.error = None
        self._states[topic_partition] = state

    def resets_due(self, now_ms: float) -> list[PartitionState]:
        """Partitions that wait for the offset of an end of their log."""
        return [state for state in self._states.values() if state.reset is not None and state.retry_at_ms <= now_ms]

    def on_reset(self, topic_partition: TopicPartition, generation: int, outcome: Offset | ClientError) -> None:
        """The offset a reset waits for was found, or never will be; ignored if the partition has moved on."""
        state = self._current(topic_partition, generation)
        if state is None:
            return
        if isinstance(outcome, ClientError):
            state.reset = None
            state.error = outcome
        elif state.reset is not None:
            self.seek(topic_partition, outcome)

    def fetchable(self, now_ms: float) -> list[PartitionState]:
        """Partitions to fetch now, those that waited longest first; none while too much waits to be handed out."""
        if self.buffered_bytes >= self._buffered_bytes_max:
            return []
        return [
            state
            for state in self._states.values()
            if state.fetch_offset is not None
            and state.error is None
            and not state.needs_check
            and state.retry_at_ms <= now_ms
            and len(state.buffered) < _BUFFERED_FETCHES_MAX
        ]

    def next_retry_ms(self, now_ms: float) -> float | None:
        """When the next partition comes out of its backoff."""
        return min((state.retry_at_ms for state in self._states.values() if state.retry_at_ms > now_ms), default=None)

    def on_fetched(
        self, topic_partition: TopicPartition, generation: int, fetched: FetchedRecords, watermarks: Watermarks
    ) -> None:
        """An answer came; its records are kept only if they continue what is there."""
        if topic_partition in self._states:
            # Whatever the generation: in a session the leader tells them once, and again only when they have moved.
            self._states[topic_partition].watermarks = watermarks
        state = self._current(topic_partition, generation)
        if state is None or state.fetch_offset != fetched.next_offset:
            return
        state.failures = 0
        if fetched.is_exhausted:
            return
        state.buffered.append(fetched)
        state.fetch_offset = fetched.end_offset
        state.fetched_epoch = fetched.last_epoch
        # Partitions that just got something go last, so that a busy one does not starve the others.
        self._states[topic_partition] = self._states.pop(topic_partition)

    def on_error(self, topic_partition: TopicPartition, generation: int, code: ErrorCode) -> Reaction:
        """A fetch was refused."""
        state = self._current(topic_partition, generation)
        if state is None:
            return Reaction.NOTHING
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            return self._on_out_of_range(state)
        if code in SAYS_METADATA_IS_STALE:
            return Reaction.REFRESH_METADATA
        if not code.is_retriable and code is not ErrorCode.UNKNOWN_SERVER_ERROR:
            state.error = FetchFailed(topic_partition, code)
            return Reaction.NOTHING
        return Reaction.BACK_OFF

    def back_off(
        self, topic_partition: TopicPartition, generation: int, *, now_ms: float, delay_ms: Callable[[int], float]
    ) -> None:
        """Leave the partition alone for a while, longer after every failure in a row."""
        state = self._current(topic_partition, generation)
        if state is not None:
            state.failures += 1
            state.retry_at_ms = now_ms + delay_ms(state.failures)

    def take(self, count_max: int) -> list[ConsumedRecord]:
        """Up to so many buffered records. Raises the error of a partition that has one, unless others have records first."""
        taken: list[ConsumedRecord] = []
        error: ClientError | None = None
        for state in list(self._states.values()):
            try:
                taken += self._take_from(state, count_max - len(taken))
            except ClientError as raised:
                error = error or raised
            if len(taken) >= count_max:
                break
        if error is not None and not taken:
            raise error
        return taken

    def _take_from(self, state: PartitionState, count_max: int) -> list[ConsumedRecord]:
        taken: list[ConsumedRecord] = []
        while state.buffered and len(taken) < count_max:
            fetched = state.buffered[0]
            try:
                taken += fetched.take(count_max - len(taken))
            except ClientError:
                if taken:
                    return taken
                raise
            state.position = fetched.next_offset
            if taken:
                state.position_epoch = taken[-1].leader_epoch
            if fetched.is_exhausted:
                state.buffered.popleft()
            elif len(taken) < count_max:
                break
        if state.error is not None and not state.buffered and not taken:
            raise state.error
        return taken

    def _on_out_of_range(self, state: PartitionState) -> Reaction:
        if state.buffered:
            # What is buffered is still good; the question is asked again when it has been handed out.
            return Reaction.BACK_OFF
        if self.policy is OffsetReset.NONE:
            state.error = OffsetOutOfRange(state.topic_partition, state.fetch_offset or 0)
            return Reaction.NOTHING
        self.seek_to(state.topic_partition, self.policy)
        return Reaction.NOTHING

    def _current(self, topic_partition: TopicPartition, generation: int) -> PartitionState | None:
        state = self._states.get(topic_partition)
        return state if state is not None and state.generation == generation else None

    def _fresh(self, topic_partition: TopicPartition) -> PartitionState:
        self._next_generation += 1
        state = PartitionState(topic_partition, self._next_generation)
        if topic_partition in self._states:
            state.watermarks = self._states[topic_partition].watermarks
        if self.policy is OffsetReset.NONE:
            state.error = NoPosition(f"{topic_partition} has no position and auto.offset.reset is none: seek first")
        else:
            state.reset = self.policy
        return state
