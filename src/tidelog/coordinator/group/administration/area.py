"""The part of the group machine that operators talk to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidelog.coordinator.group.administration.deletion import DeletionTimer, GroupDeletion
from tidelog.coordinator.group.administration.listing import describe_group, list_groups
from tidelog.coordinator.group.area import Decider, OnTimer, Refuser, Replayer
from tidelog.coordinator.group.asked import asked, rung
from tidelog.coordinator.group.book import GroupBook
from tidelog.coordinator.group.log_errors import coordinator_error
from tidelog.coordinator.group.offsets.area import OffsetsArea
from tidelog.coordinator.group.settings import GroupSettings
from tidelog.coordinator.machine import NO_DECISION, Command, Decision, Moment, Reply, TimerKey
from tidelog.model import ErrorCode, Offset, ProducerId
from tidelog.wire.definition import Request, Response
from tidelog.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from tidelog.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from tidelog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


class AdminArea:
    """ListGroups, DescribeGroups, DeleteGroups. Writes only tombstones, which other areas replay."""

    def __init__(self, book: GroupBook, settings: GroupSettings, offsets: OffsetsArea) -> None:
        del settings  # None of them is for operators.
        self._book = book
        self._deletion = GroupDeletion(book, offsets.table)

    @property
    def deciders(self) -> Mapping[type[Request[Any]], Decider]:
        """Three requests."""
        return {
            ListGroupsRequest: self._list,
            DescribeGroupsRequest: self._describe,
            DeleteGroupsRequest: self._deletion.decide,
        }

    @property
    def refusers(self) -> Mapping[type[Request[Any]], Refuser]:
        """The same three."""
        return {
            ListGroupsRequest: _refuse_list,
            DescribeGroupsRequest: _refuse_describe,
            DeleteGroupsRequest: _refuse_delete,
        }

    @property
    def replayers(self) -> Mapping[int, Replayer]:
        """No records of its own."""
        return {}

    @property
    def timers(self) -> Mapping[type, OnTimer]:
        """The slices of large deletions."""
        return {DeletionTimer: self._go_on}

    def on_loaded(self, now: Moment) -> Iterator[Decision]:
        """Nothing to do."""
        del now
        return iter(())

    def on_topics_changed(self, now: Moment) -> Decision:
        """Nothing to do."""
        del now
        return NO_DECISION

    def end_transaction(self, producer_id: ProducerId, *, is_committed: bool, offset: Offset) -> None:
        """Nothing to do."""

    def _list(self, command: Command, _: Moment) -> Decision:
        request = asked(command, ListGroupsRequest)
        response = ListGroupsResponse(error_code=ErrorCode.NONE, groups=list_groups(self._book, request))
        return Decision(replies=(Reply(command.token, response),))

    def _describe(self, command: Command, _: Moment) -> Decision:
        request = asked(command, DescribeGroupsRequest)
        groups = tuple(describe_group(self._book, group_id, command.client.version) for group_id in request.groups)
        return Decision(replies=(Reply(command.token, DescribeGroupsResponse(groups=groups)),))

    def _go_on(self, key: TimerKey, now: Moment) -> Decision:
        return self._deletion.go_on(rung(key, DeletionTimer), now)


def _refuse_list(_: Command, code: ErrorCode) -> Response:
    return ListGroupsResponse(error_code=coordinator_error(code))


def _refuse_describe(command: Command, code: ErrorCode) -> Response:
    request = asked(command, DescribeGroupsRequest)
    error = coordinator_error(code)
    return DescribeGroupsResponse(
        groups=tuple(DescribedGroup(error_code=error, group_id=group_id) for group_id in request.groups)
    )


def _refuse_delete(command: Command, code: ErrorCode) -> Response:
    request = asked(command, DeleteGroupsRequest)
    error = coordinator_error(code)
    return DeleteGroupsResponse(
        results=tuple(DeletableGroupResult(group_id=group_id, error_code=error) for group_id in request.groups_names)
    )
