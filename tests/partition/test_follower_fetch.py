"""How a leader answers a follower: what it checks, in which order, and when a fetch counts."""

from __future__ import annotations

import pytest

from tests.partition.replicas import (
    NOW,
    elect,
    fetch,
    led_by,
    produce,
    refused,
    replica,
    take,
)
from tidelog.config import LogConfig
from tidelog.model import Acks, ErrorCode
from tidelog.partition import LowWatermarkAdvanced, Partition, delete_records
from tidelog.storage import EpochEndOffset


def leading(epoch: int = 4, isr: tuple[int, ...] = (1, 2, 3)) -> Partition:
    """Leader of epoch 4 with records of epoch 0 at 0 and 1, of epoch 2 at 2, and of its own at 3."""
    leader = replica(1)
    for number, values in ((0, "ab"), (2, "c"), (epoch, "d")):
        leader.become_leader(led_by(1, number, isr))
        produce(leader, *values)
    return leader


def remote_end(leader: Partition, broker_id: int) -> int:
    return {each.broker_id: each.log_end_offset for each in leader.describe(0, 0.0).remotes}[broker_id]


@pytest.mark.parametrize(("epoch", "code"), [(3, ErrorCode.FENCED_LEADER_EPOCH), (5, ErrorCode.UNKNOWN_LEADER_EPOCH)])
def test_a_follower_of_another_epoch_is_fenced(epoch: int, code: ErrorCode) -> None:
    leader = leading()
    assert refused(lambda: take(leader, fetch(2, 4, epoch=epoch))) is code
    assert refused(lambda: leader.available_to_follower(fetch(2, 4, epoch=epoch))) is code
    assert remote_end(leader, 2) == -1


