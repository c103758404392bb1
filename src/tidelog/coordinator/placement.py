"""Where a group lives: the partition of `__consumer_offsets` whose leader looks after it.

Every client, tool and broker of the Kafka world computes the same partition, so this follows Java to the letter.
"""

from __future__ import annotations

from typing import Final

_INT32_MASK: Final = 0xFFFF_FFFF
_INT32_MIN: Final = -(1 << 31)


def java_hash(text: str) -> int:
    """What `String.hashCode()` answers in Java: an int32 over the UTF-16 code units, so that an emoji counts as two."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H") if text else ()
    value = 0
    for unit in units:
        value = (31 * value + unit) & _INT32_MASK
    return value - (1 << 32) if value > 0x7FFF_FFFF else value


def partition_of(group_id: str, partition_count: int) -> int:
    """The partition of a group. The smallest int32, which Java cannot make positive, counts as 0."""
    value = java_hash(group_id)
    return 0 if value == _INT32_MIN else abs(value) % partition_count
