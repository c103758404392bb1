"""One partition's machine at work: what it decides is written, replayed and told, in this order.

A reply waits until everything is committed that was appended before it, its own records and those of others: whoever hears it may rely on
what the machine knew. Until then its command stays here, and is refused if the commit takes too long or the partition goes away.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidelog.coordinator.internal_log import InternalLog, TransactionEnd
from tidelog.coordinator.machine import (
    RING_AGAIN_MAX_MS,
    RING_AGAIN_MS,
    Command,
    CoordinatorRecord,
    Decision,
    Machine,
    Moment,
    Reply,
    TimerChange,
    Token,
    Written,
)
from tidelog.coordinator.timers import Timers
from tidelog.model import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ApiError,
    ErrorCode,
    Offset,
    ProducerIdentity,
)

_NOBODY: Final = ProducerIdentity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)

BATCH_BYTES: Final = 512 * 1024
"""Where a decision that may be cut is, unless the log wants smaller batches."""

_BATCH_OVERHEAD: Final = 256  # its header, and what compression may add to what cannot be compressed
_RECORD_OVERHEAD: Final = 24  # lengths, deltas, attributes and the number of headers, as large as they get

_TIMERS_STEP: Final = 200
"""Timers of a new leadership between two looks at the clock."""

_TOO_LARGE: Final = frozenset(
    {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardLimits:
    """What a shard puts up with."""

    commit_timeout_ms: float = 5_000.0
    parked_max: int = 20_000


class _Again(enum.Enum):
    """What is tried again, besides timers of the machine."""

    TOPICS_CHANGED = enum.auto()


class _Unsettled(NamedTuple):
    """Replies that may go when everything below an offset is committed."""

    end_offset: Offset
    deadline_ms: float
    replies: tuple[Reply, ...]


class _Errand(NamedTuple):
    """Something to be done elsewhere when everything below an offset is committed, however long that takes."""

    end_offset: Offset
    what: object


def _nobody_minds(what: object, error: Exception) -> None:
    """Whoever made the shard will see what comes of it."""


class Shard:
    """A machine that is loaded, its timers, and whoever waits for it. All methods return the replies that may go now."""

    def __init__(
        self,
        machine: Machine,
        log: InternalLog,
        limits: ShardLimits,
        on_trouble: Callable[[object, Exception], None] = _nobody_minds,
    ) -> None:
        """`on_trouble` is told what time or the world wanted to do, and why that will take an operator."""
        self._machine = machine
        self._log = log
        self._limits = limits
        self._on_trouble = on_trouble
        # How often in a row something has failed that may not be a matter of time.
        self._failures: dict[object, int] = {}
        self._timers = Timers()
        self._parked: dict[Token, Command] = {}
        self._unsettled: deque[_Unsettled] = deque()
        self._errands: deque[_Errand] = deque()
        self._end_offset = log.end_offset  # Everything that was decided so far lies below it.

    @property
    def parked_count(self) -> int:
        """Commands without an answer."""
        return len(self._parked)

    @property
    def next_ms(self) -> float | None:
        """When `ring` should be called, unless something happens before."""
        next_ms = self._timers.next_ms
        if not self._unsettled:
            return next_ms
        deadline_ms = self._unsettled[0].deadline_ms
        return deadline_ms if next_ms is None else min(next_ms, deadline_ms)

    @property
    def is_waiting_for_commit(self) -> bool:
        """Whether `settle` or `take_errands` could have anything to do."""
        return bool(self._unsettled or self._errands)

    def ask(self, command: Command, now: Moment) -> Sequence[Reply]:
        """Have a command decided. Its own answer is among the replies, unless it has to wait."""
        if len(self._parked) >= self._limits.parked_max:
            return (Reply(command.token, self._machine.refusal(command, ErrorCode.COORDINATOR_NOT_AVAILABLE)),)
        decision = self._machine.decide(command, now)
        self._parked[command.token] = command
        try:
            return self._carry_out(decision, now)
        except ApiError as error:
            # Nothing was decided, so the machine does not know that it should answer this one later.
            return self._refuse((command.token, *_tokens(decision)), error.code)

    def forget(self, token: Token) -> None:
        """Whoever sent this command is gone."""
        self._parked.pop(token, None)

    def on_loaded(self, clock: Callable[[], Moment]) -> Iterator[None]:
        """Do what has to be done before anybody is served; yields often, so that the caller can stop in between. Raises ApiError.

        However long it takes: timers run from its end, or members would lose the time in which they were told that they have to wait.
        """
        begun = clock()
        timers: list[TimerChange] = []
        for decision in self._machine.on_loaded(begun):
            self._adopt(decision, begun)
            timers += decision.timers
            yield
        late_ms = 0.0
        for count, (key, at_ms) in enumerate(timers):
            if count % _TIMERS_STEP == 0:
                yield
                late_ms = clock().monotonic_ms - begun.monotonic_ms
            self._timers.set(key, None if at_ms is None else at_ms + late_ms)

    def on_topics_changed(self, now: Moment) -> Sequence[Reply]:
        """Let the machine look at the topics."""
        return self._try(_Again.TOPICS_CHANGED, now)

    def ring(self, now: Moment) -> Iterator[Sequence[Reply]]:
        """Do what is due, one thing at a time, so that the caller can stop in between and come back."""
        while self._unsettled and self._unsettled[0].deadline_ms <= now.monotonic_ms:
            yield self._refuse(_tokens(self._unsettled.popleft()), ErrorCode.REQUEST_TIMED_OUT)
        while (key := self._timers.pop_due(now.monotonic_ms)) is not None:
            yield self._try(key, now)

    def settle(self) -> list[Reply]:
        """More may be committed: who has waited for that."""
        committed = self._log.committed_offset
        settled: list[Reply] = []
        while self._unsettled and self._unsettled[0].end_offset <= committed:
            settled += self._answered(self._unsettled.popleft().replies)
        return settled

    @property
    def has_errand_due(self) -> bool:
        """Whether `take_errands` would return something."""
        return bool(self._errands) and self._errands[0].end_offset <= self._log.committed_offset

    def take_errands(self) -> list[object]:
        """What may be done elsewhere now."""
        committed = self._log.committed_offset
        due: list[object] = []
        while self._errands and self._errands[0].end_offset <= committed:
            due.append(self._errands.popleft().what)
        return due

    def end_transaction(self, end: TransactionEnd, now: Moment) -> Offset:
        """Write down how a transaction ended whose records lie here, and let them count or not; the offset of the marker. Raises ApiError."""
        offset = self._log.append_marker(end, now_ms=now.wall_ms)
        self._end_offset = offset + 1
        self._machine.end_transaction(end.producer.producer_id, is_committed=end.is_committed, offset=offset)
        return offset

    def close(self, code: ErrorCode) -> list[Reply]:
        """The partition is not ours any more: everybody is refused, and nothing happens here again."""
        self._timers.clear()
        self._failures.clear()
        self._errands.clear()
        self._unsettled.clear()
        return self._refuse(list(self._parked), code)

    # Inside.

    def _try(self, what: object, now: Moment) -> Sequence[Reply]:
        """Let time or the world do something to the machine; again a little later if it could not be written.

        What breaks is a bug, and whoever looks after the loop hears of it. But a session that is over, or a transaction that takes too long,
        would wait for ever if its timer did not ring again.
        """
        try:
            return self._let(what, now)
        except Exception:
            self._ring_less_often(what, now)
            raise

    def _let(self, what: object, now: Moment) -> Sequence[Reply]:
        machine = self._machine
        decision = machine.on_topics_changed(now) if what is _Again.TOPICS_CHANGED else machine.on_timer(what, now)
        try:
            replies = self._carry_out(decision, now)
        except ApiError as error:
            if error.code in _TOO_LARGE:
                self._ring_less_often(what, now)
                self._on_trouble(what, error)
            elif what not in self._timers:
                self._timers.set(what, now.monotonic_ms + RING_AGAIN_MS)
            return self._refuse(_tokens(decision), error.code)
        self._failures.pop(what, None)
        return replies

    def _ring_less_often(self, what: object, now: Moment) -> None:
        failures = self._failures[what] = self._failures.get(what, 0) + 1
        if what not in self._timers:
            delay_ms = min(RING_AGAIN_MS << min(failures - 1, 16), RING_AGAIN_MAX_MS)
            self._timers.set(what, now.monotonic_ms + delay_ms)

    def _carry_out(self, decision: Decision, now: Moment) -> Sequence[Reply]:
        """Raises ApiError if it could not be written; nothing is told then, and nothing adopted."""
        self._adopt(decision, now)
        for key, at_ms in decision.timers:
            self._timers.set(key, at_ms)
            if self._failures:
                self._failures.pop(key, None)
        if not decision.replies:
            return ()
        if decision.is_told_at_once or self._end_offset <= self._log.committed_offset:
            return self._answered(decision.replies)
        deadline_ms = now.monotonic_ms + self._limits.commit_timeout_ms
        self._unsettled.append(_Unsettled(self._end_offset, deadline_ms, decision.replies))
        return ()

    def _adopt(self, decision: Decision, now: Moment) -> None:
        """Raises ApiError if it could not be written."""
        if decision.records:
            batches = self._cut(decision.records) if decision.may_be_cut else (decision.records,)
            for batch in batches:
                self._write(batch, decision.producer, now)
        for change in decision.changes:
            self._machine.adopt(change)
        self._errands.extend(_Errand(self._end_offset, what) for what in decision.errands)

    def _cut(self, records: Sequence[CoordinatorRecord]) -> Iterator[Sequence[CoordinatorRecord]]:
        """Batches of a bounded size, of one record at least."""
        size_max = min(BATCH_BYTES, self._log.batch_bytes_max) * 63 // 64 - _BATCH_OVERHEAD
        first = size = 0
        for index, record in enumerate(records):
            record_size = len(record.key) + len(record.value or b"") + _RECORD_OVERHEAD
            if index > first and size + record_size > size_max:
                yield records[first:index]
                first, size = index, 0
            size += record_size
        yield records[first:]

    def _write(self, records: Sequence[CoordinatorRecord], producer: ProducerIdentity | None, now: Moment) -> None:
        offset = self._log.append(records, now_ms=now.wall_ms, producer=producer)
        self._end_offset = offset + len(records)
        for record in records:
            self._machine.replay(record, Written(offset, *(producer or _NOBODY)))
            offset += 1

    def _answered(self, replies: Iterable[Reply]) -> list[Reply]:
        """Those whose senders still wait."""
        parked = self._parked
        return [reply for reply in replies if parked.pop(reply.token, None) is not None]

    def _refuse(self, tokens: Iterable[Token], code: ErrorCode) -> list[Reply]:
        refused: list[Reply] = []
        for token in tokens:
            command = self._parked.pop(token, None)
            if command is not None:
                refused.append(Reply(token, self._machine.refusal(command, code)))
        return refused


def _tokens(answering: Decision | _Unsettled) -> list[Token]:
    return [reply.token for reply in answering.replies]
