"""A consumer whose log was cut under it, and one whose log was not (KIP-320)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.client.scripted_brokers import AS_USUAL, T0, ScriptedBrokers, View
from tests.client.test_fetched import batch, fetched
from tests.client.test_moving_leaders import consumer_config, read
from tidelog.client import Consumer, LogTruncated, OffsetReset
from tidelog.client.assignment import Assignment, Watermarks
from tidelog.client.errors import FetchFailed
from tidelog.client.position_checks import EpochEnd, PositionCheck, PositionChecks
from tidelog.model import BrokerId, ErrorCode
from tidelog.runtime import Runtime
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.fetch import FetchRequest
from tidelog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

ENDS = Watermarks(10, 10, 0)


# What the consumer decides.


def reading(policy: OffsetReset = OffsetReset.EARLIEST, *, taken: int = 0) -> tuple[Assignment, PositionChecks]:
    """A consumer that has fetched five records of epoch 3 from the leader of epoch 3, and handed out some."""
    assignment = Assignment(policy=policy, buffered_bytes_max=10_000)
    checks = PositionChecks(assignment)
    assignment.assign([T0])
    assignment.seek(T0, 0)
    checks.on_leader_epoch(T0, 3)
    assignment.on_fetched(T0, assignment.state(T0).generation, fetched(batch(0, 5)), ENDS)
    assert len(assignment.take(taken)) == taken
    return assignment, checks


def check_due(checks: PositionChecks) -> PositionCheck:
    (check,) = checks.due(0)
    return check


def is_fetchable(assignment: Assignment) -> bool:
    return bool(assignment.fetchable(0))


def test_the_epoch_it_reads_in_needs_no_check() -> None:
    assignment, checks = reading()
    assert checks.due(0) == []
    assert is_fetchable(assignment)


def test_a_new_epoch_is_checked_before_it_is_fetched_from() -> None:
    assignment, checks = reading()
    checks.on_leader_epoch(T0, 4)
    assert check_due(checks)[2:] == (5, 3, 4)
    assert not is_fetchable(assignment)
    checks.on_answer(check_due(checks), EpochEnd(3, 5))
    assert is_fetchable(assignment)
    assert len(assignment.take(10)) == 5


def test_an_older_epoch_changes_nothing() -> None:
    _assignment, checks = reading()
    checks.on_leader_epoch(T0, 2)
    assert checks.due(0) == []


def test_two_elections_in_a_row_need_a_check_of_the_second() -> None:
    assignment, checks = reading()
    checks.on_leader_epoch(T0, 4)
    first = check_due(checks)
    checks.on_leader_epoch(T0, 5)
    checks.on_answer(first, EpochEnd(3, 5))
    assert not is_fetchable(assignment)
    checks.on_answer(check_due(checks), EpochEnd(3, 5))
    assert is_fetchable(assignment)


def test_a_check_of_a_position_left_meanwhile_is_repeated() -> None:
    assignment, checks = reading()
    checks.on_leader_epoch(T0, 4)
    early = check_due(checks)
    assignment.on_fetched(T0, early.generation, fetched(batch(5, 2), at=5), ENDS)
    checks.on_answer(early, EpochEnd(3, 4))
    assert check_due(checks).fetch_offset == 7
    assert len(assignment.take(10)) == 7


def test_records_cut_before_anybody_saw_them_are_fetched_again() -> None:
    assignment, checks = reading(taken=2)
    checks.on_leader_epoch(T0, 4)
    checks.on_answer(check_due(checks), EpochEnd(3, 3))
    assert assignment.take(10) == []
    assert (assignment.state(T0).position, assignment.state(T0).fetch_offset) == (2, 2)
    checks.on_leader_epoch(T0, 4)
    assert is_fetchable(assignment)


def test_records_cut_after_they_were_handed_out_are_raised_without_a_policy() -> None:
    assignment, checks = reading(OffsetReset.NONE, taken=4)
    checks.on_leader_epoch(T0, 4)
    checks.on_answer(check_due(checks), EpochEnd(3, 2))
    for _ in range(2):
        with pytest.raises(
            LogTruncated, match="log of t-0 was cut from offset 2 on, and it had been read up to offset 4"
        ) as told:
            assignment.take(10)
        assert (told.value.offset, told.value.divergent_offset) == (4, 2)
    assignment.seek(T0, 2)
    assert is_fetchable(assignment)


def test_with_a_policy_the_consumer_goes_to_where_the_logs_part() -> None:
    assignment, checks = reading(OffsetReset.LATEST, taken=5)
    checks.on_leader_epoch(T0, 4)
    checks.on_answer(check_due(checks), EpochEnd(2, 2))
    state = assignment.state(T0)
    assert (state.position, state.fetch_offset, state.fetched_epoch) == (2, 2, 2)


def test_a_log_that_knows_no_such_epoch_resets_by_policy() -> None:
    assignment, checks = reading(OffsetReset.LATEST, taken=5)
    checks.on_leader_epoch(T0, 4)
    checks.on_answer(check_due(checks), EpochEnd(-1, -1))
    (waiting,) = assignment.resets_due(0)
    assert waiting.reset is OffsetReset.LATEST


def test_a_log_that_knows_no_such_epoch_is_raised_without_a_policy() -> None:
    assignment, checks = reading(OffsetReset.NONE, taken=5)
    checks.on_leader_epoch(T0, 4)
    checks.on_answer(check_due(checks), EpochEnd(-1, -1))
    with pytest.raises(LogTruncated, match="nobody knows from where on"):
        assignment.take(1)


def test_a_leader_that_knows_no_such_question_is_believed() -> None:
    assignment, checks = reading()
    checks.on_leader_epoch(T0, 4)
    checks.on_answer(check_due(checks), None)
    assert is_fetchable(assignment)


def test_a_lasting_error_of_a_check_is_raised_by_polls() -> None:
    assignment, checks = reading(taken=5)
    checks.on_leader_epoch(T0, 4)
    checks.on_answer(check_due(checks), FetchFailed(T0, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(FetchFailed, match="TOPIC_AUTHORIZATION_FAILED"):
        assignment.take(1)


def test_the_answer_for_a_partition_that_is_assigned_no_more_is_ignored() -> None:
    assignment, checks = reading()
    checks.on_leader_epoch(T0, 4)
    late = check_due(checks)
    assignment.assign([])
    checks.on_answer(late, EpochEnd(3, 0))
    assert assignment.topic_partitions == []


def test_a_seek_with_an_epoch_is_checked_and_one_without_is_not() -> None:
    assignment, checks = reading()
    assignment.seek(T0, 3)
    checks.on_leader_epoch(T0, 3)
    assert is_fetchable(assignment)
    assignment.seek(T0, 3, last_epoch=0)
    checks.on_leader_epoch(T0, 3)
    assert check_due(checks)[2:] == (3, 0, 3)


# What it asks.


async def read_on(brokers: ScriptedBrokers, runtime: Runtime, *, count: int, **settings: str) -> list[bytes | None]:
    """Read two records in epoch 0, then let broker 2 lead in epoch 1, and read more."""
    async with Consumer.connect(consumer_config(brokers, **settings), runtime) as consumer:
        consumer.assign([T0])
        if settings.get("auto_offset_reset") == "none":
            consumer.seek(T0, 0)
        assert await read(consumer, 2) == [b"a", b"b"]
        brokers.elect(2, 1)
        return await read(consumer, count)


def test_a_consumer_asks_the_new_leader_where_the_old_epoch_ends_and_goes_on() -> None:
    brokers = ScriptedBrokers()
    brokers.append(b"a", b"b")
    brokers.append(b"c", to=2, leader_epoch=1)
    assert brokers.run(lambda runtime: read_on(brokers, runtime, count=1)) == [b"c"]
    ((node, request),) = brokers.requests(OffsetForLeaderEpochRequest)
    (asked,) = request.topics[0].partitions
    assert (node, request.replica_id, asked.current_leader_epoch, asked.leader_epoch) == (2, -1, 1, 0)
    first_fetch_from_2 = next(request for node, request in brokers.requests(FetchRequest) if node == 2)
    assert first_fetch_from_2.topics[0].partitions[0].fetch_offset == 2


def test_a_cut_log_is_read_again_from_where_it_was_cut() -> None:
    brokers = ScriptedBrokers()
    brokers.append(b"a")
    brokers.append(b"b", to=1)
    brokers.append(b"x", b"y", to=2, leader_epoch=1)
    assert brokers.run(lambda runtime: read_on(brokers, runtime, count=2)) == [b"x", b"y"]


def test_a_cut_log_is_an_error_without_a_policy() -> None:
    brokers = ScriptedBrokers()
    brokers.append(b"a")
    brokers.append(b"b", to=1)
    brokers.append(b"x", b"y", to=2, leader_epoch=1)

    async def story(runtime: Runtime) -> None:
        with pytest.raises(LogTruncated) as told:
            await read_on(brokers, runtime, count=2, auto_offset_reset="none")
        assert (told.value.offset, told.value.divergent_offset) == (2, 1)

    brokers.run(story)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_a_leader_that_cannot_tell_yet_is_asked_again(code: ErrorCode) -> None:
    brokers = ScriptedBrokers()
    brokers.append(b"a", b"b")
    brokers.append(b"c", to=2, leader_epoch=1)
    refused: list[BrokerId] = []

    def refuse_once(node: BrokerId, _request: OffsetForLeaderEpochRequest) -> Any:
        if refused:
            return AS_USUAL
        refused.append(node)
        row = EpochEndOffset(error_code=code, partition=0)
        return OffsetForLeaderEpochResponse(topics=(OffsetForLeaderTopicResult(topic="t", partitions=(row,)),))

    brokers.scripts[ApiKey.OFFSET_FOR_LEADER_EPOCH] = refuse_once
    assert brokers.run(lambda runtime: read_on(brokers, runtime, count=1)) == [b"c"]
    assert refused == [2]


def test_a_leader_that_dies_before_it_tells_is_replaced() -> None:
    brokers = ScriptedBrokers()
    brokers.append(b"a", b"b")
    brokers.append(b"c", to=3, leader_epoch=2)

    def die(node: BrokerId, _request: OffsetForLeaderEpochRequest) -> Any:
        if node == 2:
            brokers.elect(3, 2)
            brokers.kill(2)
            return None
        return AS_USUAL

    brokers.scripts[ApiKey.OFFSET_FOR_LEADER_EPOCH] = die
    assert brokers.run(lambda runtime: read_on(brokers, runtime, count=1)) == [b"c"]


def test_a_leader_older_than_what_was_read_is_not_believed() -> None:
    """A new consumer goes on where another stopped, and first meets a broker that has missed the last election."""
    brokers = ScriptedBrokers()
    brokers.append(b"a")
    brokers.append(b"b", b"c", to=2, leader_epoch=1)
    brokers.elect(2, 1)
    brokers.views = {node: View(1, 0) for node in brokers.broker_ids}

    async def story(runtime: Runtime) -> list[bytes | None]:
        async with Consumer.connect(consumer_config(brokers, auto_offset_reset="none"), runtime) as consumer:
            consumer.assign([T0])
            consumer.seek(T0, 2, last_epoch=1)
            asyncio.get_running_loop().call_later(2, brokers.views.clear)
            return await read(consumer, 1)

    assert brokers.run(story) == [b"c"]


def test_a_topic_made_anew_is_noticed_though_its_epochs_started_over() -> None:
    brokers = ScriptedBrokers()
    brokers.append(b"a")

    async def story(runtime: Runtime) -> None:
        config = consumer_config(
            brokers, auto_offset_reset="none", default_api_timeout_ms="2000", request_timeout_ms="1000"
        )
        async with Consumer.connect(config, runtime) as consumer:
            consumer.assign([T0])
            consumer.seek(T0, 7, last_epoch=5)
            with pytest.raises(LogTruncated):
                await read(consumer, 1)

    brokers.run(story)
