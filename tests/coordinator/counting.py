"""The smallest machine there is: it counts, remembers the count in its partition, and lets those wait who ask for more than there is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tidelog.coordinator import (
    Client,
    Command,
    CoordinatorRecord,
    Decision,
    MalformedRecord,
    Moment,
    Reply,
    TimerChange,
    TimerKey,
    Token,
    Written,
)
from tidelog.coordinator.internal_log import TransactionEnd
from tidelog.model import ApiError, ErrorCode, Offset, ProducerId, ProducerIdentity, TimestampMs
from tidelog.records import Codec, MarkerType, RecordBatchBuilder, build_marker, stamp
from tidelog.wire.definition import Request, Response, message

CLIENT = Client("client", "/127.0.0.1", 0)
KEY = b"\0\0count"


@message
class Counted(Response):
    """How much there is, or why nobody says."""

    count: int = -1
    error_code: ErrorCode = ErrorCode.NONE


@message
class Count(Request[Counted]):
    """Add so much. `until` waits for a count, `at_once` is answered before anything is committed, `errand` is to be done after that."""

    by: int = 0
    until: int | None = None
    at_once: bool = False
    producer: ProducerIdentity | None = None
    errand: str = ""


class Bell(NamedTuple):
    """Adds one whenever it rings."""

    name: str


class Waiting(NamedTuple):
    """A change in memory."""

    token: Token
    until: int


class CountingMachine:
    """Counts."""

    def __init__(self) -> None:
        self.count = 0
        self.seen: list[tuple[CoordinatorRecord, Written]] = []
        self.ended: list[tuple[ProducerId, bool, Offset]] = []
        self.waiting: dict[Token, int] = {}
        self.bells: dict[str, float] = {}
        self.topics_told = 0

    def decide(self, command: Command, now: Moment) -> Decision:
        request = command.request
        assert isinstance(request, Count)
        if request.until is not None and self.count < request.until:
            return Decision(changes=(Waiting(command.token, request.until),))
        count = self.count + request.by
        replies = [Reply(command.token, Counted(count=count))]
        replies += [Reply(token, Counted(count=count)) for token, until in self.waiting.items() if until <= count]
        return Decision(
            replies=tuple(replies),
            records=add(request.by),
            producer=request.producer,
            is_told_at_once=request.at_once,
            errands=(request.errand,) if request.errand else (),
        )

    def on_timer(self, key: TimerKey, now: Moment) -> Decision:
        assert isinstance(key, Bell)
        return Decision(records=add(1))

    def replay(self, record: CoordinatorRecord, written: Written) -> None:
        if not record.key.startswith(KEY):
            raise MalformedRecord("no count")
        self.seen.append((record, written))
        self.count += int(record.value or b"0")

    def end_transaction(self, producer_id: ProducerId, *, is_committed: bool, offset: Offset) -> None:
        self.ended.append((producer_id, is_committed, offset))

    def adopt(self, change: object) -> None:
        assert isinstance(change, Waiting)
        self.waiting[change.token] = change.until

    def on_loaded(self, now: Moment) -> Iterator[Decision]:
        for name, at_ms in self.bells.items():
            yield Decision(timers=(TimerChange(Bell(name), at_ms),))

    def on_topics_changed(self, now: Moment) -> Decision:
        self.topics_told += 1
        return Decision(records=add(100))

    def refusal(self, command: Command, code: ErrorCode) -> Counted:
        return Counted(error_code=code)


def add(by: int) -> tuple[CoordinatorRecord, ...]:
    return (CoordinatorRecord(KEY, str(by).encode()),) if by else ()


class MemoryLog:
    """A partition in memory, committed when a test says so."""

    def __init__(self) -> None:
        self.batches: list[tuple[Offset, bytes]] = []
        self.start_offset = 0
        self.end_offset = 0
        self.committed_offset = 0
        self.commits_at_once = False
        self.batch_bytes_max = 1 << 30
        self.error: ErrorCode | None = None
        self.read_error: ErrorCode | None = None

    def append(
        self, records: Sequence[CoordinatorRecord], *, now_ms: TimestampMs, producer: ProducerIdentity | None = None
    ) -> Offset:
        if self.error is not None:
            raise ApiError(self.error)
        builder = RecordBatchBuilder()
        if producer is not None:
            builder = RecordBatchBuilder(**producer._asdict(), base_sequence=0, is_transactional=True)
        for key, value in records:
            builder.append(timestamp_ms=now_ms, key=key, value=value)
        batch = builder.build()
        if len(batch) > self.batch_bytes_max:
            raise ApiError(ErrorCode.MESSAGE_TOO_LARGE)
        return self.put(batch)

    def append_marker(self, end: TransactionEnd, *, now_ms: TimestampMs) -> Offset:
        if self.error is not None:
            raise ApiError(self.error)
        return self.put(
            build_marker(
                MarkerType.COMMIT if end.is_committed else MarkerType.ABORT,
                **end.producer._asdict(),
                coordinator_epoch=end.coordinator_epoch,
                timestamp_ms=now_ms,
            )
        )

    def put(self, batch: bytearray, *, count: int | None = None) -> Offset:
        """Whatever it is, at the end."""
        offset = self.end_offset
        stamp(batch, 0, base_offset=offset, leader_epoch=0)
        self.batches.append((offset, bytes(batch)))
        self.end_offset += int.from_bytes(batch[23:27], "big") + 1 if count is None else count
        if self.commits_at_once:
            self.committed_offset = self.end_offset
        return offset

    def read(self, offset: Offset, *, max_bytes: int) -> bytes:
        if self.read_error is not None:
            raise ApiError(self.read_error)
        ends = [base for base, _ in self.batches[1:]] + [self.end_offset]
        wanted = [batch for (_, batch), end in zip(self.batches, ends, strict=True) if end > offset]
        return b"".join(wanted)[: max(max_bytes, len(wanted[0]) if wanted else 0)]


def batch_of(
    *values: bytes | None, codec: Codec = Codec.NONE, key: bytes | None = KEY, producer_id: int | None = None
) -> bytearray:
    """A batch of records, of a transaction if there is a producer."""
    builder = RecordBatchBuilder(codec=codec)
    if producer_id is not None:
        builder = RecordBatchBuilder(
            codec=codec, producer_id=producer_id, producer_epoch=4, base_sequence=0, is_transactional=True
        )
    for value in values:
        builder.append(timestamp_ms=0, key=key, value=value)
    return builder.build()
