"""Walking over the batches of a segment file, in small reads and without looking into them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from tidelog.model import Offset
from tidelog.records.batch import HEADER_SIZE, LENGTH_OVERHEAD, BatchHeader, CorruptBatch, read_header
from tidelog.runtime import File

_PEEK: Final = struct.Struct(">qi11xi")  # base offset, length, last offset delta
_LENGTH_MIN: Final = HEADER_SIZE - LENGTH_OVERHEAD
_LOCATE_CHUNK: Final = 8 << 10
_HEADER_CHUNK: Final = 64 << 10
_BATCH_CHUNK: Final = 1 << 20


class ScannedBatch(NamedTuple):
    """A whole batch met on a walk."""

    position: int
    header: BatchHeader
    data: memoryview


def locate(file: File, position: int, end: int, offset: Offset) -> int | None:
    """Position of the first batch from the boundary `position` on whose last offset is `offset` or later; None if there is none before `end`.

    Raises CorruptBatch where the bytes are no batch.
    """
    while position < end:
        chunk = file.pread(position, min(_LOCATE_CHUNK, end - position))
        limit = len(chunk) - _PEEK.size
        if limit < 0:
            raise CorruptBatch(f"{len(chunk)} bytes at {position} of {file.path} are no batch")
        at = 0
        while at <= limit:
            base_offset, length, last_offset_delta = _PEEK.unpack_from(chunk, at)
            if length < _LENGTH_MIN or last_offset_delta < 0:
                raise CorruptBatch(f"no batch at {position + at} of {file.path}")
            if base_offset + last_offset_delta >= offset:
                return position + at
            at += LENGTH_OVERHEAD + length
        position += at
    return None


def scan_headers(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every batch in [position, end), both boundaries. Raises CorruptBatch where there is none, or half of one."""
    while position < end:
        chunk = file.pread(position, min(_HEADER_CHUNK, end - position))
        at = 0
        while at < end - position and (at == 0 or at + HEADER_SIZE <= len(chunk)):
            header = _header_at(chunk, at, position, end, file.path)
            yield position + at, header
            at += header.size
        position += at


def scan_batches(file: File, position: int, end: int) -> Iterator[ScannedBatch]:
    """Every batch in [position, end) with its bytes, checksums unchecked. Raises CorruptBatch where there is none, or half of one."""
    while position < end:
        chunk = memoryview(file.pread(position, min(_BATCH_CHUNK, end - position)))
        at = 0
        while at < len(chunk):
            if at and at + HEADER_SIZE > len(chunk) and position + len(chunk) < end:
                break
            header = _header_at(chunk, at, position, end, file.path)
            if at + header.size > len(chunk):
                if at:
                    break
                chunk = memoryview(file.pread(position, header.size))
                if len(chunk) < header.size:
                    raise CorruptBatch(f"the batch at {position} of {file.path} ends beyond the file")
            yield ScannedBatch(position + at, header, chunk[at : at + header.size])
            at += header.size
        position += at


def read_batch(file: File, position: int, header: BatchHeader) -> bytes:
    """The bytes of the batch at `position`."""
    data = file.pread(position, header.size)
    if len(data) < header.size:
        raise CorruptBatch(f"the batch at {position} of {file.path} ends beyond the file")
    return data


def _header_at(chunk: bytes | memoryview, at: int, position: int, end: int, path: str) -> BatchHeader:
    header = read_header(chunk, at)
    if header.last_offset_delta < 0 or header.base_offset < 0:
        raise CorruptBatch(f"the batch at {position + at} of {path} has offsets that cannot be")
    if position + at + header.size > end:
        raise CorruptBatch(f"the batch at {position + at} of {path} ends beyond the file")
    return header
