"""Where a consumer stands, and what it makes of answers."""

from __future__ import annotations

import pytest

from tests.client.test_fetched import batch, fetched
from tidelog.client.assignment import Assignment, Reaction, Watermarks
from tidelog.client.config_kinds import OffsetReset
from tidelog.client.errors import CorruptRecords, FetchFailed, NoPosition, OffsetOutOfRange
from tidelog.model import ErrorCode, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ENDS = Watermarks(10, 10, 0)


def assigned(policy: OffsetReset = OffsetReset.EARLIEST, *, at: int | None = 0) -> Assignment:
    assignment = Assignment(policy=policy, buffered_bytes_max=1000)
    assignment.assign([T0])
    if at is not None:
        assignment.seek(T0, at)
    return assignment


def generation(assignment: Assignment) -> int:
    return assignment.state(T0).generation


def fetchable(assignment: Assignment, now_ms: float = 0) -> list[TopicPartition]:
    return [state.topic_partition for state in assignment.fetchable(now_ms)]


def test_a_new_partition_waits_for_the_offset_its_policy_names() -> None:
    assignment = assigned(OffsetReset.LATEST, at=None)
    (waiting,) = assignment.resets_due(0)
    assert waiting.reset is OffsetReset.LATEST
    assert fetchable(assignment) == []
    assignment.on_reset(T0, waiting.generation, 42)
    assert fetchable(assignment) == [T0]
    assert assignment.state(T0).position == 42


def test_without_a_policy_a_partition_needs_a_seek() -> None:
    assignment = assigned(OffsetReset.NONE, at=None)
    with pytest.raises(NoPosition, match="seek first"):
        assignment.take(1)
    assignment.seek(T0, 3)
    assert fetchable(assignment) == [T0]


def test_a_seek_beats_a_reset_under_way() -> None:
    assignment = assigned(at=None)
    late = generation(assignment)
    assignment.seek(T0, 7)
    assignment.on_reset(T0, late, 0)
    assert assignment.state(T0).position == 7


def test_answers_to_questions_from_before_a_seek_are_ignored() -> None:
    assignment = assigned()
    late = generation(assignment)
    assignment.seek(T0, 0)
    assignment.on_fetched(T0, late, fetched(batch(0, 2)), ENDS)
    assert assignment.take(10) == []


def test_reassigning_keeps_the_position_of_what_stays() -> None:
    assignment = assigned(at=5)
    assignment.assign([T1, T0])
    assert assignment.state(T0).position == 5
    assignment.assign([T1])
    with pytest.raises(NoPosition):
        assignment.state(T0)


def test_fetching_runs_ahead_of_the_position_by_two_answers_at_most() -> None:
    assignment = assigned()
    assignment.on_fetched(T0, generation(assignment), fetched(batch(0, 2)), ENDS)
    assert assignment.state(T0).fetch_offset == 2
    assert fetchable(assignment) == [T0]
    assignment.on_fetched(T0, generation(assignment), fetched(batch(2, 2), at=2), ENDS)
    assert fetchable(assignment) == []
    assert [record.offset for record in assignment.take(3)] == [0, 1, 2]
    assert assignment.state(T0).position == 3
    assert fetchable(assignment) == [T0]


def test_nothing_is_fetched_while_too_much_waits() -> None:
    assignment = assigned()
    assignment.on_fetched(T0, generation(assignment), fetched(batch(0, 100)), ENDS)
    assert assignment.buffered_bytes > 1000
    assert fetchable(assignment) == []


def test_a_partition_that_got_something_goes_last() -> None:
    assignment = assigned()
    assignment.assign([T0, T1])
    assignment.seek(T1, 0)
    assignment.on_fetched(T0, generation(assignment), fetched(batch(0, 1)), ENDS)
    assert fetchable(assignment) == [T1, T0]


def test_watermarks_told_once_are_remembered_across_seeks() -> None:
    assignment = assigned()
    before_the_seek = generation(assignment)
    assignment.seek_to(T0, OffsetReset.LATEST)
    assignment.on_fetched(T0, before_the_seek, fetched(b""), ENDS)
    assignment.seek(T0, 4)
    assert assignment.state(T0).watermarks == ENDS


def test_out_of_range_resets_by_policy() -> None:
    assignment = assigned(OffsetReset.EARLIEST, at=99)
    assert assignment.on_error(T0, generation(assignment), ErrorCode.OFFSET_OUT_OF_RANGE) is Reaction.NOTHING
    (waiting,) = assignment.resets_due(0)
    assert waiting.reset is OffsetReset.EARLIEST


def test_out_of_range_without_a_policy_is_raised_until_a_seek() -> None:
    assignment = assigned(OffsetReset.NONE, at=99)
    assignment.on_error(T0, generation(assignment), ErrorCode.OFFSET_OUT_OF_RANGE)
    for _ in range(2):
        with pytest.raises(OffsetOutOfRange, match="offset 99 of t-0"):
            assignment.take(1)
    assignment.seek(T0, 0)
    assert assignment.take(1) == []


def test_out_of_range_ahead_of_buffered_records_waits_until_they_are_handed_out() -> None:
    assignment = assigned()
    assignment.on_fetched(T0, generation(assignment), fetched(batch(0, 2)), ENDS)
    assert assignment.on_error(T0, generation(assignment), ErrorCode.OFFSET_OUT_OF_RANGE) is Reaction.BACK_OFF
    assert [record.offset for record in assignment.take(10)] == [0, 1]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ],
)
def test_a_changed_leader_asks_for_metadata(code: ErrorCode) -> None:
    assignment = assigned()
    assert assignment.on_error(T0, generation(assignment), code) is Reaction.REFRESH_METADATA


def test_a_passing_error_backs_off_longer_every_time() -> None:
    assignment = assigned()
    assert assignment.on_error(T0, generation(assignment), ErrorCode.OFFSET_NOT_AVAILABLE) is Reaction.BACK_OFF
    for expected in (100, 200):
        assignment.back_off(T0, generation(assignment), now_ms=0, delay_ms=lambda failures: 100.0 * failures)
        assert assignment.next_retry_ms(0) == expected
        assert fetchable(assignment, expected - 1) == []
        assert fetchable(assignment, expected) == [T0]


def test_a_lasting_error_is_raised_by_polls() -> None:
    assignment = assigned()
    assignment.on_error(T0, generation(assignment), ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(FetchFailed, match="TOPIC_AUTHORIZATION_FAILED"):
        assignment.take(1)
    assert fetchable(assignment) == []


def test_records_of_healthy_partitions_come_before_the_error_of_a_broken_one() -> None:
    assignment = assigned()
    assignment.assign([T0, T1])
    assignment.seek(T1, 0)
    assignment.on_fetched(T0, generation(assignment), fetched(b"\0" * 80), ENDS)
    assignment.on_fetched(T1, assignment.state(T1).generation, fetched(batch(0, 1)), ENDS)
    assert len(assignment.take(10)) == 1
    with pytest.raises(CorruptRecords):
        assignment.take(10)
