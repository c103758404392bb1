"""Crashes: what a log holds when it is opened again. The names carry the rows of the fault matrix."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.storage.support import (
    CONFIG,
    DIRECTORY,
    NOW,
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
from tidelog.model import ApiError, ErrorCode
from tidelog.records.control import MarkerType
from tidelog.runtime import DiskFull, StorageFailure
from tidelog.simulation.disk import SimulatedDisk
from tidelog.simulation.disk_image import Loss
from tidelog.storage import AbortedTransaction, PartitionLog
from tidelog.storage.names import FLOORS

EACH_FLUSHED = replace(SMALL, flush_messages=1)


def fill(log: PartitionLog, count: int, *, leader_epoch: int = 0) -> list[tuple[int, str]]:
    return [(append(log, f"v{number}", leader_epoch=leader_epoch), f"v{number}") for number in range(count)]


def state(log: PartitionLog) -> tuple[object, ...]:
    """Everything about a log that recovery may not change the second time."""
    return (
        values(log),
        log.log_start_offset,
        log.log_end_offset,
        log._epochs.entries,  # noqa: SLF001
        log.producers.to_snapshot(),
        [(segment.base_offset, segment.size, segment.largest_timestamp_ms) for segment in log.segments],
    )


@pytest.mark.parametrize("seed", range(20))
def test_d01_with_flush_messages_one_no_settled_record_is_lost(seed: int) -> None:
    disk = new_disk()
    log = open_log(disk, EACH_FLUSHED)
    settled: list[tuple[int, str]] = []
    for number in range(12):
        append(log, f"v{number}")
        if number != 11:
            flush(log)
            settled = values(log, end_offset=log.settled_end_offset)
    assert len(settled) == 11
    disk.crash(seed=seed)
    recovered = open_log(disk, EACH_FLUSHED, recovery_point=11)
    assert values(recovered)[:11] == settled


@pytest.mark.parametrize("cut", range(1, 75))
def test_d02_torn_tail_is_cut_and_every_whole_batch_before_it_kept(cut: int) -> None:
    disk = new_disk()
    log = open_log(disk)
    expected = fill(log, 3)
    file = disk.open(f"{DIRECTORY}/{0:020d}.log")
    file.truncate(file.size() - cut)
    disk.crash(lose=Loss.NOTHING)
    whole = 2 if cut <= 70 else 1
    recovered = open_log(disk)
    assert values(recovered) == expected[:whole]
    assert recovered.log_end_offset == whole


def test_d02_torn_tail_takes_its_epochs_and_snapshots_along() -> None:
    disk = new_disk()
    log = open_log(disk, SMALL)
    fill(log, 6)
    log.append_as_leader(produced("x"), leader_epoch=5, now_ms=NOW)
    log.close()
    disk.flip_bit(f"{DIRECTORY}/{log.segments[-1].base_offset:020d}.log", position=log.segments[-1].size - 1)
    recovered = open_log(disk, SMALL)
    assert (recovered.log_end_offset, recovered.latest_leader_epoch, len(recovered.producers)) == (6, 0, 0)
    assert not disk.exists(f"{DIRECTORY}/{7:020d}.snapshot")


def test_d03_lost_suffix_leaves_a_shorter_whole_log() -> None:
    disk = new_disk()
    log = open_log(disk)
    expected = fill(log, 5)
    flush(log)
    for _ in range(100):
        append(log, "never flushed")
    disk.crash()
    assert values(open_log(disk, recovery_point=5)) == expected


def test_d03_lost_end_of_a_segment_takes_the_next_segment_along() -> None:
    disk = new_disk()
    log = open_log(disk, SMALL)
    fill(log, 12)
    second = log.segments[1]
    file = disk.open(second.path(".log"))
    file.truncate(second.locate(second.base_offset + 2) or 0)
    disk.crash(lose=Loss.NOTHING)
    recovered = open_log(disk, SMALL)
    assert [offset for offset, _ in values(recovered)] == list(range(second.base_offset + 2))


def test_d04_zeros_in_the_middle_end_the_log_and_are_never_served() -> None:
    disk = new_disk()
    log = open_log(disk)
    expected = fill(log, 9)
    position = log.segments[0].locate(4) or 0
    disk.open(f"{DIRECTORY}/{0:020d}.log").pwrite(position, [bytes(100)])
    disk.crash(lose=Loss.NOTHING)
    assert values(open_log(disk)) == expected[:4]


def test_d04_file_that_grew_by_zeros_ends_where_they_begin() -> None:
    disk = new_disk()
    log = open_log(disk)
    expected = fill(log, 3)
    disk.open(f"{DIRECTORY}/{0:020d}.log").truncate(10_000)
    disk.crash(lose=Loss.NOTHING)
    recovered = open_log(disk)
    assert values(recovered) == expected
    assert append(recovered, "next") == 3


def test_d05_flushed_records_in_a_new_segment_survive_although_names_are_lost() -> None:
    disk = new_disk()
    log = open_log(disk, EACH_FLUSHED)
    expected = []
    for number in range(20):
        expected.append((append(log, f"v{number}"), f"v{number}"))
        flush(log)
    assert len(log.segments) > 3
    disk.crash(lose=Loss.NAMES)
    assert values(open_log(disk, EACH_FLUSHED, recovery_point=20)) == expected


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
@pytest.mark.parametrize("damage", ["missing", "odd", "zeros", "ahead", "short"])
@pytest.mark.parametrize("is_clean", [True, False])
def test_d08_damaged_index_is_rebuilt(suffix: str, damage: str, *, is_clean: bool) -> None:
    disk = new_disk()
    log = open_log(disk, SMALL)
    for number in range(12):
        log.append_as_leader(batch(f"v{number}", timestamps=(NOW + number,)), leader_epoch=0, now_ms=NOW)
    append_verified(log, produced("x", transactional=True), leader_epoch=0, now_ms=NOW)
    log.append_as_leader(marker(MarkerType.ABORT), leader_epoch=0, now_ms=NOW)
    log.close()
    for segment in log.segments:
        _damage(disk, segment.path(suffix), damage)
    again = open_log(disk, SMALL, is_clean=is_clean, recovery_point=14)
    assert [offset for offset, _ in values(again)] == list(range(13))
    found = [again.offset_for_timestamp(NOW + number, end_offset=14) for number in range(12)]
    assert [each.offset for each in found if each is not None] == list(range(12))
    assert again.aborted_transactions(0, 14) == [AbortedTransaction(9, 12)]


def _damage(disk: SimulatedDisk, path: str, damage: str) -> None:
    if damage == "missing":
        disk.unlink(path)
        return
    file = disk.open(path)
    size = file.size()
    if damage == "short" and not path.endswith(
        ".txnindex"
    ):  # whole entries lost of a sealed txnindex cannot be told from none
        file.truncate(max(0, size - 2 * (8 if path.endswith(".index") else 12)))
    if damage == "odd":
        file.pwrite(size, [b"odd"])
    if damage == "zeros":
        file.truncate(size + 34 * 12 * 8)
    if damage == "ahead":
        file.pwrite(size, [b"\x7f" * (34 * 12 * 8)])
    file.close()


def test_d09_damaged_epoch_file_is_rebuilt_from_the_batches() -> None:
    for damage in (b"", b"0\n", b"0\n3\n0 0\n", b"0\n1\n0 0", b"\xff\xfe", b"1\n0\n"):
        disk = new_disk()
        log = open_log(disk, SMALL)
        for epoch in (1, 1, 4, 4, 4, 6, 6):
            append(log, "some value", leader_epoch=epoch)
        entries = log._epochs.entries  # noqa: SLF001
        log.close()
        disk.replace(f"{DIRECTORY}/leader-epoch-checkpoint", damage)
        assert open_log(disk, SMALL, is_clean=True)._epochs.entries == entries  # noqa: SLF001


def test_d10_rot_below_the_recovery_point_costs_no_other_record() -> None:
    disk = new_disk()
    log = open_log(disk, SMALL)
    fill(log, 12)
    flush(log)
    disk.flip_bit(log.segments[1].path(".log"), position=69)
    disk.crash(lose=Loss.NOTHING)
    recovered = open_log(disk, SMALL, recovery_point=12)
    assert recovered.log_end_offset == 12
    base_offset = log.segments[1].base_offset
    assert values(recovered, end_offset=base_offset) == [(offset, f"v{offset}") for offset in range(base_offset)]
    with pytest.raises(ApiError) as refused:
        recovered.read(base_offset, max_bytes=1000, end_offset=12)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert recovered.damaged_from == base_offset
    follower = open_log(new_disk(), SMALL)
    with pytest.raises(ApiError) as caught:
        follower.append_as_follower(disk.read(log.segments[1].path(".log")), now_ms=NOW)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert follower.log_end_offset == 0


def test_d10_rot_in_a_length_is_answered_as_corrupt_and_does_not_end_the_log() -> None:
    disk = new_disk()
    log = open_log(disk, SMALL)
    fill(log, 12)
    flush(log)
    segment = log.segments[1]
    disk.flip_bit(segment.path(".log"), position=8, bit=7)
    disk.crash(lose=Loss.NOTHING)
    disk.unlink(segment.path(".index"))
    recovered = open_log(disk, SMALL, recovery_point=12)
    with pytest.raises(ApiError) as caught:
        recovered.read(segment.base_offset + 1, max_bytes=1000, end_offset=12)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert values(recovered, log.segments[2].base_offset)[-1] == (11, "v11")


@pytest.mark.parametrize("room", range(0, 200, 7))
def test_d11_full_disk_refuses_the_batch_and_the_log_goes_on_when_space_returns(room: int) -> None:
    disk = new_disk()
    log = open_log(disk, SMALL)
    expected = fill(log, 4)
    disk.fill_up(after_bytes=room)
    refused = 0
    for number in range(4, 9):
        try:
            expected.append((append(log, f"v{number}"), f"v{number}"))
        except DiskFull:
            refused += 1
    before = log.log_end_offset
    assert refused > 0
    assert not log.is_offline
    assert values(log) == expected
    disk.free_up()
    assert append(log, "after") == before
    disk.crash(lose=Loss.NOTHING)
    assert values(open_log(disk, SMALL)) == [*expected, (before, "after")]


def test_d11_full_disk_that_cannot_even_truncate_takes_the_directory_offline() -> None:
    disk = new_disk()
    log = open_log(disk)
    append(log, "a")
    disk.fill_up(after_bytes=10)
    disk.faults.fail("truncate")
    with pytest.raises(StorageFailure):
        append(log, "b")
    assert log.is_offline
    disk.free_up()
    with pytest.raises(StorageFailure):
        append(log, "c")


def test_d11_failed_write_takes_the_directory_offline() -> None:
    disk = new_disk()
    log = open_log(disk)
    disk.faults.fail("write")
    with pytest.raises(StorageFailure):
        append(log, "a")
    assert log.is_offline
    assert log.log_end_offset == 0


def test_d12_failed_fsync_is_never_taken_back() -> None:
    disk = new_disk()
    log = open_log(disk, EACH_FLUSHED)
    append(log, "a")
    work = log.start_flush()
    assert work is not None
    disk.faults.fail("fsync")
    with pytest.raises(StorageFailure):
        work.perform()
    assert (log.settled_end_offset, log.is_offline) == (0, True)
    with pytest.raises(StorageFailure):
        log.start_flush()
    with pytest.raises(StorageFailure):
        work.perform()


@pytest.mark.parametrize("seed", range(40))
def test_recovery_twice_is_recovery_once(seed: int) -> None:
    disk = new_disk()
    log = open_log(disk, SMALL)
    for number in range(25):
        log.append_as_leader(produced(f"v{number}", sequence=number), leader_epoch=number // 5, now_ms=NOW)
        if number == 9:
            flush(log)
    disk.crash(seed=seed)
    # Seed 14 found indexes half written where a segment is sealed right after its last batch was flushed.
    first = state(open_log(disk, SMALL, recovery_point=10))
    disk.crash(lose=Loss.NOTHING)
    assert state(open_log(disk, SMALL, recovery_point=10)) == first
    disk.crash(seed=seed)
    assert state(open_log(disk, SMALL, recovery_point=10)) == first


@pytest.mark.parametrize("operations", range(1, 60))
def test_crash_during_recovery_changes_nothing(operations: int) -> None:
    disk = new_disk()
    log = open_log(disk, SMALL)
    fill(log, 20)
    disk.open(log.segments[3].path(".log")).pwrite(100, [b"damage"])
    expected = values(log, end_offset=log.segments[3].base_offset + 1)
    disk.crash(lose=Loss.NOTHING)
    disk.cut_power_after(operations)
    try:
        open_log(disk, SMALL)
    except BaseException as cut:
        if type(cut).__name__ != "PowerCut":
            raise
    disk.crash(lose=Loss.NOTHING)
    assert values(open_log(disk, SMALL)) == expected


def test_d01_what_a_crash_left_unflushed_is_not_settled_before_it_is_flushed() -> None:
    disk = new_disk()
    log = open_log(disk, EACH_FLUSHED)
    append(log, "flushed")
    flush(log)
    append(log, "in the page cache only")
    disk.crash(lose=Loss.NOTHING)
    again = open_log(disk, EACH_FLUSHED, recovery_point=1)
    assert (again.log_end_offset, again.settled_end_offset, again.is_flush_wanted) == (2, 1, True)
    flush(again)
    assert again.settled_end_offset == 2


def test_clean_shutdown_is_taken_at_its_word() -> None:
    disk = new_disk()
    log = open_log(disk, SMALL)
    expected = fill(log, 20)
    log.close()
    disk.crash()
    again = open_log(disk, SMALL, is_clean=True)
    assert values(again) == expected
    assert (again.recovery_point, again.start_flush()) == (20, None)
    assert append(again, "next") == 20


def test_log_that_ends_before_its_start_begins_anew() -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 3)
    disk.crash(lose=Loss.NOTHING)
    again = open_log(disk, log_start_offset=10)
    assert (again.log_start_offset, again.log_end_offset, values(again)) == (10, 10, [])
    assert append(again, "next") == 10


def test_index_without_its_log_is_removed() -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 3)
    disk.replace(f"{DIRECTORY}/{7:020d}.index", b"")
    disk.crash(lose=Loss.NOTHING)
    open_log(disk)
    assert not disk.exists(f"{DIRECTORY}/{7:020d}.index")


def test_batch_of_an_older_epoch_behind_a_newer_one_is_a_remnant_and_ends_the_log() -> None:
    disk = new_disk()
    log = open_log(disk)
    append(log, "a", leader_epoch=3)
    append(log, "b", leader_epoch=2)
    disk.crash(lose=Loss.NOTHING)
    assert values(open_log(disk)) == [(0, "a")]


def test_sparse_offsets_of_a_compacted_log_survive_recovery_without_a_checkpoint() -> None:
    config = replace(SMALL, cleanup_policy=("compact",))
    disk = new_disk()
    log = open_log(disk, config)
    expected = fill(log, 12)
    second = log.segments[1]
    file = disk.open(second.path(".log"))
    file.truncate(second.locate(second.base_offset + 2) or 0)
    disk.unlink(f"{DIRECTORY}/{FLOORS}")  # Kafka writes no such file: nobody knows how far it compacted.
    disk.crash(lose=Loss.NOTHING)
    lost = {second.base_offset + 2 + number for number in range(log.segments[2].base_offset - second.base_offset - 2)}
    assert values(open_log(disk, config)) == [entry for entry in expected if entry[0] not in lost]


def test_kafkas_preallocated_indexes_are_rebuilt() -> None:
    disk = new_disk()
    log = open_log(disk, CONFIG)
    expected = fill(log, 5)
    for suffix in (".index", ".timeindex"):
        disk.open(f"{DIRECTORY}/{0:020d}{suffix}", create=True).truncate(10 << 10)
    disk.crash(lose=Loss.NOTHING)
    for is_clean in (True, False):
        assert values(open_log(disk, CONFIG, is_clean=is_clean)) == expected
