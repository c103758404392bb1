"""The least a log promises about itself, in its own directory: how far it is durable, and where it begins.

To recovery a gap between segments looks like the work of a crash, and it removes what follows. But compaction leaves gaps too, and so may
retention, whose renames need not reach the disk in order. Both touch only what is durable, yet the recovery point and the log start that
say so are checkpointed for the whole log directory now and then. So before either of them changes a log it raises the floors here,
durably; on load recovery point and log start are at least these. A truncation lowers them first.
"""

from __future__ import annotations

from typing import NamedTuple

from crc32c import crc32c

from tidelog.model import Offset
from tidelog.runtime import Disk, FileMissing
from tidelog.storage.names import FLOORS


class Floors(NamedTuple):
    """Zero promises nothing."""

    recovery_point: Offset = 0
    log_start_offset: Offset = 0


def read_floors(disk: Disk, directory: str) -> Floors | None:
    """What the log promises; nothing if the file is damaged, None if it was never written, as in directories that Kafka wrote."""
    try:
        content = disk.read(f"{directory}/{FLOORS}")
    except FileMissing:
        return None
    words = content.split()
    if len(words) != 3 or not all(word.isdigit() and len(word) < 20 for word in words[:2]):
        return Floors()
    floors = Floors(int(words[0]), int(words[1]))
    return floors if content == _encode(floors) else Floors()


def begin_floors(disk: Disk, directory: str) -> None:
    """Say of an empty log that it has no gaps yet, unless something was said before."""
    if read_floors(disk, directory) is None:
        disk.replace(f"{directory}/{FLOORS}", _encode(Floors()))


def raise_floors(disk: Disk, directory: str, raised: Floors) -> None:
    """Before something leaves a gap below these offsets. The caller has made sure that they hold."""
    known = read_floors(disk, directory) or Floors()
    _write(
        disk,
        directory,
        known,
        Floors(max(known.recovery_point, raised.recovery_point), max(known.log_start_offset, raised.log_start_offset)),
    )


def lower_floors(disk: Disk, directory: str, offset: Offset) -> None:
    """Before the log is cut back to `offset`."""
    known = read_floors(disk, directory) or Floors()
    _write(disk, directory, known, Floors(min(known.recovery_point, offset), min(known.log_start_offset, offset)))


def _write(disk: Disk, directory: str, known: Floors, wanted: Floors) -> None:
    if wanted != known:
        disk.replace(f"{directory}/{FLOORS}", _encode(wanted))


def _encode(floors: Floors) -> bytes:
    numbers = b"%d %d" % floors
    return b"%s %08x\n" % (numbers, crc32c(numbers))
