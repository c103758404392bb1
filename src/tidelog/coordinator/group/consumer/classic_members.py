"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup mean what a heartbeat means.

Such a member joins to hear its epoch (the generation) and syncs to hear its part, which the coordinator has computed. If it has to give
something up it is told to join again, as it would be in a classic group of cooperative members; nobody waits for anybody else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidelog.coordinator.group.area import Decider
from tidelog.coordinator.group.asked import asked
from tidelog.coordinator.group.book import GroupBook
from tidelog.coordinator.group.classic.group import ClassicGroup
from tidelog.coordinator.group.classic.joining import Join, check_join
from tidelog.coordinator.group.classic.leaving import leave_response, who_leaves
from tidelog.coordinator.group.classic.turn import Turn as ClassicTurn
from tidelog.coordinator.group.consumer.checking import check_place, check_size
from tidelog.coordinator.group.consumer.embedded import EmbeddedSubscription, encode_assignment, parse_subscription
from tidelog.coordinator.group.consumer.group import ConsumerGroup
from tidelog.coordinator.group.consumer.heartbeat import take_place
from tidelog.coordinator.group.consumer.joining import Step
from tidelog.coordinator.group.consumer.leaving import known_member, tombstones
from tidelog.coordinator.group.consumer.member import NOTHING, Member, MemberState
from tidelog.coordinator.group.consumer.migration import Migration
from tidelog.coordinator.group.consumer.timing import RejoinTimer, SyncTimer
from tidelog.coordinator.group.consumer.turn import Surroundings, Turn
from tidelog.coordinator.group.records import ClassicMemberMetadata, ClassicProtocol
from tidelog.coordinator.machine import Client, Command, Decision, Moment, Reply
from tidelog.model import ApiError, ErrorCode, InvariantBroken
from tidelog.runtime import Randomness
from tidelog.wire.definition import Request, Response
from tidelog.wire.errors import MalformedMessage
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tidelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity, MemberResponse
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

MEMBER_ID_REQUIRED_SINCE = 4
"""The version of JoinGroup from which on a new member is given an id first (KIP-394)."""


