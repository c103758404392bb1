"""LeaveGroup: members go, or an administrator has them go."""

from __future__ import annotations

from typing import Final

from tidelog.coordinator.group.classic.group import ClassicGroup
from tidelog.coordinator.group.classic.rebalancing import complete_if_everybody_joined, rebalance
from tidelog.coordinator.group.classic.turn import Turn
from tidelog.coordinator.machine import Command
from tidelog.model import ApiError, ErrorCode
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

_MEMBERS_SINCE: Final = 3
"""Versions before that name one member in a field of its own, and have one error for all."""


def leave(turn: Turn, command: Command, request: LeaveGroupRequest) -> None:
    """Each gets an answer of its own. Whoever is left goes on without those who were members."""
    group = turn.group
    leaving: dict[str, None] = {}
    answers: list[MemberResponse] = []
    for identity in who_leaves(request, command.client.version):
        try:
            member_id = _find(group, identity)
            if member_id in leaving:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)  # It has left in this very request.
            leaving[member_id] = None
            code = ErrorCode.NONE
        except ApiError as error:
            code = error.code
        answers.append(
            MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code)
        )
    if leaving:
        turn.remove(leaving)
        if any(member_id in group.members for member_id in leaving):
            rebalance(turn)
        else:
            complete_if_everybody_joined(turn)  # An id that was given out is not waited for any more.
    turn.reply(command.token, leave_response(answers, command.client.version))


def leave_nothing(command: Command, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """What everybody is told who would leave a group that is not there."""
    version = command.client.version
    answers = [
        MemberResponse(
            member_id=identity.member_id,
            group_instance_id=identity.group_instance_id,
            error_code=ErrorCode.UNKNOWN_MEMBER_ID,
        )
        for identity in who_leaves(request, version)
    ]
    return leave_response(answers, version)


def who_leaves(request: LeaveGroupRequest, version: int) -> tuple[MemberIdentity, ...]:
    """All that a request names, in whichever way its version does."""
    if request.members or version >= _MEMBERS_SINCE:
        return request.members
    return (MemberIdentity(member_id=request.member_id),)


def leave_response(answers: list[MemberResponse], version: int) -> LeaveGroupResponse:
    """Where there is one member only, what became of it is what became of the request."""
    code = answers[0].error_code if answers and version < _MEMBERS_SINCE else ErrorCode.NONE
    return LeaveGroupResponse(error_code=code, members=tuple(answers))


def _find(group: ClassicGroup, identity: MemberIdentity) -> str:
    """The id of whoever is meant, which may be one that has not joined yet. Raises ApiError."""
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if not member_id:
        known_id = None if instance_id is None else group.members.by_instance.get(instance_id)
        if known_id is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return known_id
    if member_id not in group.pending:
        group.check_member(member_id, instance_id)
    return member_id
