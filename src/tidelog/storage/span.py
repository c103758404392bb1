"""How many bytes lie between two offsets, without reading them."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.model import Offset
from tidelog.storage.segment import Segment


def bytes_between(segments: Sequence[Segment], start_offset: Offset, end_offset: Offset) -> int:
    """Bytes of the batches from the one that holds `start_offset` up to the one that holds `end_offset`, which is not counted.

    Where a place is not known from memory the index and a few batch headers tell, as for a read. Raises CorruptBatch.
    """
    total = 0
    for number in range(len(segments) - 1, -1, -1):
        segment = segments[number]
        if segment.base_offset >= end_offset:
            continue
        end = segment.locate(end_offset)
        total += segment.size if end is None else end
        if segment.base_offset <= start_offset:
            start = segment.locate(start_offset)
            return total - (segment.size if start is None else start)
    return total
