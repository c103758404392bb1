"""A member of a group of the new protocol (KIP-848): one kind of request, and partitions that come and go one member at a time. Pure.

The coordinator assigns. A heartbeat's answer says what the member may own from now on; the member gives up what is not in it, takes what
is new, and says with the next heartbeat what it owns now: only then are others given what it gave up.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tidelog.client.groups.classic_membership import COORDINATOR_ELSEWHERE
from tidelog.client.groups.membership import (
    Ask,
    Change,
    Identity,
    MembershipSettings,
    Name,
    Outlook,
    Rest,
    Step,
    Wish,
)
from tidelog.model import ErrorCode, TopicId, TopicPartition
from tidelog.wire.api import Request, Response
from tidelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_FOR_A_WHILE_EPOCH: Final = -2
"""A static member that will be back: its partitions wait for it."""

_FENCED: Final = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})


class _Phase(enum.Enum):
    """Where the member stands."""

    OUTSIDE = enum.auto()  # not subscribed, or put out because the program does not poll
    JOINING = enum.auto()
    MEMBER = enum.auto()


class _Owned(NamedTuple):
    """A partition of a topic that may be deleted and made again under the same name."""

    topic_id: TopicId
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody calls on a partition


class ConsumerMembership:
    """One member, by an id that it made itself and keeps. Fenced, it loses what it owns and joins again with epoch 0."""

    def __init__(self, settings: MembershipSettings, member_id: str) -> None:
        self._settings = settings
        self._member_id = member_id
        self._epoch = JOIN_EPOCH
        self._phase = _Phase.OUTSIDE
        self._wish: Wish | None = None
        self._names: dict[TopicId, str] = {}
        self._owned: dict[_Owned, None] = {}
        self._target: dict[_Owned, None] | None = None
        self._telling: dict[_Owned, None] | None = None  # what will be owned when the program has been told
        self._is_lost = False
        self._must_say_all = True  # in the next heartbeat
        self._must_say_owned = False
        self._must_say_wish = False
        self._heartbeat_due_ms = 0.0
        self._poll_due_ms = float("inf")
        self._is_late = False
        self._error: ErrorCode | None = None

    @property
    def identity(self) -> Identity:
        """Who commits."""
        return Identity(self._member_id, self._epoch, self._settings.instance_id)

    @property
    def owned(self) -> tuple[TopicPartition, ...]:
        """What the program has been given and not been told to give up."""
        return self._named(self._owned)

    @property
    def error(self) -> ErrorCode | None:
        """Why the member cannot be in the group at all, until it subscribes again."""
        return self._error

    @property
    def is_lost(self) -> bool:
        """Whether the member was put out and its program does not know yet."""
        return self._is_lost

    @property
    def has_change(self) -> bool:
        """Whether there is something to tell the program."""
        return self._telling is None and self._change() is not None

    def subscribe(self, wish: Wish | None) -> None:
        """Want these topics from now on; the next heartbeat, which goes out at once, says so."""
        is_new = wish != self._wish
        self._wish, self._error = wish, None
        if wish is not None and self._phase is _Phase.OUTSIDE and not self._is_late:
            self._join()
        elif wish is not None and is_new:
            self._must_say_wish = True

    def on_polled(self, now_ms: float) -> bool:
        """The program is alive; if it was put out for being late, it may join again."""
        self._poll_due_ms = now_ms + self._settings.max_poll_interval_ms
        was_late, self._is_late = self._is_late, False
        if was_late and self._wish is not None:
            self._join()
        return was_late

    def next_step(self, now_ms: float) -> Step:
        """What to do now."""
        if self._error is not None or self._phase is _Phase.OUTSIDE or self._is_lost:
            return Rest(None)
        if now_ms >= self._poll_due_ms:
            return self._leave_late()
        unnamed = tuple(dict.fromkeys(each.topic_id for each in self._target or () if each.topic_id not in self._names))
        is_urgent = self._phase is _Phase.JOINING or self._must_say_owned or self._must_say_wish
        if is_urgent or now_ms >= self._heartbeat_due_ms:
            return Ask(self._heartbeat_request())
        return Name(unnamed) if unnamed else Rest(min(self._heartbeat_due_ms, self._poll_due_ms))

    def on_answer(self, response: Response, now_ms: float) -> Outlook:
        """What the coordinator said."""
        if not isinstance(response, ConsumerGroupHeartbeatResponse) or self._phase is _Phase.OUTSIDE:
            return Outlook.GO_ON
        if response.error_code is not ErrorCode.NONE:
            self._heartbeat_due_ms = now_ms
            return self._on_error(response.error_code)
        self._phase, self._epoch = _Phase.MEMBER, response.member_epoch
        self._member_id = response.member_id or self._member_id
        self._heartbeat_due_ms = now_ms + response.heartbeat_interval_ms
        if response.assignment is not None:
            self._target = {
                _Owned(topic.topic_id, index): None
                for topic in response.assignment.topic_partitions
                for index in topic.partitions
                if topic.topic_id is not None
            }
            # What is owned already needs no word to the program, but one to the coordinator.
            self._must_say_owned = self._must_say_owned or self._target.keys() == self._owned.keys()
        return Outlook.GO_ON

    def on_failure(self, now_ms: float) -> None:
        """Nobody knows what the coordinator has heard: say everything again."""
        self._must_say_all = True
        self._heartbeat_due_ms = now_ms

    def on_counts(self, partition_counts: Mapping[str, int]) -> None:
        """The coordinator counts partitions itself."""

    def on_count_news(self, partition_counts: Mapping[str, int]) -> None:
        """And notices by itself when there are more."""

    def on_names(self, names: Mapping[TopicId, str]) -> None:
        """What topics are called; partitions of those that nobody knows yet are taken when somebody does."""
        self._names |= names

    def begin_change(self) -> Change | None:
        """What the program is to be told now; `on_changed` must follow."""
        change = None if self._telling is not None else self._change()
        if change is not None:
            self._telling = {} if self._is_lost else self._nameable()
        return change

    def on_changed(self, change: Change) -> None:
        """The program was told; the coordinator is next."""
        given_up, taken = set(change.lost + change.revoked), set(change.assigned)
        kept = {each: None for each in self._owned if self._name(each) not in given_up}
        self._owned = kept | {each: None for each in self._telling or () if self._name(each) in taken}
        self._telling = None
        if self._is_lost:
            # Lost while the program was being told of something else, or told now.
            self._is_lost = bool(self._owned)
            return
        self._must_say_owned = True

    def on_commit_refused(self, code: ErrorCode, identity: Identity) -> None:
        """A commit tells as much as a heartbeat would; one of an earlier self tells nothing, and a stale epoch is renewed soon."""
        if identity == self.identity and self._phase is _Phase.MEMBER and code is not ErrorCode.STALE_MEMBER_EPOCH:
            self._on_error(code)

    def leave_request(self) -> Request[Response] | None:
        """Static members say that they will be back."""
        is_member = self._phase is not _Phase.OUTSIDE
        request = self._leave()
        self._wish, self._owned, self._target, self._telling, self._is_lost = None, {}, None, None, False
        return request if is_member else None

    def _join(self) -> None:
        self._phase, self._epoch, self._target = _Phase.JOINING, JOIN_EPOCH, None
        self._must_say_all, self._must_say_owned, self._must_say_wish = True, False, False

    def _leave(self) -> ConsumerGroupHeartbeatRequest:
        self._phase, self._epoch, self._target = _Phase.OUTSIDE, JOIN_EPOCH, None
        return ConsumerGroupHeartbeatRequest(
            group_id=self._settings.group_id,
            member_id=self._member_id,
            member_epoch=LEAVE_EPOCH if self._settings.instance_id is None else LEAVE_FOR_A_WHILE_EPOCH,
            instance_id=self._settings.instance_id,
        )

    def _leave_late(self) -> Step:
        """The program has not polled for too long: others shall have its partitions."""
        self._is_lost = bool(self._owned) or self._telling is not None
        self._is_late = True
        return Ask(self._leave())

    def _heartbeat_request(self) -> ConsumerGroupHeartbeatRequest:
        says_all, wish = self._must_say_all or self._phase is _Phase.JOINING, self._wish or Wish()
        says_wish, says_owned = says_all or self._must_say_wish, says_all or self._must_say_owned
        self._must_say_all = self._must_say_owned = self._must_say_wish = False
        settings = self._settings
        return ConsumerGroupHeartbeatRequest(
            group_id=settings.group_id,
            member_id=self._member_id,
            member_epoch=self._epoch,
            instance_id=settings.instance_id,
            rack_id=settings.rack if says_all else None,
            rebalance_timeout_ms=settings.max_poll_interval_ms if says_all else -1,
            subscribed_topic_names=tuple(sorted(wish.topics)) if says_wish else None,
            subscribed_topic_regex=self._said_pattern(wish) if says_wish else None,
            server_assignor=settings.remote_assignor if says_all else None,
            topic_partitions=self._by_topic(self._owned) if says_owned else None,
        )

    def _said_pattern(self, wish: Wish) -> str | None:
        """None leaves a member that is there what it said before, so an empty one takes that back, be it that nobody heard it."""
        return wish.pattern if self._phase is _Phase.JOINING else wish.pattern or ""

    def _on_error(self, code: ErrorCode) -> Outlook:
        self._must_say_all = True
        if code in COORDINATOR_ELSEWHERE:
            return Outlook.LOOK_UP_COORDINATOR
        if code in _FENCED:
            self._is_lost = bool(self._owned) or self._telling is not None
            self._join()
            return Outlook.BACK_OFF
        if not code.is_retriable and code is not ErrorCode.UNKNOWN_SERVER_ERROR:
            self._is_lost = bool(self._owned) or self._telling is not None
            self._join()
            self._error = code
        return Outlook.BACK_OFF

    def _change(self) -> Change | None:
        if self._is_lost:
            return Change(lost=self._named(self._owned))
        if self._target is None:
            return None
        nameable = self._nameable()
        if nameable.keys() == self._owned.keys():
            return None
        revoked = [each for each in self._owned if each not in nameable]
        assigned = [each for each in nameable if each not in self._owned]
        return Change(revoked=self._named(revoked), assigned=self._named(assigned))

    def _nameable(self) -> dict[_Owned, None]:
        return {each: None for each in self._target or () if each.topic_id in self._names}

    def _named(self, partitions: Iterable[_Owned]) -> tuple[TopicPartition, ...]:
        return tuple(map(self._name, partitions))

    def _name(self, partition: _Owned) -> TopicPartition:
        return TopicPartition(self._names[partition.topic_id], partition.index)

    def _by_topic(self, partitions: Iterable[_Owned]) -> tuple[TopicPartitions, ...]:
        indexes: dict[TopicId, list[int]] = {}
        for topic_id, index in partitions:
            indexes.setdefault(topic_id, []).append(index)
        return tuple(TopicPartitions(topic_id=topic_id, partitions=tuple(each)) for topic_id, each in indexes.items())
