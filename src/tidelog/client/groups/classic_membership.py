"""A member of a classic group: join, sync, heartbeat, and again whenever the group rebalances. Pure.

Eager members give up all their partitions before they join; cooperative ones keep them, learn from the new assignment what to give up,
and join once more when they have, so that others can be given it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from tidelog.client.groups.assignors import (
    ASSIGNORS,
    RebalanceProtocol,
    assign,
    common_protocol,
    read_members,
)
from tidelog.client.groups.membership import (
    NO_EPOCH,
    UNKNOWN_MEMBER,
    Ask,
    Change,
    Count,
    Identity,
    MembershipSettings,
    Outlook,
    Rest,
    Step,
    Wish,
    without,
)
from tidelog.client.groups.subscription_codec import (
    MemberAssignment,
    Subscription,
    read_assignment,
    write_assignment,
    write_subscription,
)
from tidelog.model import ErrorCode, TopicId, TopicPartition
from tidelog.wire.api import Request, Response
from tidelog.wire.errors import MalformedMessage
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

PROTOCOL_TYPE: Final = "consumer"
JOIN_GRACE_MS: Final = 5_000
"""The coordinator answers a parked join when the rebalance timeout is over; so much later its answer is due."""

COORDINATOR_ELSEWHERE: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_MEMBER_UNKNOWN: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})


class _Phase(enum.Enum):
    """Where the member stands."""

    OUTSIDE = enum.auto()  # not subscribed, or put out because the program does not poll
    UNJOINED = enum.auto()
    JOINING = enum.auto()
    COUNTING = enum.auto()  # leads, and needs to know how many partitions there are
    SYNCING = enum.auto()
    STABLE = enum.auto()


class ClassicMembership:
    """One member. Fenced or forgotten, it loses what it owns and joins as somebody new."""

    def __init__(self, settings: MembershipSettings) -> None:
        self._settings = settings
        self._assignors = [ASSIGNORS[name] for name in settings.assignors]
        self._protocol = common_protocol(self._assignors)
        self._wish: Wish | None = None
        self._said: Wish | None = None  # what the group was told when the member joined
        self._phase = _Phase.OUTSIDE
        self._member_id = UNKNOWN_MEMBER
        self._generation = NO_EPOCH
        self._owned: tuple[TopicPartition, ...] = ()
        self._owned_since = NO_EPOCH
        self._had: tuple[TopicPartition, ...] = ()  # with the last assignment, given up or not
        self._target: tuple[TopicPartition, ...] | None = None
        self._is_telling = False  # the program, of a change
        self._is_lost = False
        self._wants_rejoin = False
        self._is_prepared = False  # whatever had to be told before joining has been
        self._joined: JoinGroupResponse | None = None
        self._shares: tuple[SyncGroupRequestAssignment, ...] = ()
        self._group_topics: tuple[str, ...] = ()
        self._counted: dict[str, int] | None = None  # what the leader has shared out
        self._withholds = (
            False  # The leader has kept something back until its owner gives it up; whoever took its place may not.
        )
        self._patience_ends_ms = float("inf")
        self._heartbeat_due_ms = 0.0
        self._poll_due_ms = float("inf")
        self._is_late = False
        self._error: ErrorCode | None = None

    @property
    def identity(self) -> Identity:
        """Who commits."""
        return Identity(self._member_id, self._generation, self._settings.instance_id)

    @property
    def owned(self) -> tuple[TopicPartition, ...]:
        """What the program has been given and not been told to give up."""
        return self._owned

    @property
    def error(self) -> ErrorCode | None:
        """Why the member cannot be in the group at all, until it subscribes again."""
        return self._error

    def subscribe(self, wish: Wish | None) -> None:
        """Want these topics from now on; members rejoin to say so."""
        is_new = wish != self._wish
        self._wish, self._error = wish, None
        if wish is not None and self._phase is _Phase.OUTSIDE and not self._is_late:
            self._phase = _Phase.UNJOINED
        elif wish is not None and is_new:
            self._want_rejoin()

    def on_polled(self, now_ms: float) -> bool:
        """The program is alive; if it was put out for being late, it may join again."""
        self._poll_due_ms = now_ms + self._settings.max_poll_interval_ms
        was_late, self._is_late = self._is_late, False
        if was_late and self._wish is not None:
            self._phase = _Phase.UNJOINED
        return was_late

    def next_step(self, now_ms: float) -> Step:
        """What to do now."""
        if self._error is not None or self._phase is _Phase.OUTSIDE or self._is_lost:
            return Rest(None)
        if now_ms >= self._poll_due_ms and self._phase in {_Phase.STABLE, _Phase.UNJOINED}:
            return self._leave_late()
        if self._phase is _Phase.COUNTING:
            return Count(self._group_topics)
        if self._phase is _Phase.SYNCING:
            return Ask(self._sync_request())
        if self._is_ready_to_join():
            self._phase = _Phase.JOINING
            self._is_prepared = self._wants_rejoin = False
            self._said = self._wish
            return Ask(self._join_request(), self._settings.max_poll_interval_ms + JOIN_GRACE_MS)
        if self._phase is _Phase.UNJOINED:
            return Rest(self._poll_due_ms)
        if now_ms >= self._heartbeat_due_ms:
            return Ask(self._heartbeat_request())
        return Rest(min(self._heartbeat_due_ms, self._poll_due_ms))

    def on_answer(self, response: Response, now_ms: float) -> Outlook:
        """What the coordinator said."""
        self._heartbeat_due_ms = now_ms + self._settings.heartbeat_interval_ms
        match response:
            case JoinGroupResponse():
                return self._on_join(response)
            case SyncGroupResponse():
                patience_ms = self._settings.session_timeout_ms if self._withholds else float("inf")
                self._patience_ends_ms = now_ms + patience_ms
                return self._on_sync(response)
            case HeartbeatResponse():
                if now_ms >= self._patience_ends_ms:
                    self._want_rejoin()
                return self._on_heartbeat(response)
        return Outlook.GO_ON

    def on_failure(self, now_ms: float) -> None:
        """Nobody answered: whatever was under way in a rebalance begins again."""
        if self._phase in {_Phase.JOINING, _Phase.SYNCING}:
            self._join_again()
        self._heartbeat_due_ms = now_ms

    def on_counts(self, partition_counts: Mapping[str, int]) -> None:
        """A new leader shares the partitions out."""
        if self._phase is _Phase.COUNTING and self._joined is not None:
            self._counted = self._counts_of_group(partition_counts)
            self._shares = self._share_out(self._joined, self._counted)
            self._phase = _Phase.SYNCING

    def on_count_news(self, partition_counts: Mapping[str, int]) -> None:
        """The leader calls for a rebalance when there is something else to share than it has shared out."""
        if self._counted is not None and self._counts_of_group(partition_counts) != self._counted:
            self._want_rejoin()

    def on_names(self, names: Mapping[TopicId, str]) -> None:
        """Classic groups know topics by their names."""

    @property
    def is_lost(self) -> bool:
        """Whether the member was put out and its program does not know yet."""
        return self._is_lost

    @property
    def has_change(self) -> bool:
        """Whether there is something to tell the program."""
        return not self._is_telling and self._change() is not None

    def begin_change(self) -> Change | None:
        """What the program is to be told now; `on_changed` must follow."""
        change = None if self._is_telling else self._change()
        self._is_telling = self._is_telling or change is not None
        return change

    def on_changed(self, change: Change) -> None:
        """The program was told."""
        self._is_telling = False
        self._owned = without(self._owned, change.lost + change.revoked)
        self._owned += without(change.assigned, self._owned)
        if self._is_lost:
            self._is_lost = bool(self._owned)  # It may have been lost while the program was being told.
            self._had = ()
        elif self._target is None:
            self._is_prepared = True
        else:
            # Cooperative members join once more, so that others can be given what was given up.
            is_cooperative = self._protocol is RebalanceProtocol.COOPERATIVE
            self._wants_rejoin = self._wants_rejoin or (is_cooperative and bool(change.revoked))
            self._had, self._owned_since, self._target = self._target, self._generation, None

    def on_commit_refused(self, code: ErrorCode, identity: Identity) -> None:
        """A commit tells as much as a heartbeat would; one of an earlier self tells nothing."""
        if identity == self.identity and self._phase is _Phase.STABLE:
            self._on_member_error(code)

    def leave_request(self) -> Request[Response] | None:
        """Static members keep their place until their session lapses."""
        member_id, is_member = self._member_id, self._member_id != UNKNOWN_MEMBER and self._phase is not _Phase.OUTSIDE
        self._phase, self._wish, self._target = _Phase.OUTSIDE, None, None
        self._owned = ()
        self._is_lost = self._is_telling = self._is_prepared = self._wants_rejoin = False
        self._member_id, self._generation, self._counted = UNKNOWN_MEMBER, NO_EPOCH, None
        if not is_member or self._settings.instance_id is not None:
            return None
        return self._leave_request_of(member_id, "the consumer is being closed")

    def _change(self) -> Change | None:
        if self._is_lost:
            return Change(lost=self._owned)
        if self._target is not None and self._phase is _Phase.STABLE:
            return Change(revoked=without(self._owned, self._target), assigned=without(self._target, self._owned))
        is_joining = self._phase is _Phase.UNJOINED or (self._phase is _Phase.STABLE and self._wants_rejoin)
        if is_joining and not self._is_prepared and self._owned:
            return Change(revoked=self._to_give_up(), is_rebalance=True)
        return None

    def _counts_of_group(self, partition_counts: Mapping[str, int]) -> dict[str, int]:
        return {topic: partition_counts[topic] for topic in self._group_topics if topic in partition_counts}

    def _is_ready_to_join(self) -> bool:
        if self._wish is None or self._target is not None or self._is_telling:
            return False
        may_join = self._phase is _Phase.UNJOINED or (self._phase is _Phase.STABLE and self._wants_rejoin)
        return may_join and (self._is_prepared or not self._owned)

    def _to_give_up(self) -> tuple[TopicPartition, ...]:
        if self._protocol is RebalanceProtocol.EAGER:
            return self._owned
        topics = () if self._wish is None else self._wish.topics
        return tuple(partition for partition in self._owned if partition.topic not in topics)

    def _join_request(self) -> JoinGroupRequest:
        topics = () if self._wish is None else self._wish.topics
        protocols = []
        for assignor in self._assignors:
            subscription = Subscription(
                topics=topics,
                user_data=assignor.user_data(self._had, self._owned_since),
                owned=self._owned,
                generation=self._generation,
                rack=self._settings.rack,
            )
            protocols.append(JoinGroupRequestProtocol(name=assignor.name, metadata=write_subscription(subscription)))
        return JoinGroupRequest(
            group_id=self._settings.group_id,
            session_timeout_ms=self._settings.session_timeout_ms,
            rebalance_timeout_ms=self._settings.max_poll_interval_ms,
            member_id=self._member_id,
            group_instance_id=self._settings.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=tuple(protocols),
        )

    def _sync_request(self) -> SyncGroupRequest:
        joined = self._joined
        return SyncGroupRequest(
            group_id=self._settings.group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._settings.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=None if joined is None else joined.protocol_name,
            assignments=self._shares,
        )

    def _heartbeat_request(self) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self._settings.group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._settings.instance_id,
        )

    def _leave_request_of(self, member_id: str, reason: str) -> LeaveGroupRequest:
        identity = MemberIdentity(member_id=member_id, group_instance_id=self._settings.instance_id, reason=reason)
        return LeaveGroupRequest(group_id=self._settings.group_id, members=(identity,))

    def _leave_late(self) -> Step:
        """The program has not polled for too long: others shall have its partitions."""
        member_id = self._member_id
        self._forget_membership(keeps_id=False)
        self._phase, self._is_late = _Phase.OUTSIDE, True
        if member_id == UNKNOWN_MEMBER or self._settings.instance_id is not None:
            return Rest(None)
        return Ask(self._leave_request_of(member_id, "the program did not poll within max.poll.interval.ms"))

    def _on_join(self, response: JoinGroupResponse) -> Outlook:
        code = response.error_code
        if code is ErrorCode.NONE:
            self._on_joined(response)
            return Outlook.GO_ON
        self._join_again()
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = response.member_id
            return Outlook.GO_ON
        return self._on_member_error(code)

    def _on_joined(self, response: JoinGroupResponse) -> None:
        self._member_id, self._generation = response.member_id, response.generation_id
        self._joined, self._shares, self._counted, self._withholds = response, (), None, False
        if response.leader != response.member_id:
            self._phase = _Phase.SYNCING
            return
        subscriptions = [each.subscription for each in read_members(response.members)]
        self._group_topics = tuple(sorted({topic for each in subscriptions for topic in each.topics}))
        self._phase = _Phase.COUNTING

    def _share_out(
        self, response: JoinGroupResponse, counts: Mapping[str, int]
    ) -> tuple[SyncGroupRequestAssignment, ...]:
        if response.skip_assignment:
            return ()
        shares = assign(ASSIGNORS[response.protocol_name or ""], counts, read_members(response.members))
        self._withholds = sum(map(len, shares.values())) < sum(counts.values())
        return tuple(
            SyncGroupRequestAssignment(
                member_id=member_id, assignment=write_assignment(MemberAssignment(partitions=tuple(partitions)))
            )
            for member_id, partitions in shares.items()
        )

    def _on_sync(self, response: SyncGroupResponse) -> Outlook:
        self._shares = ()
        if response.error_code is not ErrorCode.NONE:
            self._join_again()
            return self._on_member_error(response.error_code)
        try:
            self._target = read_assignment(response.assignment).partitions
        except MalformedMessage:
            self._join_again()
            return Outlook.BACK_OFF
        self._phase = _Phase.STABLE
        if self._wish is not None and self._wish != self._said:
            self._want_rejoin()
        return Outlook.GO_ON

    def _on_heartbeat(self, response: HeartbeatResponse) -> Outlook:
        if response.error_code is ErrorCode.NONE:
            return Outlook.GO_ON
        if response.error_code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._want_rejoin()
            return Outlook.GO_ON
        return self._on_member_error(response.error_code)

    def _on_member_error(self, code: ErrorCode) -> Outlook:
        if code in COORDINATOR_ELSEWHERE:
            return Outlook.LOOK_UP_COORDINATOR
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._want_rejoin()
            return Outlook.BACK_OFF
        if code in _MEMBER_UNKNOWN:
            self._forget_membership(keeps_id=code is ErrorCode.ILLEGAL_GENERATION)
            self._phase = _Phase.OUTSIDE if self._wish is None else _Phase.UNJOINED
            return Outlook.BACK_OFF
        if not code.is_retriable and code is not ErrorCode.UNKNOWN_SERVER_ERROR:
            self._forget_membership(keeps_id=False)
            self._phase, self._error = _Phase.UNJOINED, code
        return Outlook.BACK_OFF

    def _want_rejoin(self) -> None:
        if self._phase is _Phase.STABLE:
            self._wants_rejoin = True

    def _join_again(self) -> None:
        """What was given up stays given up; nothing needs to be told before the next attempt."""
        self._phase, self._is_prepared = _Phase.UNJOINED, True

    def _forget_membership(self, *, keeps_id: bool) -> None:
        self._member_id = self._member_id if keeps_id else UNKNOWN_MEMBER
        self._generation, self._target, self._counted = NO_EPOCH, None, None
        self._is_lost = bool(self._owned) or self._is_telling
        self._is_prepared = self._wants_rejoin = False
