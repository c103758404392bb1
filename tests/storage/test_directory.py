"""Log directories: ownership, checkpoints, clean shutdown, deletion, failure."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.storage.support import CONFIG, NOW, PARTITION, append, batch, flush, values
from tidelog.model import TopicPartition
from tidelog.runtime import DiskFull, StorageFailure
from tidelog.simulation.disk import SimulatedDisk
from tidelog.simulation.disk_faults import PowerCut
from tidelog.simulation.disk_image import Loss
from tidelog.storage import InconsistentTopicId, LogDirectory, WrongDirectory

OTHER = TopicPartition("other.topic-1", 12)
TOPIC_ID = UUID("6f3a7d0a-9b1c-4e2f-8a5b-0c1d2e3f4a5b")
UNIQUE = UUID("00000000-0000-4000-8000-000000000001")


def open_directory(disk: SimulatedDisk, path: str = "/logs/a") -> LogDirectory:
    return LogDirectory.open(disk, path, broker_id=1, cluster_id="c")


def test_new_directory_is_made_locked_and_signed() -> None:
    disk = SimulatedDisk()
    directory = open_directory(disk)
    assert (directory.is_clean, directory.found()) == (False, [])
    assert disk.read("/logs/a/meta.properties") == b"#\nbroker.id=1\ncluster.id=c\nversion=0\n"
    with pytest.raises(WrongDirectory):
        open_directory(disk)
    directory.release()
    open_directory(disk)


@pytest.mark.parametrize(("broker_id", "cluster_id"), [(2, "c"), (1, "d")])
def test_directory_of_another_broker_or_cluster_is_refused(broker_id: int, cluster_id: str) -> None:
    disk = SimulatedDisk()
    open_directory(disk).release()
    with pytest.raises(WrongDirectory):
        LogDirectory.open(disk, "/logs/a", broker_id=broker_id, cluster_id=cluster_id)
    open_directory(disk)


def test_damaged_owner_file_is_refused_rather_than_overwritten() -> None:
    disk = SimulatedDisk()
    open_directory(disk).release()
    disk.replace("/logs/a/meta.properties", b"")
    with pytest.raises(WrongDirectory):
        open_directory(disk)


def test_clean_shutdown_needs_no_recovery_and_remembers_all() -> None:
    disk = SimulatedDisk()
    directory = open_directory(disk)
    log = directory.open_log(PARTITION, CONFIG, now_ms=NOW, topic_id=TOPIC_ID)
    append(log, "a", "b", "c")
    log.advance_log_start(1)
    directory.cleaner_offsets[PARTITION] = 2
    directory.close_cleanly({PARTITION: 3}, broker_epoch=7)
    disk.crash()
    again = open_directory(disk)
    assert (again.is_clean, again.last_broker_epoch) == (True, 7)
    assert (again.high_watermarks, again.cleaner_offsets) == ({PARTITION: 3}, {PARTITION: 2})
    assert [(found.topic_partition, found.topic_id) for found in again.found()] == [(PARTITION, TOPIC_ID)]
    reopened = again.open_log(PARTITION, CONFIG, now_ms=NOW)
    assert (reopened.log_start_offset, reopened.log_end_offset, reopened.recovery_point) == (1, 3, 3)


def test_d06_crash_while_loading_counts_as_unclean() -> None:
    disk = SimulatedDisk()
    open_directory(disk).close_cleanly({})
    assert open_directory(disk).is_clean
    disk.crash()
    assert not open_directory(disk).is_clean


def test_d06_marker_is_gone_before_anything_else_is_read() -> None:
    disk = SimulatedDisk()
    directory = open_directory(disk)
    directory.open_log(PARTITION, CONFIG, now_ms=NOW)
    directory.close_cleanly({})
    before = disk.operation_count
    open_directory(disk).release()
    for operations in range(disk.operation_count - before):
        crashing = SimulatedDisk()
        open_directory(crashing).close_cleanly({})
        crashing.cut_power_after(operations)
        try:
            open_directory(crashing)
        except PowerCut:
            crashing.crash(lose=Loss.NOTHING)
        else:
            crashing.crash()
        again = open_directory(crashing)
        again.release()
        assert not open_directory(crashing).is_clean


def test_unclean_start_reads_again_from_the_checkpointed_recovery_point() -> None:
    disk = SimulatedDisk()
    directory = open_directory(disk)
    log = directory.open_log(PARTITION, CONFIG, now_ms=NOW)
    append(log, "a")
    flush(log)
    directory.checkpoint({PARTITION: 1}).perform()
    append(log, "b")
    disk.crash(lose=Loss.NOTHING)
    again = open_directory(disk)
    reopened = again.open_log(PARTITION, CONFIG, now_ms=NOW)
    assert (reopened.recovery_point, values(reopened)) == (1, [(0, "a"), (1, "b")])
    assert again.high_watermarks == {PARTITION: 1}


@pytest.mark.parametrize("content", [b"", b"0\n1\nt 0", b"nonsense", b"0\n2\nt 0 2\n", b"\x00" * 50])
def test_d09_damaged_checkpoints_fall_back_to_reading_everything(content: bytes) -> None:
    disk = SimulatedDisk()
    directory = open_directory(disk)
    log = directory.open_log(PARTITION, CONFIG, now_ms=NOW)
    append(log, "a")
    append(log, "b")
    flush(log)
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"):
        disk.replace(f"/logs/a/{name}", content)
    disk.crash()
    again = open_directory(disk)
    reopened = again.open_log(PARTITION, CONFIG, now_ms=NOW)
    assert (reopened.recovery_point, values(reopened), again.high_watermarks) == (0, [(0, "a"), (1, "b")], {})


def test_d14_failed_directory_leaves_the_others_working() -> None:
    disk = SimulatedDisk()
    bad, good = open_directory(disk, "/logs/a"), open_directory(disk, "/logs/b")
    first = bad.open_log(PARTITION, CONFIG, now_ms=NOW)
    second = bad.open_log(OTHER, CONFIG, now_ms=NOW)
    healthy = good.open_log(TopicPartition("t", 1), CONFIG, now_ms=NOW)
    append(second, "before")
    disk.faults.make_read_only("/logs/a")
    with pytest.raises(StorageFailure):
        append(first, "a")
    assert bad.failure is not None
    for attempt in (
        lambda: append(second, "b"),
        lambda: second.read(0, max_bytes=10, end_offset=1),
        second.start_flush,
    ):
        with pytest.raises(StorageFailure):
            attempt()
    with pytest.raises(StorageFailure):
        bad.open_log(TopicPartition("t", 2), CONFIG, now_ms=NOW)
    assert bad.take_removal(NOW) is None
    assert append(healthy, "fine") == 0
    assert good.failure is None


def test_d12_failed_directory_is_not_closed_cleanly() -> None:
    disk = SimulatedDisk()
    directory = open_directory(disk)
    log = directory.open_log(PARTITION, CONFIG, now_ms=NOW)
    append(log, "a")
    disk.faults.fail("fsync", path="*.log")
    with pytest.raises(StorageFailure):
        directory.close_cleanly({})
    assert not open_directory(disk).is_clean


def test_full_disk_at_shutdown_leaves_no_clean_marker_and_loses_nothing() -> None:
    disk = SimulatedDisk()
    directory = open_directory(disk)
    log = directory.open_log(PARTITION, CONFIG, now_ms=NOW)
    append(log, "a")
    disk.fill_up()
    with pytest.raises(DiskFull):
        directory.close_cleanly({})
    disk.free_up()
    again = open_directory(disk)
    assert not again.is_clean
    assert values(again.open_log(PARTITION, CONFIG, now_ms=NOW)) == [(0, "a")]


def test_full_disk_keeps_old_checkpoints_and_the_directory_online() -> None:
    disk = SimulatedDisk()
    directory = open_directory(disk)
    disk.fill_up()
    directory.checkpoint({}).perform()
    assert directory.failure is None


def test_checkpoints_that_found_no_space_are_all_written_the_next_time() -> None:
    disk = SimulatedDisk()
    directory = open_directory(disk)
    append(directory.open_log(PARTITION, CONFIG, now_ms=NOW), "a")
    directory.checkpoint({PARTITION: 0}).perform()
    disk.fill_up()
    directory.checkpoint({PARTITION: 1}).perform()
    disk.free_up()
    directory.checkpoint({PARTITION: 1}).perform()
    assert disk.read("/logs/a/replication-offset-checkpoint") == b"0\n1\nt 0 1\n"


def test_deleted_log_disappears_at_once_and_is_removed_by_the_thread() -> None:
    disk = SimulatedDisk()
    directory = open_directory(disk)
    log = directory.open_log(PARTITION, CONFIG, now_ms=NOW)
    append(log, "a")
    directory.checkpoint({PARTITION: 1}).perform()
    directory.delete_log(PARTITION, unique=UNIQUE)
    assert directory.found() == []
    assert disk.is_dir(f"/logs/a/t-0.{UNIQUE.hex}-delete")
    fresh = directory.open_log(PARTITION, CONFIG, now_ms=NOW, topic_id=TOPIC_ID)
    assert (fresh.log_end_offset, directory.high_watermarks) == (0, {})
    removal = directory.take_removal(NOW)
    assert removal is not None
    removal.perform()
    assert not disk.is_dir(f"/logs/a/t-0.{UNIQUE.hex}-delete")
    assert directory.take_removal(NOW) is None


def test_deletion_interrupted_by_a_crash_is_finished_later() -> None:
    disk = SimulatedDisk()
    directory = open_directory(disk)
    directory.open_log(PARTITION, CONFIG, now_ms=NOW)
    directory.delete_log(PARTITION, unique=UNIQUE)
    disk.crash(lose=Loss.NOTHING)
    removal = open_directory(disk).take_removal(NOW)
    assert removal is not None
    removal.perform()
    assert not disk.is_dir(f"/logs/a/t-0.{UNIQUE.hex}-delete")


def test_log_deleted_while_its_flush_is_under_way_takes_nothing_offline() -> None:
    disk = SimulatedDisk()
    directory = open_directory(disk)
    log = directory.open_log(PARTITION, CONFIG, now_ms=NOW)
    append(log, "a")
    work = log.start_flush()
    assert work is not None
    directory.delete_log(PARTITION, unique=UNIQUE)
    work.perform()
    log.on_flushed(work)
    assert directory.failure is None


def test_retired_segments_are_removed_when_their_time_has_come() -> None:
    disk = SimulatedDisk()
    directory = open_directory(disk)
    log = directory.open_log(PARTITION, CONFIG, now_ms=NOW)
    append(log, "a")
    log.maybe_roll(NOW * 2)
    log.advance_log_start(1)
    log.delete_old_segments(NOW, high_watermark=1)
    assert directory.take_removal(NOW + 59_999) is None
    removal = directory.take_removal(NOW + 60_000)
    assert removal is not None
    removal.perform()
    removal.perform()
    assert not [name for name in disk.listdir("/logs/a/t-0") if name.endswith(".deleted")]


def test_directory_of_another_topic_with_the_same_name_is_refused() -> None:
    disk = SimulatedDisk()
    directory = open_directory(disk)
    directory.open_log(PARTITION, CONFIG, now_ms=NOW, topic_id=TOPIC_ID)
    directory.release()
    again = open_directory(disk)
    with pytest.raises(InconsistentTopicId):
        again.open_log(PARTITION, CONFIG, now_ms=NOW, topic_id=UNIQUE)


def test_names_that_are_no_partitions_are_left_alone() -> None:
    disk = SimulatedDisk()
    open_directory(disk).release()
    for name in ("t-0-future", "lost+found", "t-x", "-1", "t-0.abc-stray"):
        disk.mkdir(f"/logs/a/{name}")
    directory = open_directory(disk)
    assert directory.found() == []
    log = directory.open_log(OTHER, CONFIG, now_ms=NOW)
    log.append_as_leader(batch("a"), leader_epoch=0, now_ms=NOW)
    assert [found.topic_partition for found in directory.found()] == [OTHER]
