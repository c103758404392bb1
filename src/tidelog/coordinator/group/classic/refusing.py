"""How the requests of classic groups are refused when there is nobody to decide them, or nowhere to write what was decided."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from tidelog.coordinator.group.area import Refuser
from tidelog.coordinator.machine import Command
from tidelog.model import ErrorCode
from tidelog.wire.definition import Request
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_SAID: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""What a client is told of what the log said: it knows coordinators, not logs."""


def _refuse_join(command: Command, code: ErrorCode) -> JoinGroupResponse:
    request = command.request
    member_id = request.member_id if isinstance(request, JoinGroupRequest) else ""
    return JoinGroupResponse(error_code=_SAID.get(code, code), member_id=member_id)


def _refuse_sync(command: Command, code: ErrorCode) -> SyncGroupResponse:
    """Members that were told to try again would try in vain: the generation may be lost. They have to join again."""
    if code in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REQUEST_TIMED_OUT):
        return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    return SyncGroupResponse(error_code=_SAID.get(code, code))


def _refuse_heartbeat(command: Command, code: ErrorCode) -> HeartbeatResponse:
    """While the group is read, its members go on as if nothing had happened: their sessions begin when it was read."""
    is_loading = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else _SAID.get(code, code))


def _refuse_leave(command: Command, code: ErrorCode) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=_SAID.get(code, code))


REFUSERS: Final[Mapping[type[Request[Any]], Refuser]] = MappingProxyType(
    {
        JoinGroupRequest: _refuse_join,
        SyncGroupRequest: _refuse_sync,
        HeartbeatRequest: _refuse_heartbeat,
        LeaveGroupRequest: _refuse_leave,
    }
)
