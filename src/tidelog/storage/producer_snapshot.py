"""The producer snapshot file: what a log knows of its producers, up to (excluding) the offset in the file's name."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from crc32c import crc32c

from tidelog.model import NO_OFFSET, Offset, ProducerEpoch, ProducerId, TimestampMs


class DamagedSnapshot(Exception):
    """The bytes are no snapshot; an older one is taken instead."""


class SnapshotEntry(NamedTuple):
    """One producer. Of its last batches only the newest is kept, so a restart forgets how to recognise retries of older ones."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    last_sequence: int
    last_offset: Offset
    offset_delta: int
    timestamp_ms: TimestampMs
    coordinator_epoch: int
    transaction_first_offset: Offset
    """First offset of the open transaction, or -1."""


def encode_snapshot(entries: Sequence[SnapshotEntry]) -> bytes:
    """The whole file."""
    body = b"".join([_COUNT.pack(len(entries)), *(_ENTRY.pack(*entry) for entry in entries)])
    return _PREFIX.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(content: bytes) -> list[SnapshotEntry]:
    """The twin of `encode_snapshot`; raises DamagedSnapshot."""
    if len(content) < _PREFIX.size + _COUNT.size:
        raise DamagedSnapshot(f"{len(content)} bytes are too few")
    version, crc = _PREFIX.unpack_from(content)
    if version != _VERSION:
        raise DamagedSnapshot(f"version {version} is not {_VERSION}")
    body = memoryview(content)[_PREFIX.size :]
    if crc32c(body) != crc:
        raise DamagedSnapshot("the checksum does not hold")
    (count,) = _COUNT.unpack_from(body)
    if len(body) != _COUNT.size + count * _ENTRY.size:
        raise DamagedSnapshot(f"{len(body)} bytes do not hold {count} producers")
    return [SnapshotEntry._make(fields) for fields in _ENTRY.iter_unpack(body[_COUNT.size :])]


_VERSION: Final = 1
_PREFIX: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")

NO_TRANSACTION: Final = NO_OFFSET
