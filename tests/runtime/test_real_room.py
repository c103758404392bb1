"""Who may write when there is hardly any room."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tidelog.runtime import StorageFailure
from tidelog.runtime.real_disk import RealDisk
from tidelog.runtime.reserve import Reserve

MIB = 1 << 20
FULL = OSError(errno.ENOSPC, "No space left on device")


def test_a_reserve_is_given_up_in_pieces_and_made_whole_again(tmp_path: Path) -> None:
    file = tmp_path / "reserve"
    reserve = Reserve(str(file), MIB)
    assert reserve.keep()
    assert (file.stat().st_size, file.stat().st_blocks * 512 >= MIB) == (MIB, True)
    assert reserve.give_up()
    assert file.stat().st_size == MIB - (1 << 18)
    while reserve.give_up():
        pass
    assert file.stat().st_size == 0
    assert reserve.keep()
    assert file.stat().st_size == MIB


def test_what_is_small_has_the_reserve_and_records_have_not(tmp_path: Path) -> None:
    disk = RealDisk()
    log, checkpoint = str(tmp_path / "t-0" / "0.log"), str(tmp_path / "checkpoint")
    reserve = tmp_path / "reserve"
    disk.rooms.keep(str(tmp_path), Reserve(str(reserve), MIB))
    assert not disk.rooms.made_for(log, FULL)
    assert reserve.stat().st_size == MIB
    assert disk.rooms.made_for(checkpoint, FULL)
    assert reserve.stat().st_size < MIB
    assert not disk.rooms.made_for(checkpoint, OSError(errno.EIO, "Input/output error"))
    assert not disk.rooms.made_for("/elsewhere/checkpoint", FULL)
    disk.close()


def test_where_there_is_no_room_for_a_reserve_records_are_refused_and_all_else_is_written(tmp_path: Path) -> None:
    class Narrow(Reserve):
        """As on a disk without room for it."""

        def keep(self) -> bool:
            return False

    disk = RealDisk()
    disk.rooms.keep(str(tmp_path), Narrow(str(tmp_path / "reserve"), MIB))
    log = disk.open(str(tmp_path / "0.log"), create=True)
    with pytest.raises(StorageFailure, match="No space left"):
        log.pwrite(0, [b"x"])
    index = disk.open(str(tmp_path / "0.index"), create=True)
    index.pwrite(0, [b"x"])
    disk.replace(str(tmp_path / "checkpoint"), b"x")
    assert disk.usable_bytes(str(tmp_path)) == 0
    for file in (log, index):
        file.close()
    disk.close()


def test_there_is_room_again_as_soon_as_the_reserve_is_whole(tmp_path: Path) -> None:
    disk = RealDisk()
    disk.rooms.keep(str(tmp_path), Reserve(str(tmp_path / "reserve"), MIB))
    assert disk.rooms.made_for(str(tmp_path / "checkpoint"), FULL)
    assert disk.rooms.are_short
    log = disk.open(str(tmp_path / "0.log"), create=True)
    log.pwrite(0, [b"x"])
    assert not disk.rooms.are_short
    assert (tmp_path / "reserve").stat().st_size == MIB
    log.close()
    disk.close()
