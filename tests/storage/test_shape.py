"""Retention, truncation and the swap of compacted segments."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from tests.storage.support import CONFIG, DIRECTORY, NOW, SMALL, append, batch, flush, new_disk, open_log, values
from tidelog.config import LogConfig
from tidelog.model import ApiError
from tidelog.simulation.disk import SimulatedDisk
from tidelog.simulation.disk_faults import PowerCut
from tidelog.simulation.disk_image import Loss
from tidelog.storage import PartitionLog, Segment
from tidelog.storage.names import CLEANED, SEGMENT_SUFFIXES
from tidelog.storage.open_files import OpenFiles
from tidelog.storage.scan import scan_batches

KEEP = replace(SMALL, retention_ms=None, retention_bytes=None, file_delete_delay_ms=1000)


def filled(config: LogConfig, count: int = 20, disk: SimulatedDisk | None = None) -> PartitionLog:
    """Five batches of about 70 bytes to a segment, each a second after the one before."""
    log = open_log(disk or new_disk(), config)
    for number in range(count):
        sent = batch(f"v{number:02}", timestamps=(NOW + 1000 * number,))
        log.append_as_leader(sent, leader_epoch=number // 6, now_ms=NOW)
    flush(log)
    return log


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_retention_by_time_deletes_the_oldest_whole_segments() -> None:
    log = filled(replace(KEEP, retention_ms=5000))
    assert bases(log) == [0, 5, 10, 15]
    assert log.delete_old_segments(NOW + 9000 + 5000, high_watermark=20) == 1
    assert log.delete_old_segments(NOW + 9000 + 5001, high_watermark=20) == 1
    assert (bases(log), log.log_start_offset) == ([10, 15], 10)
    assert [offset for offset, _ in values(log)] == list(range(10, 20))


def test_retention_by_size_keeps_at_least_that_much() -> None:
    log = filled(replace(KEEP, retention_bytes=700))
    assert log.delete_old_segments(NOW, high_watermark=20) == 2
    assert log.size_bytes >= 700


def test_log_start_breach_deletes_under_every_policy() -> None:
    log = filled(replace(KEEP, cleanup_policy=("compact",), retention_ms=1))
    assert log.delete_old_segments(NOW * 2, high_watermark=20) == 0
    log.advance_log_start(12)
    assert log.delete_old_segments(NOW * 2, high_watermark=20) == 2
    assert (bases(log), log.log_start_offset) == ([10, 15], 12)


def test_r21_retention_never_passes_the_high_watermark() -> None:
    log = filled(replace(KEEP, retention_ms=1))
    assert log.delete_old_segments(NOW * 2, high_watermark=9) == 1
    assert (bases(log), log.log_start_offset) == ([5, 10, 15], 5)
    assert append(log, "next") == 20


def test_r21_active_segment_goes_only_when_all_of_it_is_committed_and_a_new_one_takes_over() -> None:
    log = filled(replace(KEEP, retention_ms=1))
    assert log.delete_old_segments(NOW * 2, high_watermark=20) == 4
    assert (bases(log), log.log_start_offset, log.log_end_offset) == ([20], 20, 20)
    assert log.delete_old_segments(NOW * 2, high_watermark=20) == 0
    assert append(log, "next") == 20


def test_segment_without_timestamps_ages_by_its_file() -> None:
    log = open_log(new_disk(), replace(KEEP, retention_ms=1000))
    log.append_as_leader(batch("v", timestamps=(-1,)), leader_epoch=0, now_ms=NOW)
    written_ms = log.segments[0].files.mtime_ms()
    assert log.delete_old_segments(written_ms + 1000, high_watermark=1) == 0
    assert log.delete_old_segments(written_ms + 1001, high_watermark=1) == 1


def test_d15_clock_that_jumps_back_deletes_nothing() -> None:
    log = filled(replace(KEEP, retention_ms=5000))
    assert log.delete_old_segments(NOW - 3_600_000, high_watermark=20) == 0
    assert log.expire_producers(NOW - 3_600_000) == 0
    assert not log.is_flush_due(NOW - 3_600_000)


def test_deleted_files_are_renamed_and_handed_out_for_later() -> None:
    disk = new_disk()
    log = filled(KEEP, disk=disk)
    log.advance_log_start(5)
    log.delete_old_segments(NOW, high_watermark=20)
    retired = log.take_retired()
    assert {item.not_before_ms for item in retired} == {NOW + 1000}
    assert all(item.path.endswith(".deleted") and disk.exists(item.path) for item in retired)
    assert not disk.exists(f"{DIRECTORY}/{0:020d}.log")
    assert log.take_retired() == []


def test_epochs_are_trimmed_with_the_log_start() -> None:
    log = filled(KEEP)
    log.advance_log_start(13)
    assert log.end_offset_for_epoch(0) == (0, 13)
    assert log.end_offset_for_epoch(2) == (2, 18)


@pytest.mark.parametrize("offset", range(21))
def test_truncation_leaves_exactly_what_is_below(offset: int) -> None:
    disk = new_disk()
    log = filled(KEEP, disk=disk)
    expected = values(log)[:offset]
    log.truncate_to(offset)
    assert (log.log_end_offset, values(log)) == (offset, expected)
    assert log.recovery_point == offset
    assert log.latest_leader_epoch == ((offset - 1) // 6 if offset else -1)
    assert append(log, "next", leader_epoch=9) == offset
    assert log.offset_for_timestamp(NOW + 19_000, end_offset=30) is None or offset == 20
    disk.crash(lose=Loss.NOTHING)
    again = open_log(disk, KEEP, recovery_point=20)
    assert values(again) == [*expected, (offset, "next")]


def test_truncation_inside_a_batch_drops_the_whole_batch() -> None:
    log = open_log(new_disk())
    append(log, "a")
    append(log, "b", "c", "d")
    assert log.truncate_to(3)
    assert log.log_end_offset == 1


def test_truncation_inside_the_batch_of_the_log_start_begins_anew() -> None:
    log = open_log(new_disk())
    append(log, "a", "b", "c", "d")
    log.advance_log_start(2)
    log.truncate_to(3)
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)


@pytest.mark.parametrize("seed", range(40))
def test_truncated_records_never_come_back_between_newer_ones(seed: int) -> None:
    disk = new_disk()
    log = filled(KEEP, disk=disk)
    old = values(log)
    log.truncate_to(8)
    new = [(append(log, f"w{number:02}", leader_epoch=9), f"w{number:02}") for number in range(8, 13)]
    disk.crash(seed=seed)
    found = values(open_log(disk, KEEP, recovery_point=20))
    assert found[:8] == old[:8]
    assert found[8:] == new[: len(found) - 8]


def test_truncation_below_the_checkpoint_is_remembered_until_the_promise_holds_again() -> None:
    disk = new_disk()
    log = filled(KEEP, disk=disk)
    log.truncate_to(8)
    mark = f"{DIRECTORY}/truncation-point-checkpoint"
    assert disk.read(mark) == b"8\n"
    while log.log_end_offset < 20:
        append(log, "again", leader_epoch=9)
    assert disk.exists(mark)
    flush(log)
    assert not disk.exists(mark)


def test_r10_full_truncation_resets_everything_together() -> None:
    disk = new_disk()
    log = filled(KEEP, disk=disk)
    log.truncate_fully_and_start_at(100)
    assert (log.log_start_offset, log.log_end_offset, log.latest_leader_epoch) == (100, 100, -1)
    assert (log.recovery_point, log.settled_end_offset, len(log.producers)) == (100, 100, 0)
    with pytest.raises(ApiError):
        log.read(50, max_bytes=10, end_offset=100)
    assert append(log, "next") == 100
    disk.crash(lose=Loss.NOTHING)
    again = open_log(disk, KEEP, recovery_point=20)
    assert (again.log_start_offset, values(again)) == (100, [(100, "next")])


@pytest.mark.parametrize("seed", range(20))
def test_r10_full_truncation_to_a_lower_offset_survives_a_crash(seed: int) -> None:
    disk = new_disk()
    log = filled(KEEP, disk=disk)
    log.advance_log_start(18)
    log.truncate_fully_and_start_at(3)
    append(log, "next")
    flush(log)
    disk.crash(seed=seed)
    again = open_log(disk, KEEP, recovery_point=20, log_start_offset=18)
    assert (again.log_start_offset, values(again)) == (3, [(3, "next")])


def clean(disk: SimulatedDisk, log: PartitionLog, into: dict[int, list[int]]) -> None:
    """Write `.cleaned` segments that keep these offsets, as the cleaner does."""
    for base, offsets in into.items():
        fresh = Segment(OpenFiles(disk), DIRECTORY, base, index_interval_bytes=0, state=CLEANED)
        for segment in log.segments:
            for found in scan_batches(segment.file, 0, segment.size):
                if found.header.base_offset in offsets:
                    fresh.write([found.data])
                    header = found.header
                    fresh.note(header.base_offset, header.last_offset, header.max_timestamp, header.size)
        fresh.seal()
        for file in fresh.files.hold_all():
            file.fsync()
        fresh.files.close()
    disk.fsync_dir(DIRECTORY)


def swapped(disk: SimulatedDisk) -> PartitionLog:
    log = filled(KEEP, disk=disk)
    clean(disk, log, {0: [1, 4], 10: [12]})
    log.replace_segments(cleaned=[0, 10], replaced=[0, 5, 10], now_ms=NOW)
    return log


def test_swap_puts_compacted_segments_in_place() -> None:
    disk = new_disk()
    log = swapped(disk)
    kept = [1, 4, 12, 15, 16, 17, 18, 19]
    assert bases(log) == [0, 10, 15]
    assert [offset for offset, _ in values(log)] == kept
    assert [offset for offset, _ in values(log, 5)] == kept[2:]
    assert (log.log_start_offset, log.log_end_offset) == (0, 20)
    log.close()
    assert [offset for offset, _ in values(open_log(disk, KEEP, is_clean=True))] == kept


def test_d07_power_cut_at_every_step_of_a_swap_leaves_exactly_old_or_new_content() -> None:
    disk = new_disk()
    filled(KEEP, disk=disk)
    before = disk.operation_count
    swapped(disk := new_disk())
    total = disk.operation_count
    old, new = list(range(20)), [1, 4, 12, 15, 16, 17, 18, 19]
    seen = set()
    for operations in range(before, total + 1):
        for loss in (Loss.NOTHING, Loss.ALL, Loss.NAMES, None):
            disk = new_disk()
            disk.cut_power_after(operations - disk.operation_count)
            with suppress(PowerCut):
                swapped(disk)
            if loss is None:
                disk.crash(seed=operations)
            else:
                disk.crash(lose=loss)
            found = [offset for offset, _ in values(open_log(disk, KEEP, recovery_point=20))]
            assert found in (old, new)
            seen.add(len(found))
            leftovers = [name for name in disk.listdir(DIRECTORY) if name.endswith((".cleaned", ".swap", ".deleted"))]
            assert leftovers == []
    assert seen == {len(old), len(new)}


def _left_by_kafka(disk: SimulatedDisk, states: dict[int, str]) -> PartitionLog:
    """A directory in which Kafka stopped in the middle of a swap: segments 0 and 5 merged into a new 0, 10 cleaned to a new 10."""
    log = filled(KEEP, disk=disk)
    clean(disk, log, {0: [1, 7], 10: [12]})
    for base, state in states.items():
        for suffix in SEGMENT_SUFFIXES:
            path = f"{DIRECTORY}/{base:020d}{suffix}"
            disk.rename(path + CLEANED, path + state)
    disk.crash(lose=Loss.NOTHING)
    return open_log(disk, KEEP, recovery_point=20)


def test_d07_swap_that_kafka_left_while_some_files_were_cleaned_is_rolled_back() -> None:
    log = _left_by_kafka(new_disk(), {10: ".swap"})
    assert [offset for offset, _ in values(log)] == list(range(20))


def test_d07_swap_that_kafka_left_complete_is_finished() -> None:
    log = _left_by_kafka(new_disk(), {10: ".swap", 0: ".swap"})
    assert [offset for offset, _ in values(log)] == [1, 7, 12, 15, 16, 17, 18, 19]


def test_reconfigured_log_uses_the_new_settings_at_once() -> None:
    log = open_log(new_disk(), CONFIG)
    append(log, "a")
    log.reconfigure(replace(CONFIG, segment_bytes=100))
    append(log, "b")
    assert bases(log) == [0, 1]


def test_flush_begun_before_a_truncation_does_not_vouch_for_what_was_written_after_it() -> None:
    log = filled(KEEP)
    append(log, "flushed", leader_epoch=8)
    work = log.start_flush()
    assert work is not None
    log.truncate_to(8)
    append(log, "not flushed", leader_epoch=9)
    work.perform()
    log.on_flushed(work)
    assert (log.recovery_point, log.log_end_offset) == (8, 9)


def test_truncation_into_rot_drops_the_whole_segment() -> None:
    disk = new_disk()
    log = filled(replace(KEEP, index_interval_bytes=4096), disk=disk)
    disk.flip_bit(log.segments[1].path(".log"), position=8, bit=7)
    log.truncate_to(8)
    assert (log.log_end_offset, bases(log)) == (5, [0, 5])
    assert [offset for offset, _ in values(log)] == list(range(5))
    assert append(log, "next", leader_epoch=9) == 5
