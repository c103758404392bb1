"""Where the records of batches lie as the kernel reads them: in the fetched bytes, or decompressed in a buffer of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from tidelog.pipeline.codec import records_kernel as kernel
from tidelog.pipeline.codec.fetched_batches import FetchedBatches
from tidelog.pipeline.codec.records_kernel import Bytes, Int64s
from tidelog.records.batch import CODEC_MASK, CorruptBatch
from tidelog.records.compression import Codec, decompress

_RUN_BYTES: Final = 4 << 20  # decompressed at once; a batch that is larger is a run of its own


class Run(NamedTuple):
    """Batches that follow one another, whose records lie in one buffer."""

    data: Bytes
    batches: Int64s
    expanded_bytes: int
    """What decompression has cost of memory."""


def runs_of(found: FetchedBatches, batches: Int64s, batch_bytes_max: int) -> Iterator[Run]:
    """All batches in their order. Raises CorruptRecords for one that cannot be decompressed, or expands to more bytes than allowed."""
    is_plain = (batches[:, kernel.ATTRIBUTES] & CODEC_MASK) == Codec.NONE
    for piece in np.split(batches, np.flatnonzero(np.diff(is_plain)) + 1):
        if not len(piece):
            continue
        if piece[0, kernel.ATTRIBUTES] & CODEC_MASK:
            yield from _expanded(found, piece, batch_bytes_max)
        else:
            yield Run(found.data, piece, 0)


def _expanded(found: FetchedBatches, batches: Int64s, batch_bytes_max: int) -> Iterator[Run]:
    payloads: list[bytes | bytearray] = []
    size = done = 0
    for row in range(len(batches)):
        payloads.append(_decompressed(found, batches[row], batch_bytes_max))
        size += len(payloads[-1])
        if size > _RUN_BYTES or row == len(batches) - 1:
            yield _joined(payloads, batches[done : row + 1])
            payloads, size, done = [], 0, row + 1


def _decompressed(found: FetchedBatches, batch: Int64s, bytes_max: int) -> bytes | bytearray:
    try:
        number = int(batch[kernel.ATTRIBUTES]) & CODEC_MASK
        if number > max(Codec):
            raise CorruptBatch(f"unknown codec {number}")
        return decompress(Codec(number), found.payload(batch), max_bytes=bytes_max)
    except CorruptBatch as error:
        raise found.corrupt(batch, str(error)) from error


def _joined(payloads: list[bytes | bytearray], batches: Int64s) -> Run:
    sizes = np.array([len(payload) for payload in payloads], np.int64)
    moved = batches.copy()
    moved[:, kernel.END] = np.cumsum(sizes)
    moved[:, kernel.START] = moved[:, kernel.END] - sizes
    data = np.frombuffer(payloads[0] if len(payloads) == 1 else b"".join(payloads), np.uint8)
    data.flags.writeable = False  # as the fetched bytes are: for other types the compiler would make another kernel
    return Run(data, moved, data.size)
