"""Any byte of a log's tail cut or flipped: every whole valid batch before the damage is kept, and nothing raises."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.storage.crash_story import content_of
from tests.storage.support import (
    DIRECTORY,
    SMALL,
    append,
    append_verified,
    batch,
    flush,
    marker,
    new_disk,
    open_log,
    produced,
)
from tidelog.records import MarkerType, crc_holds, headers, read_header
from tidelog.simulation.disk import SimulatedDisk
from tidelog.simulation.disk_image import Loss
from tidelog.storage import PartitionLog

BATCH_BYTES_SAFE = 17
"""The first bytes of a batch (offset, length, leader epoch, magic) lie outside of its checksum."""


def written_disk() -> SimulatedDisk:
    """A log of three segments, flushed, on a machine that then lost power."""
    disk = new_disk()
    log = open_log(disk, SMALL)
    append(log, "a", "b")
    log.append_as_leader(produced("c", sequence=0), leader_epoch=0, now_ms=0)
    append_verified(log, produced("d", sequence=1, transactional=True), leader_epoch=0, now_ms=0)
    log.append_as_leader(marker(MarkerType.ABORT), leader_epoch=1, now_ms=0)
    for number in range(9):
        append(log, f"value {number}", leader_epoch=1 + number // 4)
    flush(log)
    assert len(log.segments) == 3
    disk.crash(lose=Loss.ALL)
    return disk


WRITTEN = written_disk()
FROZEN = pickle.dumps(WRITTEN)
SEGMENTS = [name for name in WRITTEN.listdir(DIRECTORY) if name.endswith(".log")]
CONTENT = [WRITTEN.read(f"{DIRECTORY}/{name}") for name in SEGMENTS]
LENGTH = sum(map(len, CONTENT))


def thawed() -> SimulatedDisk:
    """A disk as it was written, in a fraction of the time a copy takes."""
    disk: SimulatedDisk = pickle.loads(FROZEN)  # noqa: S301 our own
    return disk


def place(position: int) -> tuple[str, int]:
    """The file and the position in it of a byte of the whole log."""
    for name, content in zip(SEGMENTS, CONTENT, strict=True):
        if position < len(content):
            return f"{DIRECTORY}/{name}", position
        position -= len(content)
    raise IndexError(position)


def batches_before(position: int) -> list[bytes]:
    """Whole batches that end before a byte of the whole log."""
    data = b"".join(CONTENT)
    return [data[at : at + header.size] for at, header in headers(data) if at + header.size <= position]


def flipped(position: int, bit: int) -> SimulatedDisk:
    disk = thawed()
    path, at = place(position)
    disk.flip_bit(path, position=at, bit=bit)
    return disk


def cut(position: int) -> SimulatedDisk:
    """The file ends here, as if the rest had never been written; later segments are there."""
    disk = thawed()
    path, at = place(position)
    file = disk.open(path)
    file.truncate(at)
    file.fsync()
    file.close()
    return disk


def check_recovered(disk: SimulatedDisk, position: int, *, is_covered: bool) -> PartitionLog:
    """Everything before the damage is kept; nothing behind it, unless it lies where no checksum looks."""
    log = open_log(disk, SMALL)
    found = content_of(log)
    expected = batches_before(position)
    assert found[: len(expected)] == expected
    assert all(crc_holds(data, 0, read_header(data)) for data in found)
    if is_covered:
        assert found == expected
    offsets = [read_header(data).base_offset for data in found]
    assert offsets == sorted(set(offsets))
    return log


def check_goes_on(log: PartitionLog) -> None:
    before = content_of(log)
    appended = log.append_as_leader(batch("after"), leader_epoch=log.latest_leader_epoch + 1, now_ms=0)
    assert appended.base_offset == log.log_end_offset - 1
    assert content_of(log)[:-1] == before


def position_in_batch(position: int) -> int:
    data = b"".join(CONTENT)
    return next(position - at for at, header in headers(data) if at <= position < at + header.size)


def parts(count: int) -> Iterator[range]:
    return (range(part, LENGTH, count) for part in range(count))


@pytest.mark.slow
@pytest.mark.parametrize("positions", list(parts(4)))
def test_log_cut_at_any_byte_ends_after_the_last_whole_batch(positions: range) -> None:
    for position in positions:
        check_goes_on(check_recovered(cut(position), position, is_covered=True))


@pytest.mark.slow
@pytest.mark.parametrize("positions", list(parts(4)))
def test_any_flipped_byte_ends_the_log_before_its_batch(positions: range) -> None:
    for position in positions:
        is_covered = position_in_batch(position) >= BATCH_BYTES_SAFE
        check_goes_on(check_recovered(flipped(position, position % 8), position, is_covered=is_covered))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, LENGTH - 1), st.binary(min_size=1, max_size=200))
def test_garbage_written_over_the_log_ends_it_there(position: int, garbage: bytes) -> None:
    disk = thawed()
    path, at = place(position)
    file = disk.open(path)
    file.pwrite(at, [garbage])
    file.fsync()
    file.close()
    check_goes_on(check_recovered(disk, position, is_covered=False))


@settings(max_examples=60, deadline=None)
@given(st.binary(min_size=1, max_size=300) | st.integers(1, 300).map(bytes))
def test_garbage_behind_the_last_batch_is_cut_away(garbage: bytes) -> None:
    disk = thawed()
    file = disk.open(f"{DIRECTORY}/{SEGMENTS[-1]}")
    file.pwrite(len(CONTENT[-1]), [garbage])
    file.fsync()
    file.close()
    check_goes_on(check_recovered(disk, LENGTH, is_covered=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in WRITTEN.listdir(DIRECTORY) if not name.endswith(".log")])
def test_damage_in_any_file_beside_the_log_costs_no_record(name: str) -> None:
    path = f"{DIRECTORY}/{name}"
    for position in range(len(WRITTEN.read(path))):
        for damage in (flip_in_file, cut_in_file):
            disk = thawed()
            damage(disk, path, position)
            check_goes_on(check_recovered(disk, LENGTH, is_covered=True))


def flip_in_file(disk: SimulatedDisk, path: str, position: int) -> None:
    disk.flip_bit(path, position=position, bit=position % 8)


def cut_in_file(disk: SimulatedDisk, path: str, position: int) -> None:
    file = disk.open(path)
    file.truncate(position)
    file.fsync()
    file.close()


@pytest.mark.parametrize("name", SEGMENTS)
def test_lost_segment_ends_the_log_there(name: str) -> None:
    disk = thawed()
    disk.unlink(f"{DIRECTORY}/{name}")
    number = SEGMENTS.index(name)
    log = open_log(disk, SMALL)
    found = content_of(log)
    kept = CONTENT[1:] if number == 0 else CONTENT[:number]
    assert b"".join(found) == b"".join(kept)
    check_goes_on(log)
