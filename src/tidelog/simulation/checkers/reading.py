"""Reading a whole log, so that what cannot be read is told: a checker that meets an end too early has compared nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tidelog.model import ApiError, Offset
from tidelog.records import headers
from tidelog.records.batch import BatchHeader, CorruptBatch
from tidelog.runtime import StorageFailure
from tidelog.storage import PartitionLog

_READ_BYTES: Final = 1 << 20


class Unreadable(Exception):
    """A log does not give what it claims to hold; the message says where and why."""


class Chunk(NamedTuple):
    """Some whole batches of a log, and what comes after them."""

    data: bytes
    next_offset: Offset


def chunks_of(log: PartitionLog) -> Iterator[Chunk]:
    """All of a log from its start to its end. Raises Unreadable where no whole batch is, unless compaction has taken the last ones."""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        try:
            data = log.read(offset, max_bytes=_READ_BYTES, end_offset=log.log_end_offset)
            if not data and log.config.is_compacted:
                return
            found = [(position, header) for position, header in headers(data) if position + header.size <= len(data)]
        except (ApiError, CorruptBatch, StorageFailure) as error:
            raise Unreadable(f"at offset {offset} of {log.log_end_offset}: {error!r}") from error
        if not found or found[-1][1].next_offset <= offset:
            raise Unreadable(f"at offset {offset} of {log.log_end_offset}: no whole batch comes")
        position, header = found[-1]
        offset = header.next_offset
        yield Chunk(data[: position + header.size], offset)


def batches_of(log: PartitionLog) -> Iterator[tuple[BatchHeader, bytes]]:
    """The same, batch by batch."""
    for chunk in chunks_of(log):
        for position, header in headers(chunk.data):
            yield header, chunk.data[position : position + header.size]
