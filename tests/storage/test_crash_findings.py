"""What the crash sweep and its random stories have found, each told once by itself."""

from __future__ import annotations

from dataclasses import replace

from tests.storage.compacting import batch as keyed
from tests.storage.compacting import bench_of
from tests.storage.crash_story import CONFIG, NOW, PARTITION, PATH, Story, content_of
from tests.storage.support import DIRECTORY, SMALL, append, append_verified, flush, new_disk, open_log, produced, values
from tidelog.records import MarkerType
from tidelog.simulation.disk import SimulatedDisk
from tidelog.simulation.disk_image import Loss
from tidelog.storage.directory import LogDirectory
from tidelog.storage.floors import Floors, lower_floors, raise_floors, read_floors
from tidelog.storage.log import PartitionLog


def reopened(disk: SimulatedDisk) -> PartitionLog:
    return LogDirectory.open(disk, PATH, broker_id=1, cluster_id="c").open_log(PARTITION, CONFIG, now_ms=NOW)


def test_compaction_ahead_of_the_checkpointed_recovery_point_is_not_taken_for_loss() -> None:
    disk = SimulatedDisk()
    story = Story(disk)
    story.open()
    story.checkpoint()
    story.fill(1)
    story.flush()
    story.checkpoint()
    story.fill(20)
    story.flush()
    story.compact()
    disk.crash(lose=Loss.ALL)
    assert content_of(reopened(disk)) == story.world.batches


def test_hole_left_by_retention_is_not_taken_for_loss() -> None:
    disk = new_disk()
    config = replace(SMALL, retention_bytes=0)
    log = open_log(disk, config)
    for number in range(20):
        append(log, f"value {number}")
    flush(log)
    expected = values(log)
    first = log.segments[0]
    log.delete_old_segments(0, log.segments[-1].base_offset)
    start = log.log_start_offset
    disk.crash(lose=Loss.NOTHING)
    disk.rename(
        f"{first.path('.log')}.deleted", first.path(".log")
    )  # Of all the renames this one never reached the disk.
    assert values(open_log(disk, config)) == [entry for entry in expected if entry[0] >= start]


def test_producer_whose_records_retention_took_keeps_its_sequence_through_a_power_cut() -> None:
    disk = SimulatedDisk()
    story = Story(disk)
    story.open()
    story.append_transactional(8, b"a", b"b", b"c")
    story.fill(3)
    story.flush()
    story.append_marker(
        8, MarkerType.COMMIT
    )  # Into a new segment; the snapshot at its beginning waits for the next flush.
    start = story.log.segments[1].base_offset
    assert start == story.durable_end
    story.log.advance_log_start(start)
    assert story.log.delete_old_segments(NOW, start) == 1
    story.log.segments[0].file.fsync()  # Of what was not flushed, the marker has reached the disk by itself.
    disk.crash(lose=Loss.CONTENTS)
    log = reopened(disk)
    assert log.log_start_offset == start
    producer = log.producers.get(8)
    assert producer is not None
    assert (producer.last_sequence, producer.coordinator_epoch) == (2, 2)


def test_names_left_by_a_killed_process_are_flushed_with_the_next_records() -> None:
    disk = new_disk()
    open_log(disk)
    disk.crash(lose=Loss.NOTHING)
    log = open_log(disk)
    append(log, "a")
    flush(log)
    disk.crash(lose=Loss.ALL)
    assert values(open_log(disk)) == [(0, "a")]


def test_new_log_directory_survives_with_its_records() -> None:
    disk = SimulatedDisk()
    log = LogDirectory.open(disk, "/some/new/place", broker_id=1, cluster_id="c").open_log(PARTITION, SMALL, now_ms=NOW)
    append(log, "a")
    flush(log)
    disk.crash(lose=Loss.ALL)
    directory = LogDirectory.open(disk, "/some/new/place", broker_id=1, cluster_id="c")
    assert values(directory.open_log(PARTITION, SMALL, now_ms=NOW)) == [(0, "a")]


def test_empty_log_that_began_anew_in_a_new_directory_is_not_forgotten_with_it() -> None:
    """It was called flushed up to where it begins, and its directory's name was not (seed 932)."""
    disk = SimulatedDisk()
    log = reopened(disk)
    log.truncate_fully_and_start_at(5)
    assert log.recovery_point == 5
    disk.crash(lose=Loss.ALL)
    assert reopened(disk).log_end_offset == 5


def test_last_stable_offset_is_never_before_the_log_start() -> None:
    log = open_log(new_disk(), replace(SMALL, retention_bytes=0))
    append_verified(log, produced("open", transactional=True), leader_epoch=0, now_ms=0)
    for number in range(12):
        append(log, f"value {number}")
    log.delete_old_segments(0, log.segments[-1].base_offset)
    assert log.last_stable_offset(log.log_end_offset) == log.log_start_offset > 0


def test_compaction_keeps_a_sequence_that_only_an_unflushed_batch_repeats() -> None:
    bench = bench_of([keyed((b"a", b"1"), producer=(7, 0, 0))], [keyed((b"a", b"2"))])
    durable = bench.producers.to_snapshot()
    header_of_the_tail = bench.batches()[0][0]._replace(base_offset=2, base_sequence=1)
    bench.producers.apply(header_of_the_tail, None)  # Appended to the active segment, and lost with the power.
    bench.compact()
    assert bench.replayed().to_snapshot() == durable


def test_floors_rise_before_gaps_and_fall_before_truncation() -> None:
    disk = new_disk()
    assert read_floors(disk, "/data") is None
    raise_floors(disk, "/data", Floors(recovery_point=10))
    raise_floors(disk, "/data", Floors(recovery_point=5, log_start_offset=4))
    assert read_floors(disk, "/data") == Floors(10, 4)
    lower_floors(disk, "/data", 7)
    assert read_floors(disk, "/data") == Floors(7, 4)
    disk.crash(lose=Loss.ALL)
    assert read_floors(disk, "/data") == Floors(7, 4)


def test_damaged_floors_promise_nothing() -> None:
    disk = new_disk()
    raise_floors(disk, "/data", Floors(1234, 56))
    path = "/data/floors-checkpoint"
    for position in range(len(disk.read(path))):
        disk.flip_bit(path, position=position, bit=1)
        assert read_floors(disk, "/data") == Floors()
        disk.flip_bit(path, position=position, bit=1)
    assert read_floors(disk, "/data") == Floors(1234, 56)


def test_segment_that_retention_deleted_and_a_crash_brought_back_says_nothing_of_producers() -> None:
    disk = new_disk()
    config = replace(SMALL, retention_bytes=0)
    log = open_log(disk, config)
    log.append_as_leader(produced("old", sequence=0), leader_epoch=0, now_ms=0)
    for number in range(4):
        append(log, f"value {number}")
    log.append_as_leader(produced("newer", sequence=1), leader_epoch=0, now_ms=0)
    for number in range(12):
        append(log, f"value {number}")
    flush(log)
    first = log.segments[0]
    log.delete_old_segments(0, log.segments[-1].base_offset)
    disk.crash(lose=Loss.NOTHING)
    disk.rename(f"{first.path('.log')}.deleted", first.path(".log"))
    for name in disk.listdir(DIRECTORY):
        if name.endswith(".snapshot"):
            disk.unlink(f"{DIRECTORY}/{name}")
    log = open_log(disk, config)
    # The producer goes on where it was; with the old sequence it would be out of order for ever.
    assert not log.append_as_leader(produced("next", sequence=2), leader_epoch=0, now_ms=0).is_duplicate
