"""Which partition a record goes to: by key as every Kafka client does it, or sticky where there is no key (KIP-480)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

from tidelog.runtime import Randomness

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition of a keyed record, equal to what the Java client computes."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2 (org.apache.kafka.common.utils.Utils.murmur2), as an unsigned integer."""
    length = len(data)
    whole = length & ~3
    state = _SEED ^ length
    for (word,) in _words(data, whole):
        word = word * _MULTIPLIER & _MASK
        word ^= word >> 24
        state = (state * _MULTIPLIER & _MASK) ^ (word * _MULTIPLIER & _MASK)
    if whole != length:
        state = (state ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    state = (state ^ state >> 13) * _MULTIPLIER & _MASK
    return state ^ state >> 15


class StickyPartitioner:
    """Keeps keyless records of a topic on one partition until its batch is full, then moves on at random.

    Fewer, fuller batches than round robin, and over time every partition gets as many batches as the others.
    """

    def __init__(self, randomness: Randomness) -> None:
        self._randomness = randomness
        self._current: dict[str, int] = {}

    def current(self, topic: str) -> int | None:
        """Where the topic's keyless records go at present; None before the first."""
        return self._current.get(topic)

    def move_on(self, topic: str, partitions: Sequence[int]) -> int:
        """Pick the partition of the topic's next batch, another one than the last where there is another.

        `partitions` are those that have a leader; never empty.
        """
        last = self._current.get(topic)
        others = [partition for partition in partitions if partition != last] or list(partitions)
        chosen = others[self._randomness.below(len(others))]
        self._current[topic] = chosen
        return chosen


def _words(data: bytes, whole: int) -> Iterator[tuple[int]]:
    return struct.iter_unpack("<I", memoryview(data)[:whole])
