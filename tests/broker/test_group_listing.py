"""ListGroups puts together what the partitions of a broker say."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from tidelog.broker.handlers import list_groups
from tidelog.model import ErrorCode
from tidelog.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from tidelog.broker.node import Node
    from tidelog.server import RequestContext


@dataclass
class Groups:
    """Partitions that answer as a test has it."""

    answers: list[ListGroupsResponse] = field(default_factory=list)
    is_started: bool = True

    async def ask_all(self, _: ListGroupsRequest, __: object) -> list[ListGroupsResponse]:
        return self.answers


@dataclass
class Asked:
    """As much of a node as is looked at."""

    groups: Groups


def listed(groups: Groups) -> tuple[ErrorCode, list[str]]:
    node, context = cast("Node", Asked(groups)), cast("RequestContext", None)
    response = asyncio.run(list_groups.handle(node, context, ListGroupsRequest()))
    return ErrorCode(response.error_code), [group.group_id for group in response.groups]


def said(*names: str, code: ErrorCode = ErrorCode.NONE) -> ListGroupsResponse:
    groups = tuple(ListedGroup(group_id=name, protocol_type="consumer") for name in names)
    return ListGroupsResponse(error_code=code, groups=groups)


def test_the_groups_of_all_partitions_come_in_order() -> None:
    assert listed(Groups([said("c", "a"), said(), said("b")])) == (ErrorCode.NONE, ["a", "b", "c"])


def test_a_partition_that_went_elsewhere_meanwhile_is_passed_over_and_one_that_is_loaded_is_not() -> None:
    gone = said(code=ErrorCode.NOT_COORDINATOR)
    loading = said(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert listed(Groups([said("a"), gone])) == (ErrorCode.NONE, ["a"])
    assert listed(Groups([said("a"), gone, loading])) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])


def test_a_broker_that_stops_does_not_say_that_there_are_no_groups() -> None:
    assert listed(Groups(is_started=False)) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])
