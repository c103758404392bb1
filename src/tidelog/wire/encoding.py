"""The two ways of writing what has no fixed size, as interchangeable values.

A version of an API is either classic throughout or flexible throughout; picking one of these at the start of a message
leaves only real differences between versions to be branched on.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Final, NamedTuple, Protocol

from tidelog.wire import primitives
from tidelog.wire.tagged import skip_tagged_fields


class ReadCount(Protocol):
    """Reads a count that is bounded by the bytes that remain."""

    def __call__(self, data: memoryview, position: int, *, element_size: int) -> tuple[int, int]:
        """The count, and the position after it."""
        ...


class Encoding(NamedTuple):
    """How strings, bytes, arrays and the ends of structs are read and written. A tuple for quick access."""

    is_flexible: bool
    read_string: Callable[[memoryview, int], tuple[str, int]]
    read_nullable_string: Callable[[memoryview, int], tuple[str | None, int]]
    read_length: Callable[[memoryview, int], tuple[int, int]]
    read_count: ReadCount
    read_nullable_count: ReadCount
    skip_tags: Callable[[memoryview, int], int]
    write_string: Callable[[bytearray, str | None], None]
    write_length: Callable[[bytearray, Sized | None], None]
    no_tags: bytes  # what ends a struct that has nothing to tag


def _nothing_to_skip(data: memoryview, position: int) -> int:
    del data
    return position


CLASSIC: Final = Encoding(
    is_flexible=False,
    read_string=primitives.read_classic_string,
    read_nullable_string=primitives.read_classic_nullable_string,
    read_length=primitives.read_classic_length,
    read_count=primitives.read_classic_count,
    read_nullable_count=primitives.read_classic_nullable_count,
    skip_tags=_nothing_to_skip,
    write_string=primitives.write_classic_string,
    write_length=primitives.write_classic_length,
    no_tags=b"",
)

FLEXIBLE: Final = Encoding(
    is_flexible=True,
    read_string=primitives.read_compact_string,
    read_nullable_string=primitives.read_compact_nullable_string,
    read_length=primitives.read_compact_length,
    read_count=primitives.read_compact_count,
    read_nullable_count=primitives.read_compact_nullable_count,
    skip_tags=skip_tagged_fields,
    write_string=primitives.write_compact_string,
    write_length=primitives.write_compact_length,
    no_tags=b"\0",
)


def encoding_of(*, is_flexible: bool) -> Encoding:
    """Compact types with tagged sections, or classic types without."""
    return FLEXIBLE if is_flexible else CLASSIC
