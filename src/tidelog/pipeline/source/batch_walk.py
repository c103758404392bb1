"""How far the whole batches of fetched bytes reach: enough to fetch on before anybody has decoded them."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from tidelog.model import Offset, TopicPartition
from tidelog.pipeline.source.errors import ReadStuck
from tidelog.records.batch import HEADER_SIZE, LENGTH_OVERHEAD
from tidelog.wire.primitives import Buffer

_BEGINNING: Final = struct.Struct(">qi")  # base offset, length
_LAST_OFFSET_DELTA: Final = struct.Struct(">i")
_LAST_OFFSET_DELTA_AT: Final = 23


class Walked(NamedTuple):
    """What whole batches there are."""

    next_offset: Offset  # after the last of them; where the fetch began if there is none
    size: int


def walk(data: Buffer, topic_partition: TopicPartition, fetch_offset: Offset) -> Walked:
    """Step from batch to batch. Raises ReadStuck where that leads nowhere; what is in the batches is for the decoder to check."""
    position, last = 0, -1
    size = len(data)
    while size - position >= HEADER_SIZE:
        _, length = _BEGINNING.unpack_from(data, position)
        if length < HEADER_SIZE - LENGTH_OVERHEAD:
            raise ReadStuck(topic_partition, f"a batch of {length} bytes came at offset {fetch_offset} or after it")
        if position + LENGTH_OVERHEAD + length > size:
            break
        last = position
        position += LENGTH_OVERHEAD + length
    if last < 0:
        return Walked(fetch_offset, 0)
    base_offset, _ = _BEGINNING.unpack_from(data, last)
    (delta,) = _LAST_OFFSET_DELTA.unpack_from(data, last + _LAST_OFFSET_DELTA_AT)
    if delta < 0 or base_offset + delta < fetch_offset:
        raise ReadStuck(
            topic_partition, f"asked for offset {fetch_offset}, a broker sent a batch up to {base_offset + delta}"
        )
    return Walked(base_offset + delta + 1, position)
