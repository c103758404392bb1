"""Finding records by time."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.storage.support import CONFIG, NOW, SMALL, batch, new_disk, open_log
from tidelog.records.batch import stamp_append_time
from tidelog.storage import PartitionLog, TimestampedOffset


def write(log: PartitionLog, *timestamps: int, leader_epoch: int = 0) -> None:
    log.append_as_leader(
        batch(*("v" for _ in timestamps), timestamps=timestamps), leader_epoch=leader_epoch, now_ms=NOW
    )


def test_lookup_finds_the_record_inside_its_batch() -> None:
    log = open_log(new_disk())
    write(log, 10, 30, 20, leader_epoch=4)
    assert log.offset_for_timestamp(15, end_offset=3) == TimestampedOffset(1, 30, 4)
    assert log.offset_for_timestamp(10, end_offset=3) == TimestampedOffset(0, 10, 4)
    assert log.offset_for_timestamp(31, end_offset=3) is None


def test_lookup_sees_nothing_at_or_beyond_the_end_offset_or_below_the_log_start() -> None:
    log = open_log(new_disk())
    for stamp in (10, 20, 30):
        write(log, stamp)
    assert log.offset_for_timestamp(25, end_offset=2) is None
    log.advance_log_start(2)
    assert log.offset_for_timestamp(0, end_offset=3) == TimestampedOffset(2, 30, 0)


def test_max_timestamp_is_that_of_the_visible_records() -> None:
    log = open_log(new_disk(), SMALL)
    assert log.offset_of_max_timestamp(end_offset=0) is None
    for stamp in (10, 50, 20, 30, 40, 60, 5, 15):
        write(log, stamp)
    assert log.offset_of_max_timestamp(end_offset=8) == TimestampedOffset(5, 60, 0)
    assert log.offset_of_max_timestamp(end_offset=5) == TimestampedOffset(1, 50, 0)
    assert log.offset_of_max_timestamp(end_offset=1) == TimestampedOffset(0, 10, 0)


def test_append_time_is_the_time_of_every_record() -> None:
    log = open_log(new_disk())
    sent = batch("a", "b", timestamps=(1, 2))
    stamp_append_time(sent, 0, append_time_ms=NOW)
    assert log.append_as_leader(sent, leader_epoch=0, now_ms=NOW).append_time_ms == NOW
    assert log.offset_for_timestamp(NOW, end_offset=2) == TimestampedOffset(0, NOW, 0)
    assert log.offset_of_max_timestamp(end_offset=2) == TimestampedOffset(0, NOW, 0)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=4), min_size=1, max_size=25),
    st.integers(0, 51),
    st.data(),
)
def test_lookups_agree_with_a_plain_list(batches: list[list[int]], target: int, data: st.DataObject) -> None:
    interval = data.draw(st.sampled_from([0, 150, 4096]))
    disk = new_disk()
    log = open_log(disk, replace(CONFIG, segment_bytes=500, index_interval_bytes=interval))
    for timestamps in batches:
        write(log, *timestamps)
    if data.draw(st.booleans()):
        log.close()
        log = open_log(disk, log.config, is_clean=True)
    stamps = [stamp for timestamps in batches for stamp in timestamps]
    found = log.offset_for_timestamp(target, end_offset=len(stamps))
    first = next((offset for offset, stamp in enumerate(stamps) if stamp >= target), None)
    assert (None if found is None else found.offset) == first
    ends = [sum(map(len, batches[: number + 1])) for number in range(len(batches))]
    end = data.draw(st.sampled_from(ends))
    newest = log.offset_of_max_timestamp(end_offset=end)
    assert newest is not None
    assert (newest.offset, newest.timestamp_ms) == (stamps.index(max(stamps[:end])), max(stamps[:end]))
