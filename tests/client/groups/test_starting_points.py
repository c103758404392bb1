"""Where partitions begin: after what was committed, else where the policy says; and what is committed for them."""

from __future__ import annotations

import pytest

from tidelog.client import NoPosition
from tidelog.client.assignment import Assignment
from tidelog.client.config_kinds import OffsetReset
from tidelog.client.errors import GroupRefused
from tidelog.client.groups.offset_commits import Committed
from tidelog.client.groups.starting_points import StartingPoints
from tidelog.model import ErrorCode, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def waiting(policy: OffsetReset = OffsetReset.EARLIEST) -> tuple[Assignment, StartingPoints]:
    assignment = Assignment(policy=policy, buffered_bytes_max=1000)
    assignment.assign([T0, T1], awaits_committed=True)
    return assignment, StartingPoints(assignment)


def test_nothing_is_fetched_or_reset_before_it_is_known_what_was_committed() -> None:
    assignment, points = waiting()
    assert [state.topic_partition for state in points.waiting()] == [T0, T1]
    assert assignment.fetchable(0) == assignment.resets_due(0) == []
    assert points.positions() == {}


def test_committed_partitions_go_on_and_others_begin_where_the_policy_says() -> None:
    assignment, points = waiting()
    points.begin(points.waiting(), {T0: Committed(5, 2), T1: None}, None)
    assert [(s.topic_partition, s.fetch_offset, s.fetched_epoch) for s in assignment.fetchable(0)] == [(T0, 5, 2)]
    assert [(state.topic_partition, state.reset) for state in assignment.resets_due(0)] == [(T1, OffsetReset.EARLIEST)]
    assert points.positions() == {T0: Committed(5, 2)}
    assert points.waiting() == []


def test_without_a_policy_nothing_committed_is_an_error_of_the_partition() -> None:
    assignment, points = waiting(OffsetReset.NONE)
    points.begin(points.waiting(), {T0: None, T1: Committed(1)}, None)
    with pytest.raises(NoPosition, match="nothing is committed for t-0"):
        assignment.take(1)


def test_refusal_is_an_error_of_the_partition() -> None:
    assignment, points = waiting()
    points.begin(points.waiting(), {}, GroupRefused(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    with pytest.raises(GroupRefused):
        assignment.take(1)


def test_partition_that_was_moved_or_given_up_meanwhile_is_left_alone() -> None:
    assignment, points = waiting()
    asked = points.waiting()
    assignment.seek(T0, 9)
    assignment.assign([T0])
    points.begin(asked, {T0: Committed(5), T1: Committed(5)}, None)
    assert points.positions() == {T0: Committed(9)}
    assert assignment.topic_partitions == [T0]
