"""ListGroups and DescribeGroups: what is there to see."""

from __future__ import annotations

from typing import Final

from tidelog.coordinator.group.book import GroupBook
from tidelog.coordinator.group.classic.group import ClassicGroup, ClassicState
from tidelog.coordinator.group.classic.members import ClassicMember
from tidelog.model import ErrorCode
from tidelog.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from tidelog.wire.messages.list_groups import ListedGroup, ListGroupsRequest

_DEAD: Final = "Dead"
_MISSING_IS_AN_ERROR_SINCE: Final = 6  # the version of DescribeGroups


def list_groups(book: GroupBook, request: ListGroupsRequest) -> tuple[ListedGroup, ...]:
    """Those in the states and of the kinds asked for, in any case of letters."""
    states = {state.strip().lower() for state in request.states_filter}
    kinds = {kind.strip().lower() for kind in request.types_filter}
    return tuple(
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            group_state=group.state_name,
            group_type=group.kind.value,
        )
        for group in book.groups.values()
        if (not states or group.state_name.lower() in states) and (not kinds or group.kind.value in kinds)
    )


def describe_group(book: GroupBook, group_id: str, version: int) -> DescribedGroup:
    """A classic group; others have a request of their own, and are not to be found here."""
    group = book.groups.get(group_id)
    if isinstance(group, ClassicGroup):
        return _describe(group)
    reason = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a classic group."
    is_error = version >= _MISSING_IS_AN_ERROR_SINCE
    return DescribedGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND if is_error else ErrorCode.NONE,
        error_message=reason if is_error else None,
        group_id=group_id,
        group_state=_DEAD,
    )


def _describe(group: ClassicGroup) -> DescribedGroup:
    is_stable = group.state is ClassicState.STABLE
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol or "") if is_stable else "",
        members=tuple(_describe_member(member, group.protocol if is_stable else None) for member in group.members),
    )


def _describe_member(member: ClassicMember, protocol: str | None) -> DescribedGroupMember:
    """What it said and was given is shown only while it holds: between two generations neither does."""
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol is None else member.metadata(protocol),
        member_assignment=b"" if protocol is None else member.assignment,
    )
