"""Appending to a log and reading it back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.storage.support import CONFIG, NOW, SMALL, append, batch, flush, open_log, values
from tidelog.model import ApiError, ErrorCode
from tidelog.records.batch import headers, read_header
from tidelog.simulation.disk import SimulatedDisk


def test_new_log_is_empty_and_starts_at_zero() -> None:
    log = open_log(SimulatedDisk())
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (0, 0, 0)
    assert log.read(0, max_bytes=100, end_offset=0) == b""


def test_leader_stamps_offset_and_epoch_in_place_and_stores_these_bytes() -> None:
    log = open_log(SimulatedDisk())
    append(log, "a", "b")
    sent = batch("c")
    appended = log.append_as_leader(sent, leader_epoch=7, now_ms=NOW)
    assert (appended.base_offset, appended.last_offset, appended.is_duplicate) == (2, 2, False)
    assert (read_header(sent).base_offset, read_header(sent).leader_epoch) == (2, 7)
    assert log.read(2, max_bytes=1000, end_offset=3) == bytes(sent)


def test_read_starts_at_the_batch_that_holds_the_offset() -> None:
    log = open_log(SimulatedDisk())
    append(log, "a", "b", "c")
    append(log, "d")
    assert [header.base_offset for _, header in headers(log.read(1, max_bytes=1000, end_offset=4))] == [0, 3]


def test_read_ends_before_the_end_offset() -> None:
    log = open_log(SimulatedDisk())
    for value in "abc":
        append(log, value)
    assert [header.base_offset for _, header in headers(log.read(0, max_bytes=1000, end_offset=2))] == [0, 1]
    assert log.read(2, max_bytes=1000, end_offset=2) == b""
    assert log.read(3, max_bytes=1000, end_offset=2) == b""


def test_first_batch_comes_whole_however_small_the_limit() -> None:
    log = open_log(SimulatedDisk())
    append(log, "a" * 500)
    append(log, "b")
    for limit in (0, 1, 12, 100, 500):
        assert [header.base_offset for _, header in headers(log.read(0, max_bytes=limit, end_offset=2))] == [0]
        assert log.read(0, max_bytes=limit, end_offset=2, at_least_one=False) == b""


def test_offsets_outside_the_log_are_out_of_range() -> None:
    log = open_log(SimulatedDisk())
    append(log, "a", "b")
    log.advance_log_start(1)
    for offset in (-1, 0, 3):
        with pytest.raises(ApiError) as caught:
            log.read(offset, max_bytes=10, end_offset=2)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_log_rolls_when_a_batch_does_not_fit_and_reads_go_on_over_segments() -> None:
    log = open_log(SimulatedDisk(), SMALL)
    expected = [(append(log, f"value {number}"), f"value {number}") for number in range(30)]
    assert len(log.segments) > 5
    assert values(log) == expected
    for offset in range(30):
        assert values(log, offset) == expected[offset:]


def test_batch_larger_than_a_segment_is_refused() -> None:
    log = open_log(SimulatedDisk(), SMALL)
    with pytest.raises(ApiError) as caught:
        append(log, "x" * 500)
    assert caught.value.code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_log_rolls_by_the_timestamps_of_its_batches() -> None:
    log = open_log(SimulatedDisk(), replace(CONFIG, segment_ms=1000))
    for stamp in (NOW, NOW + 1000, NOW + 1001):
        log.append_as_leader(batch("v", timestamps=(stamp,)), leader_epoch=0, now_ms=NOW)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_log_rolls_when_an_index_is_full() -> None:
    log = open_log(SimulatedDisk(), replace(CONFIG, index_interval_bytes=0, segment_index_bytes=40))
    for number in range(12):
        log.append_as_leader(batch("v", timestamps=(NOW + number,)), leader_epoch=0, now_ms=NOW)
    assert len(log.segments) > 2
    assert [offset for offset, _ in values(log)] == list(range(12))


def test_quiet_log_rolls_by_the_clock() -> None:
    log = open_log(SimulatedDisk(), replace(CONFIG, segment_ms=1000))
    append(log, "a")
    assert not log.maybe_roll(NOW + 1000)
    assert log.maybe_roll(NOW + 1001)
    assert not log.maybe_roll(NOW + 5000)
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_follower_stores_the_leaders_bytes_and_drops_half_a_batch() -> None:
    leader, follower = open_log(SimulatedDisk(), SMALL), open_log(SimulatedDisk(), SMALL)
    for number in range(9):
        append(leader, f"v{number}", leader_epoch=number // 3)
    while follower.log_end_offset < 9:
        data = leader.read(follower.log_end_offset, max_bytes=200, end_offset=9)
        follower.append_as_follower(data, now_ms=NOW)
    assert values(follower) == values(leader)
    assert [follower.epoch_at(offset) for offset in (0, 3, 8)] == [0, 1, 2]


def test_follower_takes_many_batches_at_once_over_rolls() -> None:
    leader, follower = open_log(SimulatedDisk()), open_log(SimulatedDisk(), SMALL)
    for number in range(20):
        append(leader, f"v{number}")
    appended = follower.append_as_follower(leader.read(0, max_bytes=1 << 20, end_offset=20), now_ms=NOW)
    assert (appended.base_offset, appended.last_offset) == (0, 19)
    assert len(follower.segments) > 3
    assert values(follower) == values(leader)


def test_follower_refuses_what_does_not_continue_its_log() -> None:
    leader, follower = open_log(SimulatedDisk()), open_log(SimulatedDisk())
    append(leader, "a")
    append(leader, "b")
    data = leader.read(0, max_bytes=1000, end_offset=2)
    follower.append_as_follower(data, now_ms=NOW)
    with pytest.raises(ApiError) as caught:
        follower.append_as_follower(data, now_ms=NOW)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert follower.log_end_offset == 2


def test_empty_follower_begins_with_the_batch_around_its_start() -> None:
    leader, follower = open_log(SimulatedDisk()), open_log(SimulatedDisk())
    append(leader, "a", "b", "c")
    follower.truncate_fully_and_start_at(1)
    follower.append_as_follower(leader.read(1, max_bytes=1000, end_offset=3), now_ms=NOW)
    assert (follower.log_start_offset, follower.log_end_offset) == (0, 3)


def test_without_flush_settings_everything_is_settled_at_once() -> None:
    log = open_log(SimulatedDisk())
    append(log, "a", "b")
    assert (log.settled_end_offset, log.recovery_point) == (2, 0)


def test_flush_messages_holds_back_what_is_not_flushed() -> None:
    log = open_log(SimulatedDisk(), replace(CONFIG, flush_messages=1))
    first = log.append_as_leader(batch("a"), leader_epoch=0, now_ms=NOW)
    assert first.flush_wanted
    assert log.settled_end_offset == 0
    work = log.start_flush()
    assert work is not None
    append(log, "b")
    work.perform()
    log.on_flushed(work)
    assert (log.settled_end_offset, log.recovery_point, log.is_flush_wanted) == (1, 1, True)
    flush(log)
    assert (log.settled_end_offset, log.recovery_point, log.is_flush_wanted) == (2, 2, False)


def test_one_flush_serves_all_that_wait() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, replace(CONFIG, flush_messages=1))
    flush(log)
    for value in "abcde":
        append(log, value)
    work = log.start_flush()
    assert work is not None
    assert len(work.files) == 1
    work.perform()
    log.on_flushed(work)
    assert log.settled_end_offset == 5
    assert log.start_flush() is None


def test_flush_messages_of_three_settles_in_groups() -> None:
    log = open_log(SimulatedDisk(), replace(CONFIG, flush_messages=3))
    settled = []
    for value in "abcd":
        append(log, value)
        settled.append(log.settled_end_offset)
    assert settled == [1, 2, 2, 2]
    flush(log)
    assert log.settled_end_offset == 4


def test_flush_ms_is_due_after_the_oldest_unflushed_batch_is_that_old() -> None:
    log = open_log(SimulatedDisk(), replace(CONFIG, flush_ms=100))
    assert not log.is_flush_due(NOW + 1000)
    append(log, "a", now_ms=NOW)
    append(log, "b", now_ms=NOW + 90)
    assert not log.is_flush_due(NOW + 99)
    assert log.is_flush_due(NOW + 100)
    flush(log)
    assert not log.is_flush_due(NOW + 1000)


def test_roll_wants_a_flush_that_moves_the_recovery_point() -> None:
    log = open_log(SimulatedDisk(), SMALL)
    flush(log)
    while len(log.segments) == 1:
        append(log, "some value")
    assert log.is_flush_wanted
    flush(log)
    assert log.recovery_point == log.log_end_offset


def test_flush_that_saw_a_segment_before_its_seal_leaves_it_to_be_recovered() -> None:
    log = open_log(SimulatedDisk(), SMALL)
    append(log, "some value")
    work = log.start_flush()
    assert work is not None
    log._roll(log.log_end_offset, NOW)  # noqa: SLF001  # the race: a roll while the thread flushes
    work.perform()
    log.on_flushed(work)
    assert log.recovery_point == 0
    flush(log)
    assert log.recovery_point == 1


def test_hints_and_indexes_agree_on_every_offset() -> None:
    log = open_log(SimulatedDisk(), replace(CONFIG, index_interval_bytes=200))
    for number in range(600):
        append(log, f"value {number}")
    segment = log.segments[0]
    by_hint = [segment.locate(offset) for offset in range(600)]
    segment.seal()
    assert [segment.locate(offset) for offset in range(600)] == by_hint
