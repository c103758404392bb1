"""SyncGroup: the leader says who gets what, and everybody asks for its part."""

from __future__ import annotations

from dataclasses import replace

from tidelog.coordinator.group.classic.group import ClassicGroup, ClassicState
from tidelog.coordinator.group.classic.timing import SyncTimer
from tidelog.coordinator.group.classic.turn import Turn
from tidelog.coordinator.machine import Token
from tidelog.model import ApiError, ErrorCode
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def sync(turn: Turn, token: Token, request: SyncGroupRequest) -> None:
    """Answer with what the member was assigned, once the leader has said it. Raises ApiError."""
    group, member_id = turn.group, request.member_id
    group.check_generation(member_id, request.group_instance_id, request.generation_id)
    if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol_name, group.protocol):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is ClassicState.PREPARING_REBALANCE:
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
    if member_id in group.unsynced:
        _note(turn, member_id)
    if group.state is ClassicState.STABLE:
        turn.reply(token, _part(group, member_id))
        turn.restart_session(member_id)
        return
    turn.park_sync(member_id, token)
    if member_id == group.leader:
        _stabilize(turn, {part.member_id: part.assignment for part in request.assignments})


def _note(turn: Turn, member_id: str) -> None:
    """A member has asked for its part. When everybody has, nobody is waited for."""
    unsynced = dict(turn.group.unsynced)
    del unsynced[member_id]
    turn.group = replace(turn.group, unsynced=unsynced)
    if not unsynced:
        turn.stop_timer(SyncTimer(turn.group.group_id))


def _stabilize(turn: Turn, assignments: dict[str, bytes]) -> None:
    """Write down what the leader has said, and tell those who wait. Members it has forgotten get nothing; strangers are passed over."""
    group = turn.group
    turn.group = replace(group, members=group.members.assigned(assignments), syncs={})
    turn.enter(ClassicState.STABLE)
    turn.write()
    for member_id, token in group.syncs.items():
        turn.reply(token, _part(turn.group, member_id))
        turn.restart_session(member_id)


def _part(group: ClassicGroup, member_id: str) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=group.members[member_id].assignment,
    )


def _differs(said: str | None, known: str | None) -> bool:
    """Whether both say something, and not the same."""
    return said is not None and known is not None and said != known
