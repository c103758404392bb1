"""What a reading of the room has found, each told once by itself."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from tests.storage.support import (
    CONFIG,
    DIRECTORY,
    NOW,
    PARTITION,
    SMALL,
    append,
    append_verified,
    batch,
    flush,
    marker,
    new_disk,
    open_log,
    produced,
    values,
)
from tidelog.records.batch import stamp
from tidelog.records.control import MarkerType
from tidelog.runtime import DiskFull, StorageFailure
from tidelog.simulation.disk import SimulatedDisk
from tidelog.simulation.disk_faults import Operation
from tidelog.simulation.disk_image import Loss
from tidelog.storage import AbortedTransaction, LogDirectory

UNIQUE = UUID("00000000-0000-4000-8000-000000000001")
TOPIC_ID = UUID("6f3a7d0a-9b1c-4e2f-8a5b-0c1d2e3f4a5b")
FLUSHED = replace(CONFIG, flush_messages=1)


def open_directory(disk: SimulatedDisk) -> LogDirectory:
    return LogDirectory.open(disk, "/data", broker_id=1, cluster_id="c")


def lose_the_transaction_index(disk: SimulatedDisk) -> None:
    """A power cut just after the kernel wrote the two other indexes by itself."""
    for suffix in (".index", ".timeindex"):
        disk.open(f"{DIRECTORY}/{0:020}{suffix}").fsync()
    disk.fsync_dir(DIRECTORY)
    disk.crash()


# What a crash finds.


def test_truncation_inside_a_batch_promises_nothing_beyond_the_batch_before() -> None:
    disk = new_disk()
    log = open_log(disk, SMALL)
    append(log, "a", "b")
    append(log, "c", "d", "e", "f")
    flush(log)
    log.truncate_to(4)  # Inside the second batch, so the log ends at 2.
    append(log, "C", "D", leader_epoch=1)
    append(log, "x" * 300, leader_epoch=1)  # Rolls at 4.
    assert [segment.base_offset for segment in log.segments] == [0, 4]
    disk.open(f"{DIRECTORY}/{4:020}.log").fsync()
    disk.fsync_dir(DIRECTORY)
    disk.crash()  # Of the unflushed files only the later one has reached the disk.
    again = open_log(disk, SMALL, recovery_point=6)
    assert values(again) == [(0, "a"), (1, "b")]
    assert again.log_end_offset == 2


def test_checkpoints_of_a_deleted_topic_do_not_speak_for_its_namesake() -> None:
    disk = new_disk()
    directory = open_directory(disk)
    log = directory.open_log(PARTITION, FLUSHED, now_ms=NOW)
    for _ in range(10):
        append(log, "old")
    flush(log)
    log.advance_log_start(8)
    directory.checkpoint({PARTITION: 10}).perform()
    directory.delete_log(PARTITION, unique=UNIQUE)
    log = directory.open_log(PARTITION, FLUSHED, now_ms=NOW)
    append(log, "new")
    flush(log)
    assert log.settled_end_offset == 1
    disk.crash()
    again = open_directory(disk)
    assert values(again.open_log(PARTITION, FLUSHED, now_ms=NOW)) == [(0, "new")]
    assert again.high_watermarks.get(PARTITION, 0) <= 1


def test_checkpoints_of_a_deleted_topic_are_forgotten_once_newer_ones_are_written() -> None:
    disk = new_disk()
    directory = open_directory(disk)
    append(directory.open_log(PARTITION, CONFIG, now_ms=NOW), "old")
    directory.checkpoint({}).perform()
    directory.delete_log(PARTITION, unique=UNIQUE)
    directory.checkpoint({}).perform()
    directory.checkpoint({}).perform()
    directory.open_log(PARTITION, CONFIG, now_ms=NOW)
    assert not disk.exists(f"{DIRECTORY}/truncation-point-checkpoint")


def test_d01_flush_settings_that_come_after_the_start_hold_back_what_a_crash_left_unflushed() -> None:
    disk = new_disk()
    log = open_log(disk, FLUSHED)
    append(log, "a")
    flush(log)
    append(log, "b")
    disk.crash(lose=Loss.NOTHING)
    again = open_log(disk, CONFIG, recovery_point=1)  # The topic's own settings come later.
    again.reconfigure(FLUSHED)
    assert (again.log_end_offset, again.settled_end_offset, again.is_flush_wanted) == (2, 1, True)
    flush(again)
    assert again.settled_end_offset == 2


def test_snapshots_written_by_recovery_survive_the_next_power_cut() -> None:
    disk = new_disk()
    config = replace(SMALL, retention_bytes=0)
    log = open_log(disk, config)
    log.append_as_leader(produced("once", sequence=0), leader_epoch=0, now_ms=NOW)
    while len(log.segments) < 4:
        append(log, "filling")
    disk.crash(lose=Loss.NOTHING)
    log = open_log(disk, config)
    flush(log)
    log.delete_old_segments(NOW, log.segments[-1].base_offset)
    flush(log)
    disk.crash(lose=Loss.CONTENTS)
    again = open_log(disk, config, recovery_point=log.recovery_point, log_start_offset=log.log_start_offset)
    assert again.append_as_leader(produced("once", sequence=0), leader_epoch=0, now_ms=NOW).is_duplicate


def test_gap_too_wide_for_one_segment_is_not_taken_for_loss() -> None:
    disk = new_disk()
    log = open_log(disk)
    near, far = batch("near"), batch("far")
    stamp(near, 0, base_offset=7, leader_epoch=0)
    stamp(far, 0, base_offset=5_000_000_000, leader_epoch=0)
    log.append_as_follower(bytes(near) + bytes(far), now_ms=NOW)
    expected = values(log)
    disk.crash(lose=Loss.NOTHING)
    assert values(open_log(disk)) == expected == [(7, "near"), (5_000_000_000, "far")]


def test_indexes_made_with_a_wider_interval_are_not_rebuilt_by_a_start_that_does_not_know_it() -> None:
    disk = new_disk()
    config = replace(CONFIG, segment_bytes=4000, index_interval_bytes=1500)
    log = open_log(disk, config)
    for number in range(100):
        append(log, f"some value {number:03}" * 5)
    log.close()
    before = disk.operation_count
    again = open_log(disk, replace(config, index_interval_bytes=100), is_clean=True)
    assert len(again.segments) > 3
    assert disk.operation_count == before
    assert not again.is_flush_wanted


# What a clean end leaves.


def test_log_cut_back_to_the_end_of_a_sealed_segment_flushes_its_indexes_when_it_closes() -> None:
    disk = new_disk()
    log = open_log(disk, SMALL)
    append_verified(log, produced("a", transactional=True), leader_epoch=0, now_ms=NOW)
    log.append_as_leader(marker(MarkerType.ABORT), leader_epoch=0, now_ms=NOW)
    while len(log.segments) < 2:
        append(log, "filling")
    log.truncate_to(log.segments[1].base_offset)
    log.close()
    lose_the_transaction_index(disk)
    again = open_log(disk, SMALL, is_clean=True)
    assert again.aborted_transactions(0, again.log_end_offset) == [AbortedTransaction(9, 0)]


def test_log_whose_roll_found_the_disk_full_flushes_its_indexes_when_it_closes() -> None:
    disk = new_disk()
    log = open_log(disk, SMALL)
    append_verified(log, produced("a", transactional=True), leader_epoch=0, now_ms=NOW)
    log.append_as_leader(marker(MarkerType.ABORT), leader_epoch=0, now_ms=NOW)
    while log.segments[0].size < 300:
        append(log, "filling")
    snapshot = f"{DIRECTORY}/{log.log_end_offset:020}.snapshot"
    written: list[str] = []

    def fill_up_once(done: Operation) -> None:
        if (done.name, done.path) == ("write", snapshot) and not written:
            written.append(done.path)
            disk.fill_up()

    disk.on_operation(fill_up_once)
    with pytest.raises(DiskFull):
        append(log, "x" * 200)
    assert len(log.segments) == 1
    disk.free_up()
    log.close()
    lose_the_transaction_index(disk)
    again = open_log(disk, SMALL, is_clean=True)
    assert again.aborted_transactions(0, again.log_end_offset) == [AbortedTransaction(9, 0)]


def test_log_that_nobody_touched_closes_without_a_write() -> None:
    disk = new_disk()
    log = open_log(disk)
    append(log, "a")
    log.close()
    again = open_log(disk, is_clean=True, recovery_point=1)
    before = disk.operation_count
    again.close()
    assert disk.operation_count == before


# Full disks.


def test_d11_retention_frees_a_full_disk_although_the_active_segment_cannot_be_replaced() -> None:
    disk = new_disk()
    config = replace(SMALL, retention_ms=1000, file_delete_delay_ms=0)
    log = open_log(disk, config)
    while len(log.segments) < 4:
        append(log, "filling")
    flush(log)
    disk.fill_up()
    assert log.delete_old_segments(NOW + 5000, log.log_end_offset) == 3
    assert log.log_start_offset == log.segments[0].base_offset
    for retired in log.take_retired():
        disk.unlink(retired.path)
    assert log.delete_old_segments(NOW + 5000, log.log_end_offset) == 1


def test_d11_full_truncation_that_finds_no_space_for_its_first_segment_takes_the_directory_offline() -> None:
    disk = new_disk()
    log = open_log(disk)
    append(log, "a")
    disk.fill_up()
    with pytest.raises(StorageFailure) as failed:
        log.truncate_fully_and_start_at(100)
    assert not isinstance(failed.value, DiskFull)
    assert log.is_offline
    disk.free_up()
    disk.crash(lose=Loss.NOTHING)
    assert append(open_log(disk), "goes on") == 0


def test_many_segments_are_deleted_in_steps() -> None:
    log = open_log(new_disk(), replace(SMALL, retention_bytes=0))
    while len(log.segments) < 80:
        append(log, "filling")
    assert log.delete_old_segments(NOW, log.log_end_offset) == 50
    assert log.delete_old_segments(NOW, log.log_end_offset) == 30
    assert log.delete_old_segments(NOW, log.log_end_offset) == 0
    assert (len(log.segments), log.log_start_offset) == (1, log.log_end_offset)


# Flushes and logs that go.


def test_flush_of_a_deleted_log_leaves_its_namesake_alone() -> None:
    disk = new_disk()
    directory = open_directory(disk)
    log = directory.open_log(PARTITION, CONFIG, now_ms=NOW)
    log.assign_leader_epoch(7)
    append(log, "old", leader_epoch=7)
    work = log.start_flush()
    assert work is not None

    def replace_the_log(done: object) -> None:
        if PARTITION in directory.logs and directory.logs[PARTITION] is log:
            directory.delete_log(PARTITION, unique=UNIQUE)
            directory.open_log(PARTITION, CONFIG, now_ms=NOW)

    disk.on_operation(replace_the_log)
    work.perform()
    log.on_flushed(work)
    assert not disk.exists(f"{DIRECTORY}/leader-epoch-checkpoint")
    assert directory.failure is None


def test_failure_to_write_an_index_takes_the_directory_offline() -> None:
    disk = new_disk()
    log = open_log(disk, replace(CONFIG, index_interval_bytes=0))
    for _ in range(256):  # The 256 entries that follow the first batch are one block.
        append(log, "a")
    disk.faults.fail("*", path="*.index", times=None)
    with pytest.raises(StorageFailure):
        append(log, "a")
    assert log.is_offline


# Readers.


def test_reader_is_told_only_of_aborted_transactions_in_what_was_read() -> None:
    log = open_log(new_disk(), replace(CONFIG, index_interval_bytes=0))
    for number in range(50):
        append_verified(log, produced("a", sequence=number, transactional=True), leader_epoch=0, now_ms=NOW)
        log.append_as_leader(marker(MarkerType.ABORT), leader_epoch=0, now_ms=NOW)
    data = log.read(10, max_bytes=200, end_offset=100)
    aborted = log.aborted_transactions(10, 100, read_bytes=len(data))
    assert AbortedTransaction(9, 10) in aborted
    assert len(aborted) < 5


def test_log_says_whether_its_records_were_cut_since() -> None:
    log = open_log(new_disk(), SMALL)
    for _ in range(20):
        append(log, "a")
    before = log.cut_count
    log.truncate_to(30)
    append(log, "b")
    assert log.cut_count == before
    log.truncate_to(15)
    assert log.cut_count == before + 1
    log.truncate_fully_and_start_at(3)
    assert log.cut_count == before + 2


def test_log_found_without_a_topic_id_gets_one() -> None:
    disk = new_disk()
    directory = open_directory(disk)
    log = directory.open_log(PARTITION, CONFIG, now_ms=NOW)
    log.keep_topic_id(TOPIC_ID)
    flush(log)
    disk.crash()
    assert [found.topic_id for found in open_directory(disk).found()] == [TOPIC_ID]
    assert log.topic_id == TOPIC_ID
