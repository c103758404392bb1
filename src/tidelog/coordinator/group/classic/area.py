"""Classic groups as a part of the group machine: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and the records of key version 2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

from tidelog.coordinator.group.area import LOOKS_AT_ONCE, Decider, OnTimer, Refuser, Replayer
from tidelog.coordinator.group.book import GroupBook
from tidelog.coordinator.group.classic.group import ClassicGroup, ClassicState
from tidelog.coordinator.group.classic.joining import Join, check_join
from tidelog.coordinator.group.classic.leaving import leave, leave_nothing
from tidelog.coordinator.group.classic.rebalancing import (
    complete_if_everybody_joined,
    on_join_timer,
    on_sync_timer,
    rebalance,
)
from tidelog.coordinator.group.classic.refusing import REFUSERS
from tidelog.coordinator.group.classic.syncing import sync
from tidelog.coordinator.group.classic.timing import JoinTimer, SessionTimer, SyncTimer, session_restart
from tidelog.coordinator.group.classic.turn import Turn
from tidelog.coordinator.group.records import CLASSIC_GROUP_KEY, read_group_key, read_group_value
from tidelog.coordinator.group.settings import GroupSettings
from tidelog.coordinator.machine import (
    NO_DECISION,
    Command,
    CoordinatorRecord,
    Decision,
    Moment,
    Reply,
    TimerKey,
    Written,
)
from tidelog.model import ApiError, ErrorCode, InvariantBroken, Offset, ProducerId
from tidelog.runtime import Randomness
from tidelog.wire.definition import Request, Response
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

Asked = TypeVar("Asked")

NOBODY: Final[Mapping[type[Request[Any]], Decider]] = MappingProxyType({})


class ClassicArea:
    """Everything about classic groups. `elsewhere` decides the same requests where a group is there and is not classic."""

    def __init__(
        self,
        book: GroupBook,
        settings: GroupSettings,
        randomness: Randomness,
        elsewhere: Mapping[type[Request[Any]], Decider] = NOBODY,
    ) -> None:
        self._book = book
        self._settings = settings
        self._randomness = randomness
        self._elsewhere = elsewhere

    @property
    def deciders(self) -> Mapping[type[Request[Any]], Decider]:
        """Four requests."""
        return {
            JoinGroupRequest: self._decide_join,
            SyncGroupRequest: self._decide_sync,
            HeartbeatRequest: self._decide_heartbeat,
            LeaveGroupRequest: self._decide_leave,
        }

    @property
    def refusers(self) -> Mapping[type[Request[Any]], Refuser]:
        """The same four."""
        return REFUSERS

    @property
    def replayers(self) -> Mapping[int, Replayer]:
        """Groups."""
        return {CLASSIC_GROUP_KEY: self._replay}

    @property
    def timers(self) -> Mapping[type, OnTimer]:
        """Sessions and the two halves of a rebalance."""
        return {SessionTimer: self._on_session_timer, JoinTimer: self._on_join_timer, SyncTimer: self._on_sync_timer}

    def on_loaded(self, now: Moment) -> Iterator[Decision]:
        """All members have their whole session to say that they are there. Some groups have to settle again."""
        for count, group in enumerate(list(self._book.groups.values())):
            if isinstance(group, ClassicGroup) and group.members:
                yield self.take_over(group, now)
            elif count % LOOKS_AT_ONCE == 0:
                yield NO_DECISION

    def on_topics_changed(self, now: Moment) -> Decision:
        """The leaders of classic groups look after topics themselves."""
        return NO_DECISION

    def end_transaction(self, producer_id: ProducerId, *, is_committed: bool, offset: Offset) -> None:
        """Groups are not written in transactions."""

    # For other areas.

    def take_over(self, group: ClassicGroup, now: Moment) -> Decision:
        """Look after a group that was replayed from now on. One that nobody leads was made of another kind, and has to settle first."""
        turn = Turn(group, self._settings, now)
        for member in group.members:
            turn.restart_session(member.member_id)
        if group.members and (group.leader is None or len(group.members) > self._settings.max_size):
            rebalance(turn)
        return turn.decision()

    def join(self, command: Command, group: ClassicGroup | None, now: Moment) -> Decision:
        """Have somebody join a group, which begins to exist if there is none."""
        request = _asked(command, JoinGroupRequest)
        try:
            check_join(request, self._settings)
            if group is None and request.member_id:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        except ApiError as error:
            return _told(command, JoinGroupResponse(error_code=error.code, member_id=request.member_id))
        turn = Turn(ClassicGroup(group_id=request.group_id) if group is None else group, self._settings, now)
        is_told_at_once = Join(turn, command, request, self._randomness).decide()
        return turn.decision(is_told_at_once=is_told_at_once)

    # Requests.

    def _decide_join(self, command: Command, now: Moment) -> Decision:
        request = _asked(command, JoinGroupRequest)
        group = self._book.groups.get(request.group_id)
        if group is None or isinstance(group, ClassicGroup):
            return self.join(command, group, now)
        if JoinGroupRequest in self._elsewhere:
            return self._elsewhere[JoinGroupRequest](command, now)
        return _told(command, JoinGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id=""))

    def _decide_sync(self, command: Command, now: Moment) -> Decision:
        request = _asked(command, SyncGroupRequest)
        try:
            group = self._find(request.group_id)
            if group is None:
                return self._elsewhere[SyncGroupRequest](command, now)
            turn = Turn(group, self._settings, now)
            sync(turn, command.token, request)
        except ApiError as error:
            return _told(command, SyncGroupResponse(error_code=error.code))
        return turn.decision()

    def _decide_heartbeat(self, command: Command, now: Moment) -> Decision:
        """By far the most frequent one: nothing but a timer is touched."""
        request = _asked(command, HeartbeatRequest)
        try:
            group = self._find(request.group_id)
            if group is None:
                return self._elsewhere[HeartbeatRequest](command, now)
            group.check_generation(request.member_id, request.group_instance_id, request.generation_id)
        except ApiError as error:
            return _told(command, HeartbeatResponse(error_code=error.code))
        is_rebalancing = group.state is ClassicState.PREPARING_REBALANCE
        code = ErrorCode.REBALANCE_IN_PROGRESS if is_rebalancing else ErrorCode.NONE
        return Decision(
            replies=(Reply(command.token, HeartbeatResponse(error_code=code)),),
            timers=(session_restart(group, request.member_id, now),),
            is_told_at_once=True,
        )

    def _decide_leave(self, command: Command, now: Moment) -> Decision:
        request = _asked(command, LeaveGroupRequest)
        try:
            group = self._find(request.group_id)
        except ApiError as error:
            if error.code is ErrorCode.UNKNOWN_MEMBER_ID:
                return _told(command, leave_nothing(command, request))
            return _told(command, LeaveGroupResponse(error_code=error.code))
        if group is None:
            return self._elsewhere[LeaveGroupRequest](command, now)
        turn = Turn(group, self._settings, now)
        leave(turn, command, request)
        return turn.decision()

    def _find(self, group_id: str) -> ClassicGroup | None:
        """The group; None if it is somebody else's. Raises ApiError if it is nobody's."""
        if not group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        group = self._book.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return group
        if group is None or not self._elsewhere:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return None

    # Timers.

    def _on_session_timer(self, key: TimerKey, now: Moment) -> Decision:
        """A member is gone, unless it waits for us; whoever is new has to be gone one day even then."""
        if not isinstance(key, SessionTimer):
            return NO_DECISION
        turn = self._turn(key.group_id, now)
        if turn is None:
            return NO_DECISION
        group, member_id = turn.group, key.member_id
        if member_id in group.pending:
            turn.remove((member_id,))
            complete_if_everybody_joined(turn)
        elif member_id in group.members:
            is_waiting = member_id in group.joins or member_id in group.syncs
            if is_waiting and not group.members[member_id].is_new:
                return NO_DECISION
            turn.remove((member_id,))
            rebalance(turn)
        return turn.decision()

    def _on_join_timer(self, key: TimerKey, now: Moment) -> Decision:
        turn = self._turn(key.group_id, now) if isinstance(key, JoinTimer) else None
        if turn is None:
            return NO_DECISION
        on_join_timer(turn)
        return turn.decision()

    def _on_sync_timer(self, key: TimerKey, now: Moment) -> Decision:
        turn = self._turn(key.group_id, now) if isinstance(key, SyncTimer) else None
        if turn is None:
            return NO_DECISION
        on_sync_timer(turn)
        return turn.decision()

    def _turn(self, group_id: str, now: Moment) -> Turn | None:
        group = self._book.groups.get(group_id)
        return Turn(group, self._settings, now) if isinstance(group, ClassicGroup) else None

    # Records.

    def _replay(self, record: CoordinatorRecord, written: Written) -> None:
        """A tombstone says nothing about a group that has become one of the other kind."""
        group_id = read_group_key(record.key)
        if record.value is not None:
            self._book.groups[group_id] = ClassicGroup.from_value(group_id, read_group_value(record.value))
        elif isinstance(self._book.groups.get(group_id), ClassicGroup):
            del self._book.groups[group_id]


def _asked(command: Command, kind: type[Asked]) -> Asked:
    request = command.request
    if not isinstance(request, kind):
        raise InvariantBroken(f"a {type(request).__name__} is no {kind.__name__}")
    return request


def _told(command: Command, response: Response) -> Decision:
    return Decision(replies=(Reply(command.token, response),), is_told_at_once=True)
