"""I13: a log that a broker opens again consists of whole batches, whatever a power cut has left of it, and its index leads to them.

Readers find half a batch by its checksum, and a replica that has one is repaired from a peer: so it is not noticed unless somebody looks
for it. Every batch of a log and every entry of its offset indexes is looked at once in each life of its broker. Files in which a fault has
turned a bit are not asked.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

from tidelog.model import BrokerId, Offset, TopicPartition
from tidelog.partition import Partition
from tidelog.records.batch import CorruptBatch, crc_holds, headers
from tidelog.simulation.checkers.flushed_stays import Starter
from tidelog.simulation.disk import SimulatedDisk
from tidelog.simulation.observer import Snapshot
from tidelog.storage.names import LOG, OFFSET_INDEX
from tidelog.storage.offset_index import OffsetEntry
from tidelog.storage.segment import Segment

_ENTRY: Final = struct.Struct(">ii")
_NOTHING: Final = OffsetEntry(-1, 0)


class RecoveredIsSound:
    """Remembers which logs it has seen in which life."""

    name = "I13 a recovered log is sound"

    def __init__(self, brokers: Iterable[Starter]) -> None:
        self._brokers = brokers
        self._lives: dict[tuple[BrokerId, TopicPartition], int] = {}

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """Places in logs of a new life where no whole batch is, and entries of their indexes that lead nowhere."""
        del snapshot
        for broker in self._brokers:
            for partition in broker.partitions():
                key, life = (broker.broker_id, partition.topic_partition), broker.node.incarnation
                if self._lives.get(key) == life:
                    continue
                self._lives[key] = life
                for place in _unsound(partition, broker.node.disk):
                    yield f"{partition.topic_partition}: broker {broker.broker_id} opened a log with {place}"


def _unsound(partition: Partition, disk: SimulatedDisk) -> Iterator[str]:
    for segment in partition.log.segments:
        file = disk.peek(segment.path(LOG))
        if file is None:
            yield f"no file {segment.path(LOG)}"
            return
        if file.is_rotten:
            continue
        batches = _whole_batches(bytes(file.content[: segment.size]))
        end = max((ends for _, ends in batches.values()), default=0)
        if end < segment.size:
            yield f"no whole batch at {end} of {segment.path(LOG)}"
            return
        for before, entry in pairwise([_NOTHING, *_entries(segment, disk)]):
            if entry.relative_offset <= before.relative_offset or not _leads_home(segment, entry, batches):
                yield f"{entry} after {before} in {segment.path(OFFSET_INDEX)}, which does not lead to the batch it means"
                return


def _whole_batches(content: bytes) -> dict[int, tuple[Offset, int]]:
    """Base offset and end of every batch up to the first that is not whole, by position."""
    found: dict[int, tuple[Offset, int]] = {}
    try:
        for position, header in headers(content):
            if not crc_holds(content, position, header):
                break
            found[position] = (header.base_offset, position + header.size)
    except CorruptBatch:
        pass
    return found


def _entries(segment: Segment, disk: SimulatedDisk) -> Iterator[OffsetEntry]:
    """The entries of a segment's offset index, those on disk read as an onlooker reads."""
    entries, file = segment.offset_index.entries, disk.peek(segment.path(OFFSET_INDEX))
    stored = b"" if file is None else bytes(file.content[: entries.stored * _ENTRY.size])
    yield from map(OffsetEntry._make, _ENTRY.iter_unpack(stored))
    yield from entries.tail


def _leads_home(segment: Segment, entry: OffsetEntry, batches: dict[int, tuple[Offset, int]]) -> bool:
    base_offset, _ = batches.get(entry.position, (None, 0))
    return base_offset is not None and base_offset <= segment.base_offset + entry.relative_offset