def test_the_epoch_is_checked_before_the_role() -> None:
    follower = replica(1)
    follower.become_follower(led_by(2, 4), now_ms=NOW)
    assert refused(lambda: take(follower, fetch(3, 0, epoch=3))) is ErrorCode.FENCED_LEADER_EPOCH
    assert refused(lambda: take(follower, fetch(3, 0, epoch=5))) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert refused(lambda: take(follower, fetch(3, 0, epoch=4))) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_the_epoch_is_checked_before_the_replica() -> None:
    assert refused(lambda: take(leading(), fetch(9, 0, epoch=3))) is ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize(
    ("epoch", "code"), [(4, ErrorCode.UNKNOWN_LEADER_EPOCH), (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
)
def test_a_replica_that_is_not_assigned_may_know_more_than_we_do(epoch: int, code: ErrorCode) -> None:
    for stranger in (9, 1):
        assert refused(lambda stranger=stranger: take(leading(), fetch(stranger, 0, epoch=epoch))) is code  # type: ignore[misc]


def test_a_follower_reads_up_to_the_log_end() -> None:
    leader = leading()
    read, _ = take(leader, fetch(2, 0, epoch=4))
    assert (read.high_watermark, read.log_start_offset, read.last_stable_offset, read.diverging) == (0, 0, 0, None)
    assert len(read.records) == leader.log.size_bytes == leader.available_to_follower(fetch(2, 0, epoch=4))
    assert leader.available_to_follower(fetch(2, 4, epoch=4, last=4)) == 0


@pytest.mark.parametrize(
    ("offset", "last", "answer"),
    [
        (4, 4, None),
        (3, 2, None),
        (2, 0, None),
        (1, 0, None),
        (0, -1, None),
        (5, 4, (4, 4)),  # More of our epoch than we have.
        (4, 2, (2, 3)),  # More of epoch 2 than there was.
        (3, 3, (2, 3)),  # An epoch we never had: the largest below it.
        (4, 3, (2, 3)),
        (3, 1, (0, 2)),
        (3, 0, (0, 2)),
    ],
)
def test_where_a_log_parts_from_the_leaders(offset: int, last: int, answer: tuple[int, int] | None) -> None:
    """R03: the largest epoch that is not above the one asked for, and its end."""
    leader, sent = leading(), fetch(2, offset, epoch=4, last=last)
    read, events = take(leader, sent)
    assert read.diverging == (None if answer is None else EpochEndOffset(*answer))
    assert (leader.available_to_follower(sent) == -1) == (answer is not None)
    if answer is not None:
        assert (read.records, events) == (b"", [])


def test_a_diverging_fetch_counts_for_nothing() -> None:
    """R07: neither for the watermark nor for the ISR nor for the follower's time."""
    leader = leading(isr=(1, 3))
    take(leader, fetch(3, 3, epoch=4, last=2))
    before = leader.describe(0, 0.0)
    assert before.high_watermark == 3
    read, events = take(leader, fetch(2, 9, epoch=4, last=3), at_ms=77.0)
    assert read.diverging == EpochEndOffset(2, 3)
    assert (events, leader.describe(0, 0.0), leader.maximal_isr) == ([], before, (1, 3))


def test_an_offset_before_the_log_start_beats_divergence() -> None:
    """R10: the follower could not go on from where we would send it."""
    leader = leading(isr=(1,))
    delete_records(leader, 3)
    for last in (0, 1, 2, 4, -1):
        sent = fetch(2, 1, epoch=4, last=last)
        assert refused(lambda sent=sent: take(leader, sent)) is ErrorCode.OFFSET_OUT_OF_RANGE  # type: ignore[misc]
        assert refused(lambda sent=sent: leader.available_to_follower(sent)) is ErrorCode.OFFSET_OUT_OF_RANGE  # type: ignore[misc]


def test_an_epoch_above_all_known_is_out_of_range() -> None:
    assert refused(lambda: take(leading(), fetch(2, 4, epoch=4, last=7))) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_an_offset_beyond_the_end_without_an_epoch_is_out_of_range() -> None:
    leader, sent = leading(), fetch(2, 5, epoch=4)
    assert refused(lambda: take(leader, sent)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert refused(lambda: leader.available_to_follower(sent)) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_fetch_that_is_read_again_counts_for_nothing() -> None:
    leader = leading()
    for follower in (2, 3):
        read, events = take(leader, fetch(follower, 4, epoch=4, last=4), is_again=True)
        assert (read.records, events) == (b"", [])
    assert (remote_end(leader, 2), leader.high_watermark) == (-1, 0)


def test_a_late_fetch_of_an_earlier_life_of_a_broker_counts_for_nothing() -> None:
    """R15: the follower may have come back with less."""
    leader = leading()
    take(leader, fetch(2, 0, epoch=4, incarnation=8))
    late = fetch(2, 4, epoch=4, last=4, incarnation=7)
    assert refused(lambda: take(leader, late)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert remote_end(leader, 2) == 0


def test_an_answer_is_as_large_as_asked_for_but_never_empty_where_there_is_something() -> None:
    leader = leading()
    one = leader.log.size_bytes // 4
    assert len(take(leader, fetch(2, 0, epoch=4), max_bytes=1)[0].records) == one
    assert len(take(leader, fetch(2, 0, epoch=4), max_bytes=2 * one)[0].records) == 2 * one


def test_an_offline_leader_answers_with_a_storage_error() -> None:
    leader = leading()
    leader.go_offline()
    assert refused(lambda: take(leader, fetch(2, 4, epoch=4))) is ErrorCode.KAFKA_STORAGE_ERROR


def test_the_low_watermark_is_the_smallest_log_start_of_live_replicas() -> None:
    live = {2, 3}
    leader = replica(1, LogConfig(), is_eligible=live.__contains__)
    elect(leader, epoch=0, isr=(1, 2))
    produce(leader, *"abcd", acks=Acks.ALL)
    take(leader, fetch(2, 4))
    assert leader.high_watermark == 4
    assert leader.low_watermark == -1  # The third has not said.
    take(leader, fetch(3, 2, start=1))
    delete_records(leader, 3)
    assert leader.low_watermark == 0
    assert take(leader, fetch(2, 4, start=3))[1] == [LowWatermarkAdvanced(1)]
    live.discard(3)
    assert leader.low_watermark == 3


def test_the_low_watermark_of_a_partition_with_one_replica_is_its_log_start() -> None:
    leader = replica(1)
    leader.become_leader(led_by(1, isr=(1,), assignment=(1,)))
    produce(leader, "a", "b")
    assert delete_records(leader, 1) == leader.low_watermark == 1


def test_retention_never_goes_beyond_the_high_watermark() -> None:
    """R21: what no follower holds yet is not deleted, however old or large it is."""
    leader = replica(1, LogConfig(retention_ms=1, segment_bytes=200))
    elect(leader, epoch=0, isr=(1, 2))
    produce(leader, *"abcdefgh")
    take(leader, fetch(2, 3))
    assert leader.high_watermark == 3
    while leader.log.delete_old_segments(NOW + 10**9, leader.high_watermark):
        pass
    assert leader.log.log_start_offset <= 3
    read, _ = take(leader, fetch(2, 3))
    assert len(read.records) > 0
