"""How far compaction has rewritten a log, which is also how far the log is known to be durable.

Compaction leaves gaps, and to recovery a gap looks like the work of a crash. Only what is durable is ever compacted, but the recovery point
that says so is checkpointed now and then; a crash before the next writing would start recovery among the gaps. So every swap first leaves
its end here, durably, in the partition's own directory, and on load the recovery point is at least that.
"""

from __future__ import annotations

from crc32c import crc32c

from tidelog.model import Offset
from tidelog.runtime import Disk, FileMissing
from tidelog.storage.names import COMPACTED_END


def begin_compacted_end(disk: Disk, directory: str) -> None:
    """Say of an empty log that it has no gaps yet, unless something was said before."""
    if not knows_compacted_end(disk, directory):
        disk.replace(f"{directory}/{COMPACTED_END}", _encode(0))


def knows_compacted_end(disk: Disk, directory: str) -> bool:
    """Whether gaps beyond the compacted end are known to be no work of compaction; not so in directories that Kafka wrote."""
    return disk.exists(f"{directory}/{COMPACTED_END}")


def raise_compacted_end(disk: Disk, directory: str, offset: Offset) -> None:
    """Before segments below `offset`, all of them durable, are swapped for compacted ones."""
    if offset > read_compacted_end(disk, directory):
        disk.replace(f"{directory}/{COMPACTED_END}", _encode(offset))


def read_compacted_end(disk: Disk, directory: str) -> Offset:
    """The largest offset up to which the log was compacted; 0 if it never was, or if the file is damaged."""
    try:
        content = disk.read(f"{directory}/{COMPACTED_END}")
    except FileMissing:
        return 0
    number = content.partition(b" ")[0]
    offset = int(number) if number.isdigit() and len(number) < 20 else 0
    return offset if content == _encode(offset) else 0


def _encode(offset: Offset) -> bytes:
    number = b"%d" % offset
    return b"%s %08x\n" % (number, crc32c(number))
