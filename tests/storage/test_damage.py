"""Rot in a log: no flipped bit leaves it, it is found where it lies, and cutting it away leaves a whole log."""

from __future__ import annotations

import pytest

from tests.storage.support import NOW, SMALL, append, flush, new_disk, open_log, values
from tidelog.model import ApiError, ErrorCode, Offset
from tidelog.records import headers
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage.damage import first_damage, sound_prefix, stretches
from tidelog.storage.log import PartitionLog

UNJUDGED = (*range(8), *range(12, 16))
"""The base offset and the leader epoch, which a leader stamps, are not covered by the checksum."""
COUNT = 12


def filled() -> tuple[SimulatedDisk, PartitionLog]:
    disk = new_disk()
    log = open_log(disk, SMALL)
    for number in range(COUNT):
        append(log, f"v{number}")
    flush(log)
    return disk, log


def read_up_to_rot(log: PartitionLog) -> list[tuple[int, str]]:
    """What a reader gets before it is told of rot, if it is."""
    found: list[tuple[int, str]] = []
    try:
        while len(found) < COUNT:
            found += values(log, len(found))[:1]
    except ApiError as error:
        if error.code is not ErrorCode.CORRUPT_MESSAGE:
            raise
    return found


def judged_bytes(disk: SimulatedDisk, path: str) -> list[int]:
    """Positions of all bytes that a checksum covers, or that say where the next batch is."""
    content = disk.read(path)
    starts = [position for position, _ in headers(content)]
    unjudged = {start + byte for start in starts for byte in UNJUDGED}
    return [position for position in range(len(content)) if position not in unjudged]


@pytest.mark.slow
@pytest.mark.parametrize("bit", [0, 3, 7])
def test_d10_no_flipped_bit_of_a_sealed_segment_leaves_the_log(bit: int) -> None:
    disk, log = filled()
    segment = log.segments[1]
    expected = [(number, f"v{number}") for number in range(COUNT)]
    path = segment.path(".log")
    for position in judged_bytes(disk, path):
        disk.flip_bit(path, position=position, bit=bit)
        found = read_up_to_rot(log)
        assert found == expected[: len(found)], position
        assert len(found) < COUNT, position
        damage = first_damage(disk, stretches(log.segments, log.log_end_offset))
        assert damage is not None
        assert segment.base_offset <= damage < log.segments[2].base_offset
        assert log.damaged_from is not None
        log.forget_damage()
        disk.flip_bit(path, position=position, bit=bit)
    assert read_up_to_rot(log) == expected


@pytest.mark.parametrize("bit", [0, 1, 7])
@pytest.mark.parametrize("byte", range(8))
def test_d10_batch_that_is_not_where_it_says_is_noticed_when_it_is_read_over(byte: int, bit: int) -> None:
    disk, log = filled()
    segment = log.segments[1]
    disk.flip_bit(segment.path(".log"), position=byte, bit=bit)
    offset = segment.base_offset
    try:
        read = log.read(offset, max_bytes=1 << 20, end_offset=COUNT)
        assert log.read(offset + 1, max_bytes=1 << 20, end_offset=COUNT) or read
    except ApiError as error:
        if error.code is not ErrorCode.CORRUPT_MESSAGE:
            raise
    assert log.damaged_from is not None
    assert first_damage(disk, stretches(log.segments, log.log_end_offset)) is not None


def test_d10_gap_in_which_nothing_is_rotten_is_looked_into_once() -> None:
    log = open_log(new_disk(), SMALL)
    _, leader = filled()
    flush(log)
    for offset in (0, 2, 3, 4, 5, 6):
        data = leader.read(offset, max_bytes=1, end_offset=COUNT)
        log.append_as_follower(data, now_ms=NOW)
    assert log.read(1, max_bytes=1 << 20, end_offset=7)
    assert log.damaged_from == 1
    log.on_examined()
    assert log.read(1, max_bytes=1 << 20, end_offset=7)
    assert log.damaged_from is None


def test_d10_batches_before_rot_are_served_and_the_place_is_remembered() -> None:
    disk, log = filled()
    segment = log.segments[1]
    second = [position for position, _ in headers(disk.read(segment.path(".log")))][1]
    disk.flip_bit(segment.path(".log"), position=second + 65)
    data = log.read(segment.base_offset, max_bytes=1 << 20, end_offset=COUNT)
    assert [header.base_offset for _, header in headers(data)] == [segment.base_offset]
    assert log.damaged_from == segment.base_offset + 1


def test_d10_what_this_process_appended_to_the_active_segment_is_checked_only_if_it_is_doubted() -> None:
    disk, log = filled()
    active = log.segments[-1]
    disk.flip_bit(active.path(".log"), position=65)
    assert log.read(active.base_offset, max_bytes=1 << 20, end_offset=COUNT)
    with pytest.raises(ApiError):
        log.read(active.base_offset, max_bytes=1 << 20, end_offset=COUNT, is_doubted=True)


def test_d10_what_another_process_left_in_the_active_segment_is_checked() -> None:
    disk, log = filled()
    active = log.segments[-1]
    log.close()
    disk.flip_bit(active.path(".log"), position=65)
    again = open_log(disk, SMALL, is_clean=True)
    assert again.log_end_offset == COUNT
    with pytest.raises(ApiError):
        again.read(active.base_offset, max_bytes=1 << 20, end_offset=COUNT)


@pytest.mark.parametrize("offset", [3, 5, 7])
def test_d10_cutting_rot_away_leaves_a_log_that_takes_its_leaders_batches_again(offset: Offset) -> None:
    _, log = filled()
    _, leader = filled()
    log.note_damage(offset)
    log.truncate_to(offset, now_ms=NOW)
    assert log.damaged_from is None
    while log.log_end_offset < COUNT:
        log.append_as_follower(leader.read(log.log_end_offset, max_bytes=1 << 20, end_offset=COUNT), now_ms=NOW)
    assert values(log) == values(leader)


def test_d10_half_a_batch_at_the_end_of_a_read_is_not_judged() -> None:
    disk, log = filled()
    content = disk.read(log.segments[0].path(".log"))
    assert sound_prefix(content[:-5], 0, COUNT).damaged_from is None
