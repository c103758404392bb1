"""From the bytes of a partition to a machine that knows what they say.

A broker that becomes the leader reads the partition from its start to its end. A million committed offsets are usual, mostly in batches of
one record each, so plain batches are read without making anything of their headers. Bytes come checked from the log.

What cannot be understood is passed over and counted: a record whose bytes make no sense, a batch that does not decompress, a kind of record
that a later release writes. One of them must not keep the others from being known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final

from tidelog.coordinator.machine import CoordinatorRecord, Machine, MalformedRecord, Written
from tidelog.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Offset, ProducerId
from tidelog.records import HEADER_SIZE, BatchHeader, CorruptBatch, MarkerType, decompress, read_header, read_marker
from tidelog.records.batch import CODEC_MASK, CONTROL_BIT, LENGTH_OVERHEAD, MAGIC, TRANSACTIONAL_BIT
from tidelog.records.record import Entry, entries

_STEP: Final = 200
"""Batches and records between two looks at the clock; less than a millisecond."""

_DECOMPRESSED_MAX: Final = 64 << 20
_SPECIAL: Final = CODEC_MASK | CONTROL_BIT | TRANSACTIONAL_BIT
_HEADER: Final = Struct(">qi4xb4xhi30xi")  # base offset, length, magic, attributes, last offset delta, record count


class Loading:
    """How far a machine has been loaded."""

    def __init__(self, machine: Machine, start_offset: Offset) -> None:
        self._machine = machine
        self.start_offset: Final = start_offset
        self.next_offset = start_offset
        """Everything before it was replayed."""
        self.record_count = 0
        self.passed_over = 0
        """Records and batches that could not be understood."""

    def replay(self, data: bytes) -> Iterator[None]:
        """Replay the whole batches of a read; yields now and then, so that the caller can stop for a while. Raises CorruptBatch.

        Half a batch at the end is left for the next read, and whatever lies before `next_offset` was there already.
        """
        position, size, unseen = 0, len(data), 0
        while position + HEADER_SIZE <= size:
            base_offset, length, magic, attributes, last_delta, record_count = _HEADER.unpack_from(data, position)
            end = position + LENGTH_OVERHEAD + length
            if magic != MAGIC or end < position + HEADER_SIZE:
                raise CorruptBatch(f"no batch at offset {self.next_offset}")
            if end > size:
                return
            if base_offset + last_delta >= self.next_offset:
                try:
                    if attributes & _SPECIAL:
                        yield from self._replay_special(data[position:end])
                    else:
                        found = entries(data, position + HEADER_SIZE, end, base_offset, record_count)
                        yield from self._replay_entries(found)
                except CorruptBatch:
                    self.passed_over += 1
                self.next_offset = base_offset + last_delta + 1
            position = end
            unseen += 1 + record_count
            if unseen >= _STEP:
                unseen = 0
                yield

    def _replay_special(self, batch: bytes) -> Iterator[None]:
        header = read_header(batch)
        if header.is_control:
            self._replay_marker(header, batch)
            return
        payload = bytes(decompress(header.codec, batch[HEADER_SIZE:], max_bytes=_DECOMPRESSED_MAX))
        found = entries(payload, 0, len(payload), header.base_offset, header.record_count)
        if header.is_transactional:
            yield from self._replay_entries(found, header.producer_id, header.producer_epoch)
        else:
            yield from self._replay_entries(found)

    def _replay_marker(self, header: BatchHeader, batch: bytes) -> None:
        if header.record_count == 0:  # Compaction leaves an empty batch of what it has removed.
            return
        marker = read_marker(batch)
        if marker.type is not MarkerType.UNKNOWN:
            is_committed = marker.type is MarkerType.COMMIT
            self._machine.end_transaction(header.producer_id, is_committed=is_committed, offset=header.base_offset)

    def _replay_entries(
        self,
        found: Iterable[Entry],
        producer_id: ProducerId = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
    ) -> Iterator[None]:
        replay, count = self._machine.replay, 0
        for offset, key, value in found:
            if offset < self.start_offset:
                continue
            if key is None:
                self.passed_over += 1
                continue
            try:
                replay(CoordinatorRecord(key, value), Written(offset, producer_id, producer_epoch))
            except MalformedRecord:
                self.passed_over += 1
            count += 1
            if count % _STEP == 0:
                yield
        self.record_count += count
