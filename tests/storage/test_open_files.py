"""Descriptors: few are open, whatever a log consists of, and none that somebody needs is closed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storage.support import NOW, PARTITION, SMALL, append, flush, new_disk, open_log, values
from tidelog.config import LogConfig
from tidelog.model import TopicPartition
from tidelog.runtime import StorageFailure
from tidelog.runtime.real import RealDisk
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage import Opening, PartitionLog
from tidelog.storage.open_files import LazyFile, OpenFiles


def files_of(disk: SimulatedDisk, count: int, *, resting_max: int) -> tuple[OpenFiles, list[LazyFile]]:
    files = OpenFiles(disk, resting_max=resting_max)
    return files, [LazyFile(files, f"/data/{number}") for number in range(count)]


def test_file_used_longest_ago_is_closed_first() -> None:
    files, (a, b, c) = files_of(new_disk(), 3, resting_max=2)
    opened = [lazy.use(create=True) for lazy in (a, b)]
    a.use()
    c.use(create=True)
    assert files.resting_count == 2
    assert a.use() is opened[0]
    assert b.use() is not opened[1]


def test_held_file_is_never_closed() -> None:
    files, (held, *others) = files_of(new_disk(), 5, resting_max=1)
    held.hold()
    file = held.use(create=True)
    for lazy in others:
        lazy.use(create=True)
    file.pwrite(0, (b"still open",))
    held.release()
    assert files.resting_count == 1
    assert held.use() is file
    others[0].use()
    assert held.use() is not file


def test_log_of_many_segments_keeps_few_files_open(tmp_path: Path) -> None:
    def open_count() -> int:
        return sum(
            str(tmp_path) in str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()
        )

    disk = RealDisk()
    opening = Opening(files=OpenFiles(disk, resting_max=10))
    log = PartitionLog.open(disk, str(tmp_path / "t-0"), PARTITION, SMALL, now_ms=NOW, opening=opening)
    for number in range(150):
        append(log, f"value {number}")
    assert len(log.segments) > 25
    flush(log)
    assert open_count() <= 11
    assert [value for _, value in values(log)] == [f"value {number}" for number in range(150)]
    assert open_count() <= 11
    log.close()
    assert open_count() == 0


def test_segment_that_no_flush_has_covered_stays_open() -> None:
    disk = new_disk()
    log = open_log(disk, SMALL, files=OpenFiles(disk, resting_max=4))
    while len(log.segments) < 5:
        append(log, "filling")
    work = log.start_flush()
    assert work is not None
    expected = values(log)
    log.offset_for_timestamp(NOW, end_offset=log.log_end_offset)
    work.perform()  # With every file it was given still open.
    log.on_flushed(work)
    assert log.recovery_point == log.log_end_offset
    assert values(log) == expected


def test_s19_a_log_is_not_written_through_a_symbolic_link_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "t-0").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageFailure, match="symbolic link"):
        PartitionLog.open(
            RealDisk(), str(tmp_path / "t-0"), TopicPartition("t", 0), LogConfig(), now_ms=0, opening=Opening()
        )
    assert list((tmp_path / "elsewhere").iterdir()) == []
