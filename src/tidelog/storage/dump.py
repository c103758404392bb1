"""Describing the files of a log, row by row, in the words of Kafka's own dump tool. Pure: bytes in, rows out.

A damaged file is no reason to stop: what cannot be read becomes a row that says where and why, and the description goes on behind it. Large
files are best given as a memory map: rows come one at a time, and of a segment only one batch is decoded at once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from tidelog.model import NO_SEQUENCE, Offset
from tidelog.records.batch import HEADER_SIZE, BatchHeader, CorruptBatch, crc_holds, read_header, sequence_after
from tidelog.records.control import read_marker
from tidelog.records.record import read_records
from tidelog.runtime.disk import Buffer
from tidelog.storage.checkpoints import DamagedCheckpoint, decode_epochs, decode_offsets
from tidelog.storage.dump_rows import (
    AbortedRow,
    BatchRow,
    CheckpointRow,
    Damage,
    EpochRow,
    Fact,
    OffsetIndexRow,
    ProducerRow,
    RecordRow,
    Row,
    TimeIndexRow,
)
from tidelog.storage.names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG,
    OFFSET_INDEX,
    SNAPSHOT,
    TIME_INDEX,
    TRANSACTION_INDEX,
    parse_file_name,
)
from tidelog.storage.producer_snapshot import DamagedSnapshot, decode_snapshot
from tidelog.storage.transaction_index import AbortedEntry

__all__ = [
    "AbortedRow",
    "BatchRow",
    "CheckpointRow",
    "Damage",
    "EpochRow",
    "Fact",
    "OffsetIndexRow",
    "ProducerRow",
    "RecordRow",
    "Row",
    "TimeIndexRow",
    "dump_epochs",
    "dump_file",
    "dump_log",
    "dump_offset_index",
    "dump_offsets",
    "dump_snapshot",
    "dump_time_index",
    "dump_transaction_index",
]


def dump_file(name: str, content: Buffer, *, log: Buffer | None = None, with_records: bool = False) -> Iterator[Row]:
    """Describe a file by its name, without directory; an unknown name is taken for a checkpoint of offsets.

    Indexes are held against `log`, the content of the segment they belong to, where it is given.
    """
    found = parse_file_name(name)
    if found is None:
        return dump_epochs(content) if name == LEADER_EPOCH_CHECKPOINT else dump_offsets(content)
    base_offset, kind, _ = found
    if kind == LOG:
        return dump_log(content, with_records=with_records)
    if kind == OFFSET_INDEX:
        return dump_offset_index(content, base_offset, log=log)
    if kind == TIME_INDEX:
        return dump_time_index(content, base_offset, log=log)
    return {TRANSACTION_INDEX: dump_transaction_index, SNAPSHOT: dump_snapshot}[kind](content)


def dump_log(content: Buffer, *, with_records: bool = False) -> Iterator[BatchRow | Damage]:
    """Every batch of a `.log` file, with its records if wanted. Behind damage the next batch is searched for."""
    position = 0
    while position < len(content):
        try:
            header = _plausible_header(content, position)
        except CorruptBatch as error:
            following = _next_batch(content, position + 1)
            yield Damage(position=position, size=following - position, problem=str(error))
            position = following
            continue
        yield _batch_row(content, position, header, with_records=with_records)
        position += header.size


def dump_offset_index(
    content: Buffer, base_offset: Offset, *, log: Buffer | None = None
) -> Iterator[OffsetIndexRow | Damage]:
    """Every entry of an `.index` file, held against the batches of `log` where that is given."""
    ends = None if log is None else _largest_timestamps(log)
    before = (-1, -1)
    for relative_offset, position in _entries(content, _OFFSET_ENTRY):
        offset = base_offset + relative_offset
        problem = None
        if relative_offset <= before[0] or position <= before[1]:
            problem = "does not grow"
        elif ends is not None and offset not in ends:
            problem = "no batch of the segment ends at this offset"
        elif log is not None:
            problem = _problem_of_offset_entry(log, offset, position)
        yield OffsetIndexRow(offset=offset, position=position, problem=problem)
        before = (relative_offset, position)
    yield from _rest(content, _OFFSET_ENTRY)


def dump_time_index(
    content: Buffer, base_offset: Offset, *, log: Buffer | None = None
) -> Iterator[TimeIndexRow | Damage]:
    """Every entry of a `.timeindex` file, held against the batches of `log` where that is given."""
    largest = None if log is None else _largest_timestamps(log)
    before = (-1, -1)
    for timestamp_ms, relative_offset in _entries(content, _TIME_ENTRY):
        offset = base_offset + relative_offset
        problem = None
        if timestamp_ms <= before[0] or relative_offset < before[1]:
            problem = "does not grow"
        elif largest is not None and offset not in largest:
            problem = "no batch of the segment ends at this offset"
        elif largest is not None and largest[offset] != timestamp_ms:
            problem = f"the largest timestamp up to this offset is {largest[offset]}"
        yield TimeIndexRow(timestamp_ms=timestamp_ms, offset=offset, problem=problem)
        before = (timestamp_ms, relative_offset)
    yield from _rest(content, _TIME_ENTRY)


def dump_transaction_index(content: Buffer) -> Iterator[AbortedRow | Damage]:
    """Every entry of a `.txnindex` file."""
    last_offset = -1
    for fields in _ABORTED_ENTRY.iter_unpack(_whole(content, _ABORTED_ENTRY)):
        entry = AbortedEntry._make(fields)
        problem = None
        if entry.version != 0:
            problem = f"version {entry.version} is not 0"
        elif entry.last_offset <= last_offset:
            problem = "its marker does not come after that of the entry before"
        elif entry.first_offset > entry.last_offset:
            problem = "ends before it begins"
        yield AbortedRow(entry=entry, problem=problem)
        last_offset = max(last_offset, entry.last_offset)
    yield from _rest(content, _ABORTED_ENTRY)


def dump_snapshot(content: Buffer) -> Iterator[ProducerRow | Damage]:
    """Every producer of a `.snapshot` file; nobody of one whose checksum does not hold."""
    try:
        for entry in decode_snapshot(bytes(content)):
            yield ProducerRow(entry=entry)
    except DamagedSnapshot as error:
        yield Damage(position=0, size=len(content), problem=str(error))


def dump_epochs(content: Buffer) -> Iterator[EpochRow | Damage]:
    """Every line of a `leader-epoch-checkpoint`."""
    try:
        for entry in decode_epochs(bytes(content)):
            yield EpochRow(entry=entry)
    except DamagedCheckpoint as error:
        yield Damage(position=0, size=len(content), problem=str(error))


def dump_offsets(content: Buffer) -> Iterator[CheckpointRow | Damage]:
    """Every line of a checkpoint of offsets, such as `recovery-point-offset-checkpoint`."""
    try:
        for partition, offset in sorted(decode_offsets(bytes(content)).items()):
            yield CheckpointRow(topic=partition.topic, partition=partition.index, offset=offset)
    except DamagedCheckpoint as error:
        yield Damage(position=0, size=len(content), problem=str(error))


_DECOMPRESSED_BYTES_MAX: Final = 256 << 20
_ATTRIBUTES_MAX: Final = 0x7F
_MAGIC_AT: Final = 16
_MAGIC_BYTE: Final = b"\x02"
_SEARCH_BYTES: Final = 1 << 16
_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
_ABORTED_ENTRY: Final = struct.Struct(">hqqqq")


def _plausible_header(content: Buffer, position: int) -> BatchHeader:
    header = read_header(content, position)
    if position + header.size > len(content):
        raise CorruptBatch(f"a batch of {header.size} bytes where {len(content) - position} remain")
    if header.base_offset < 0 or header.last_offset_delta < 0 or header.record_count < 0:
        raise CorruptBatch(f"offset {header.base_offset}, {header.record_count} records: no batch says that")
    return header


def _next_batch(content: Buffer, position: int) -> int:
    """Where the next batch begins whose checksum holds, or the end."""
    view = memoryview(content)
    end = len(view)
    while position + HEADER_SIZE <= end:
        # The magic byte is found fast; what it would be the magic of is looked at closely.
        chunk = bytes(view[position + _MAGIC_AT : position + _MAGIC_AT + _SEARCH_BYTES])
        found = chunk.find(_MAGIC_BYTE)
        if found < 0:
            position += max(len(chunk), 1)
            continue
        position += found
        try:
            header = _plausible_header(view, position)
        except CorruptBatch:
            position += 1
            continue
        if 0 <= header.attributes <= _ATTRIBUTES_MAX and crc_holds(view, position, header):
            return position
        position += 1
    return end


def _batch_row(content: Buffer, position: int, header: BatchHeader, *, with_records: bool) -> BatchRow:
    is_valid = crc_holds(content, position, header)
    records: tuple[RecordRow, ...] | None = None
    problem = None if is_valid else "the checksum does not hold"
    if with_records:
        with memoryview(content) as view:
            batch = bytes(view[position : position + header.size])
        try:
            records = _record_rows(batch, header)
        except CorruptBatch as error:
            problem = f"{problem}; {error}" if problem else str(error)
    return BatchRow(position=position, header=header, is_valid=is_valid, records=records, problem=problem)


def _record_rows(batch: bytes, header: BatchHeader) -> tuple[RecordRow, ...]:
    records = read_records(batch, max_bytes=_DECOMPRESSED_BYTES_MAX)
    marker = read_marker(batch) if header.is_control and records else None
    return tuple(
        RecordRow(
            record=record,
            sequence=NO_SEQUENCE
            if header.base_sequence < 0
            else sequence_after(header.base_sequence, record.offset - header.base_offset),
            timestamp_type=header.timestamp_type,
            marker=marker,
        )
        for record in records
    )


def _entries(content: Buffer, layout: struct.Struct) -> Iterator[tuple[int, int]]:
    """Entries up to the zeros that Kafka preallocates behind them."""
    whole = _whole(content, layout)
    for number, (first, second) in enumerate(layout.iter_unpack(whole)):
        if first == 0 and second == 0 and not any(whole[number * layout.size :]):
            return
        yield first, second


def _whole(content: Buffer, layout: struct.Struct) -> memoryview:
    return memoryview(content)[: len(content) // layout.size * layout.size]


def _rest(content: Buffer, layout: struct.Struct) -> Iterator[Damage]:
    rest = len(content) % layout.size
    if rest:
        yield Damage(
            position=len(content) - rest, size=rest, problem=f"{rest} bytes are no entry, which has {layout.size}"
        )


def _problem_of_offset_entry(log: Buffer, offset: Offset, position: int) -> str | None:
    if not 0 <= position < len(log):
        return f"the segment has {len(log)} bytes"
    try:
        header = _plausible_header(log, position)
    except CorruptBatch as error:
        return f"no batch there: {error}"
    # Kafka notes the last offset of an append and where it starts, and an append may be several batches.
    return None if header.last_offset <= offset else f"the batch there ends at offset {header.last_offset}"


def _largest_timestamps(log: Buffer) -> dict[Offset, int]:
    """For the last offset of every batch the largest timestamp so far."""
    largest = -1
    found: dict[Offset, int] = {}
    for row in dump_log(log):
        if isinstance(row, BatchRow):
            largest = max(largest, row.header.max_timestamp)
            found[row.header.last_offset] = largest
    return found
