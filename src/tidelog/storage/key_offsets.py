"""The last offset of every key in a stretch of log, within a bound on memory: what compaction decides by."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from tidelog.model import Offset

ENTRY_BYTES: Final = 200
"""What one key costs in memory, counted generously; `log.cleaner.dedupe.buffer.size` divided by it is the capacity."""

_DIGEST_BYTES: Final = 16


class KeyOffsets:
    """Keys up to 15 bytes stand for themselves, longer ones for a digest of 16 bytes, so the two never meet.

    Two keys of the same digest would be taken for one; at 128 bits that is rarer than the disk inventing a record.
    """

    __slots__ = ("_offsets", "capacity", "end_offset")

    def __init__(self, capacity: int, start_offset: Offset) -> None:
        self.capacity = max(capacity, 1)
        self.end_offset = start_offset
        """Every key below this offset is in the map."""
        self._offsets: dict[bytes, Offset] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def has_room_for(self, count: int) -> bool:
        """Whether that many new keys fit. An empty map takes anything: a batch is bounded, and compaction must get on."""
        return not self._offsets or len(self._offsets) + count <= self.capacity

    def note(self, key: bytes, offset: Offset) -> None:
        """A record with this key is at `offset`, later than all noted before."""
        self._offsets[_short(key)] = offset

    def is_newest(self, key: bytes, offset: Offset) -> bool:
        """Whether no later record with this key was noted."""
        return offset >= self._offsets.get(_short(key), offset)


def _short(key: bytes) -> bytes:
    return key if len(key) < _DIGEST_BYTES else blake2b(key, digest_size=_DIGEST_BYTES).digest()