class ClassicMembers:
    """Decides for groups that are consumer groups; the classic area asks here."""

    def __init__(self, book: GroupBook, around: Surroundings, migration: Migration, randomness: Randomness) -> None:
        self._book = book
        self._around = around
        self._migration = migration
        self._randomness = randomness

    @property
    def deciders(self) -> Mapping[type[Request[Any]], Decider]:
        """By the type of the request."""
        return {
            JoinGroupRequest: self._decide_join,
            SyncGroupRequest: self._decide_sync,
            HeartbeatRequest: self._decide_heartbeat,
            LeaveGroupRequest: self._decide_leave,
        }

    def _turn(self, group_id: str, now: Moment) -> Turn:
        group = self._book.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            raise InvariantBroken(f"{group_id} is no consumer group")
        return Turn(group, self._around, now)

    # JoinGroup.

    def _decide_join(self, command: Command, now: Moment) -> Decision:
        request = asked(command, JoinGroupRequest)
        turn = self._turn(request.group_id, now)
        try:
            return (
                self._begin_anew(turn, command, request) if turn.group.is_empty else self._join(turn, command, request)
            )
        except ApiError as error:
            return _told(command, JoinGroupResponse(error_code=error.code, member_id=request.member_id))

    def _join(self, turn: Turn, command: Command, request: JoinGroupRequest) -> Decision:
        group = turn.group
        check_join(request, turn.around.settings)
        member_id = request.member_id or str(self._randomness.uuid())
        check_size(group, member_id, turn.around.settings)
        subscription = self._subscription(group, request)
        is_new = not request.member_id
        if is_new and request.group_instance_id is None and command.client.version >= MEMBER_ID_REQUIRED_SINCE:
            return _told(command, JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))
        static = group.static_member(request.group_instance_id)
        if static is not None and is_new and self._is_last_replaced(group, static):
            return self._downgrade(turn, static, command, request)
        former, replaced = _former(turn, member_id, request, static)
        member = Step(turn, former, _updated(former, request, command.client, subscription), replaced).take(
            subscription.owned
        )
        turn.timers[RejoinTimer(group.group_id, member_id)] = None
        turn.restart_session(member)
        turn.set_timer(SyncTimer(group.group_id, member_id), member.rebalance_timeout_ms)
        response = JoinGroupResponse(
            error_code=ErrorCode.NONE,
            generation_id=member.epoch,
            protocol_type="consumer",
            protocol_name=_protocols(member)[0].name,
            member_id=member_id,
        )
        turn.reply(command.token, response)
        return turn.decision()

    def _begin_anew(self, turn: Turn, command: Command, request: JoinGroupRequest) -> Decision:
        """Where nobody is left, the next one decides which protocol is spoken. Raises ApiError."""
        check_join(request, turn.around.settings)
        if request.member_id:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        empty = ClassicGroup(group_id=turn.group.group_id)
        classic = ClassicTurn(empty, turn.around.settings, turn.now)
        is_told_at_once = Join(classic, command, request, self._randomness).decide()
        decision = classic.decision(is_told_at_once=is_told_at_once)
        if not decision.changes:
            return decision
        return replace(
            decision, records=(*tombstones(turn.group), empty.record(), *decision.records), is_told_at_once=False
        )

    def _subscription(self, group: ConsumerGroup, request: JoinGroupRequest) -> EmbeddedSubscription:
        """What it says, if classic members of this group can understand it. Raises ApiError."""
        names = [protocol.name for protocol in request.protocols]
        is_shared = any(group.classic_support[name] == group.classic_count for name in names)
        if request.protocol_type != "consumer" or not is_shared:
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        try:
            return parse_subscription(request.protocols[0].metadata, self._around.topics)
        except MalformedMessage as error:
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL) from error

    def _is_last_replaced(self, group: ConsumerGroup, static: Member) -> bool:
        """Whether whoever speaks the new protocol is going to be replaced by somebody who does not, and was the last."""
        others = [member for member in group.members.values() if member is not static]
        is_last = static.classic is None and all(member.classic is not None for member in others)
        stands_in = replace(static, classic=ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=()))
        return is_last and self._migration.can_downgrade([*others, stands_in])

    def _downgrade(self, turn: Turn, static: Member, command: Command, request: JoinGroupRequest) -> Decision:
        """Have it join a classic group in which it has been all the time: its place is taken over as among classic members."""
        stands_in = replace(static, classic=_metadata(request), rebalance_timeout_ms=request.rebalance_timeout_ms)
        group = turn.group
        members = [stands_in if member is static else member for member in group.members.values()]
        goes_on = group.epoch == group.assignment_epoch and all(
            member.is_reconciled_to(group.assignment_epoch) for member in members if member is not stands_in
        )
        classic = self._migration.downgraded(turn, members, goes_on=goes_on)
        Join(classic, command, request, self._randomness).decide()
        return self._migration.handed_over(turn, classic)

    # SyncGroup.

    def _decide_sync(self, command: Command, now: Moment) -> Decision:
        request = asked(command, SyncGroupRequest)
        turn = self._turn(request.group_id, now)
        group = turn.group
        try:
            member = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
            protocol = _protocols(member)[0]
            if request.protocol_type not in (None, "consumer") or request.protocol_name not in (None, protocol.name):
                raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        except ApiError as error:
            return _told(command, SyncGroupResponse(error_code=error.code))
        if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            _expect_rejoin(turn, member)
            turn.reply(command.token, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
            return turn.decision(is_told_at_once=True)
        turn.timers[SyncTimer(group.group_id, member.member_id)] = None
        turn.restart_session(member)
        response = SyncGroupResponse(
            error_code=ErrorCode.NONE,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=encode_assignment(member.assigned, protocol.metadata, self._around.topics),
        )
        turn.reply(command.token, response)
        return turn.decision()

    # Heartbeat.

    def _decide_heartbeat(self, command: Command, now: Moment) -> Decision:
        request = asked(command, HeartbeatRequest)
        turn = self._turn(request.group_id, now)
        try:
            member = _classic_member(turn.group, request.member_id, request.group_instance_id, request.generation_id)
        except ApiError as error:
            return _told(command, HeartbeatResponse(error_code=error.code))
        turn.restart_session(member)
        has_to_rejoin = (
            member.epoch < turn.group.epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (member.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(turn.group, member))
        )
        if has_to_rejoin:
            _expect_rejoin(turn, member)
        code = ErrorCode.REBALANCE_IN_PROGRESS if has_to_rejoin else ErrorCode.NONE
        turn.reply(command.token, HeartbeatResponse(error_code=code))
        return turn.decision(is_told_at_once=True)

    # LeaveGroup.

    def _decide_leave(self, command: Command, now: Moment) -> Decision:
        request = asked(command, LeaveGroupRequest)
        turn = self._turn(request.group_id, now)
        version = command.client.version
        gone: dict[str, None] = {}
        answers: list[MemberResponse] = []
        for identity in who_leaves(request, version):
            try:
                member_id = _leaving_id(turn.group, identity)
                if member_id in gone:
                    raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
                gone[member_id] = None
                code = ErrorCode.NONE
            except ApiError as error:
                code = error.code
            answers.append(
                MemberResponse(
                    member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code
                )
            )
        turn.reply(command.token, leave_response(answers, version))
        return self._migration.remove(turn, gone) if gone else turn.decision(is_told_at_once=True)


def _former(
    turn: Turn, member_id: str, request: JoinGroupRequest, static: Member | None
) -> tuple[Member, Member | None]:
    """The member until now, and whom it replaces. Raises ApiError."""
    known = turn.group.members.get(member_id)
    if request.group_instance_id is None:
        return known or Member(member_id=member_id), None
    if request.member_id:
        return check_place(static, member_id, request.group_instance_id), None
    if static is None:
        return Member(member_id=member_id), None
    return take_place(turn, static, member_id), static


def _updated(member: Member, request: JoinGroupRequest, client: Client, subscription: EmbeddedSubscription) -> Member:
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=request.group_instance_id,
        rack_id=subscription.rack or member.rack_id,
        rebalance_timeout_ms=timeout_ms if timeout_ms != -1 else request.session_timeout_ms,
        topics=subscription.topics,
        regex=None,
        client_id=client.client_id,
        client_host=client.host,
        classic=_metadata(request),
    )


