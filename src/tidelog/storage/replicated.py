"""What a follower looks at before it stores the bytes of its leader: rot must not spread (D10)."""

from __future__ import annotations

from tidelog.model import ApiError, ErrorCode
from tidelog.records.batch import BatchHeader, CorruptBatch, crc_holds, headers
from tidelog.runtime.disk import Buffer


def check_replicated(data: Buffer) -> list[tuple[int, BatchHeader]]:
    """Position and header of every whole batch; half a batch at the end is left out. Raises ApiError CORRUPT_MESSAGE."""
    try:
        batches = list(headers(data))
    except CorruptBatch as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    next_offset = 0
    for position, header in batches:
        if not crc_holds(data, position, header):
            raise ApiError(
                ErrorCode.CORRUPT_MESSAGE, f"the checksum of the batch at offset {header.base_offset} does not hold"
            )
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"offset {header.base_offset} comes after {next_offset - 1}")
        next_offset = header.next_offset
    return batches
