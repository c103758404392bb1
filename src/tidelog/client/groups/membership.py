"""What the two kinds of membership have in common: who the member is, what it does next, and what its program has to be told.

A membership is a state machine. The session asks it again and again what to do (`next_step`), tells it what came of that, and hands
`Change`s to the program when it polls: only then may partitions come and go, because only then is the program between two records.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias

from tidelog.model import ErrorCode, TopicId, TopicPartition
from tidelog.wire.api import Request, Response

UNKNOWN_MEMBER: Final = ""
NO_EPOCH: Final = -1


class Identity(NamedTuple):
    """Who commits: the generation of a classic member, or the epoch of a KIP-848 one; -1 and no id outside of any group."""

    member_id: str = UNKNOWN_MEMBER
    epoch: int = NO_EPOCH
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a consumer subscribes to: topics by name, or those whose names match a pattern that the coordinator evaluates (KIP-848)."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipSettings:
    """What a member says of itself when it joins."""

    group_id: str
    instance_id: str | None = None
    rack: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    assignors: tuple[str, ...] = ("range", "cooperative-sticky")
    remote_assignor: str | None = None


class Change(NamedTuple):
    """What the program is told, in this order. What is lost may have been given to others already; what is revoked is still ours.

    Before a rebalance offsets are committed, even if nothing is revoked.
    """

    lost: tuple[TopicPartition, ...] = ()
    revoked: tuple[TopicPartition, ...] = ()
    assigned: tuple[TopicPartition, ...] = ()
    is_rebalance: bool = False

    @property
    def needs_commit(self) -> bool:
        """Whether this is the last chance to commit."""
        return self.is_rebalance or bool(self.revoked)

    def as_lost(self) -> Change:
        """The same for a member that was put out before its program could be told."""
        return Change(lost=self.lost + self.revoked)


class Ask(NamedTuple):
    """Send this to the coordinator, and tell the membership the answer or the failure."""

    request: Request[Response]
    timeout_ms: float | None = None  # beyond request.timeout.ms, for requests that the coordinator parks


class Count(NamedTuple):
    """Find out how many partitions these topics have."""

    topics: tuple[str, ...]


class Name(NamedTuple):
    """Find out what these topics are called."""

    topic_ids: tuple[TopicId, ...]


class Rest(NamedTuple):
    """Nothing to do before this time, unless something happens; None: nothing until something happens."""

    until_ms: float | None


Step: TypeAlias = Ask | Count | Name | Rest


class Outlook(enum.Enum):
    """What an answer means for the next attempt."""

    GO_ON = enum.auto()
    BACK_OFF = enum.auto()
    LOOK_UP_COORDINATOR = enum.auto()


class Membership(Protocol):
    """One member of one group, of either kind."""

    @property
    def identity(self) -> Identity:
        """Who commits."""
        ...

    @property
    def owned(self) -> tuple[TopicPartition, ...]:
        """What the program has been given and not been told to give up."""
        ...

    @property
    def error(self) -> ErrorCode | None:
        """Why the member cannot be in the group at all, until it subscribes again."""
        ...

    def subscribe(self, wish: Wish | None) -> None:
        """Want these topics from now on; None: leave, which takes effect with `leave_request`."""
        ...

    def on_polled(self, now_ms: float) -> bool:
        """The program is alive; returns whether that changes what is next."""
        ...

    def next_step(self, now_ms: float) -> Step:
        """What to do now."""
        ...

    def on_answer(self, response: Response, now_ms: float) -> Outlook:
        """What the coordinator said to the last `Ask`."""
        ...

    def on_failure(self, now_ms: float) -> None:
        """The last `Ask` was not answered."""
        ...

    def on_counts(self, partition_counts: Mapping[str, int]) -> None:
        """How many partitions topics have, of those a `Count` asked for."""
        ...

    def on_count_news(self, partition_counts: Mapping[str, int]) -> None:
        """How many partitions topics have by now, as far as anybody knows."""
        ...

    def on_names(self, names: Mapping[TopicId, str]) -> None:
        """What topics are called, of those a `Name` asked for."""
        ...

    @property
    def is_lost(self) -> bool:
        """Whether the member was put out and its program does not know yet: what it owns may be others' by now."""
        ...

    @property
    def has_change(self) -> bool:
        """Whether there is something to tell the program when it polls next."""
        ...

    def begin_change(self) -> Change | None:
        """What the program is to be told now; `on_changed` must follow, whatever the program makes of it."""
        ...

    def on_changed(self, change: Change) -> None:
        """The program was told."""
        ...

    def on_commit_refused(self, code: ErrorCode, identity: Identity) -> None:
        """A commit in the name of `identity` was refused for a reason that concerns the membership."""
        ...

    def leave_request(self) -> Request[Response] | None:
        """Be no member any more; what to tell the coordinator, if anything. Partitions still owned are for the caller to give up."""
        ...


def without(partitions: tuple[TopicPartition, ...], others: tuple[TopicPartition, ...]) -> tuple[TopicPartition, ...]:
    """Those that are not among the others, in their order."""
    return tuple(partition for partition in partitions if partition not in set(others))