def _metadata(request: JoinGroupRequest) -> ClassicMemberMetadata:
    return ClassicMemberMetadata(
        session_timeout_ms=request.session_timeout_ms,
        supported_protocols=tuple(
            ClassicProtocol(name=each.name, metadata=each.metadata) for each in request.protocols
        ),
    ).without_repetitions()


def _classic_member(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> Member:
    """A classic member of this generation. Raises ApiError."""
    member = known_member(group, member_id, instance_id)
    if member.classic is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    if member.epoch != generation:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    return member


def _leaving_id(group: ConsumerGroup, identity: MemberIdentity) -> str:
    """Raises ApiError. An administrator names instances only."""
    instance_id = identity.group_instance_id
    if instance_id is None:
        member = group.member(identity.member_id)
    else:
        static = group.static_member(instance_id)
        known_id = "" if static is None else static.member_id
        member = check_place(static, identity.member_id or known_id, instance_id)
    if member.classic is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member.member_id


def _protocols(member: Member) -> tuple[ClassicProtocol, ...]:
    if member.classic is None:
        raise InvariantBroken(f"{member.member_id} is no classic member")
    return member.classic.supported_protocols


def _waits_for_others(group: ConsumerGroup, member: Member) -> bool:
    """Whether something that it shall have is still somebody else's."""
    return any(
        group.owner(topic_id, partition) is not None
        for topic_id, partitions in group.targets.get(member.member_id, NOTHING).items()
        for partition in partitions - member.assigned.get(topic_id, frozenset())
    )


def _expect_rejoin(turn: Turn, member: Member) -> None:
    """Its time to do so runs from when it was told first."""
    until_ms = turn.now.monotonic_ms + member.rebalance_timeout_ms
    until_ms = turn.group.join_deadlines.setdefault(member.member_id, until_ms)
    turn.timers[RejoinTimer(turn.group.group_id, member.member_id)] = until_ms


def _told(command: Command, response: Response) -> Decision:
    return Decision(replies=(Reply(command.token, response),), is_told_at_once=True)
