"""What a replicated state machine is: it decides without changing anything, and changes by replaying what was written.

One machine looks after one partition of an internal topic. Whatever must survive the broker is a record of that partition: the service
appends the records of a decision, has them replayed at once, and lets the replies go when the high watermark has passed them. A broker that
becomes the leader of the partition replays it from the beginning with the same code.

What need not survive (who waits for whom, who has to say a word until when) is a change in memory, adopted after the records were replayed.
If the append fails, nothing was decided: no record is replayed, no change adopted, no timer set, and all replies become refusals. If it was
a timer that had rung, it rings again after `RING_AGAIN_MS`: nobody else would ask, and what it stood for would be forgotten. What does not
fit into the log will not fit half a second later either, so that is tried less and less often.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from tidelog.model import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ErrorCode,
    Offset,
    ProducerId,
    ProducerIdentity,
    TimestampMs,
)
from tidelog.wire.definition import Request, Response

Token: TypeAlias = int
"""Names one request that waits for its answer; the service knows the connection behind it."""

TimerKey: TypeAlias = Hashable
"""What a timer is for; one timer per key. A frozen dataclass of its own per purpose: named tuples of two types are equal if their fields are,
and setting one timer would replace the other."""


class Moment(NamedTuple):
    """Now: the wall clock for what is written, the monotonic one for what is waited for."""

    wall_ms: TimestampMs
    monotonic_ms: float


class Client(NamedTuple):
    """Who asks."""

    client_id: str
    host: str  # As Kafka shows it: "/127.0.0.1"
    version: int  # of the API in which it asks
    connection: int = 0  # Connections are numbered as they come; what a later one brought cannot be older than it.


class Command(NamedTuple):
    """A request, by whom, and how to name the answer."""

    token: Token
    request: Request[Any]
    client: Client


class CoordinatorRecord(NamedTuple):
    """A record of an internal topic; without a value it is a tombstone. The key begins with its version, an int16."""

    key: bytes
    value: bytes | None


class Written(NamedTuple):
    """Where a record lies, and in whose transaction; of a plain record the producer is -1."""

    offset: Offset
    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class Reply(NamedTuple):
    """The answer to a request, which may have been parked by an earlier decision."""

    token: Token
    response: Response


class TimerChange(NamedTuple):
    """Call `on_timer(key)` at this monotonic time instead of whatever was set for the key; never, if None."""

    key: TimerKey
    at_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do. A command whose token is not among the replies stays parked until a later decision answers it."""

    replies: tuple[Reply, ...] = ()
    records: tuple[CoordinatorRecord, ...] = ()
    producer: ProducerIdentity | None = (
        None  # in whose open transaction the records are written; None: they count at once
    )
    changes: tuple[object, ...] = ()  # given back to `adopt`, in order, after the records were replayed
    timers: tuple[TimerChange, ...] = ()
    # Replies wait until everything is committed that was appended to the partition before them, so that nobody is told what may yet be
    # lost. A reply that tells nothing of what is written (a heartbeat, a refusal) need not wait.
    is_told_at_once: bool = False
    # What is to be done elsewhere once everything is committed that was appended before. The outcome comes back as a command. An errand is
    # lost with the leadership: whoever takes over finds in the records what is left to do, and `on_loaded` asks for it again.
    errands: tuple[object, ...] = ()
    # All records are one batch, so that a broker that takes over has replayed all of them or none. Only where each of them stands for itself,
    # and half of them are as good as a smaller decision, may there be several batches; what is refused halfway is decided again.
    may_be_cut: bool = False


NO_DECISION: Final = Decision()

RING_AGAIN_MS: Final = 500
"""How long a timer waits that has rung while nothing could be appended; as long as Kafka's waits."""

RING_AGAIN_MAX_MS: Final = 60_000
"""How long it waits at most where waiting may not help: after each failure twice as long as before."""


class MalformedRecord(Exception):
    """Bytes that are no record of the kind they should be: damage, or a version that only a later release writes."""


class Machine(Protocol):
    """One partition's worth of state. Synchronous; told the time; never waits."""

    def decide(self, command: Command, now: Moment) -> Decision:
        """What a request calls for. Changes nothing, and never raises ApiError: a refusal is a reply."""
        ...

    def on_timer(self, key: TimerKey, now: Moment) -> Decision:
        """What to do now that the time has come. The timer is gone; a key that means nothing any more is no error."""
        ...

    def replay(self, record: CoordinatorRecord, written: Written) -> None:
        """Take over what a record says; records of unknown kinds are passed over. Raises MalformedRecord, and is as before then."""
        ...

    def end_transaction(self, producer_id: ProducerId, *, is_committed: bool, offset: Offset) -> None:
        """A marker at `offset` decides about all records of a producer's open transaction."""
        ...

    def adopt(self, change: object) -> None:
        """Take over a change in memory that an own decision asked for."""
        ...

    def on_loaded(self, now: Moment) -> Iterator[Decision]:
        """The partition was replayed to its end: set the timers that run from here, in pieces of less than a millisecond each.

        A piece is carried out before the next is asked for. Requests come when all of them are, and the timers run from then.
        """
        ...

    def on_topics_changed(self, now: Moment) -> Decision:
        """Topics came, went or grew."""
        ...

    def refusal(self, command: Command, code: ErrorCode) -> Response:
        """How the API of a request says that it was refused, be it that the partition is not led here or that an append failed.

        `code` is what the service or the log said; what the API says instead (7 becomes 27 for SyncGroup, 6 becomes 16) is decided here.
        """
        ...
