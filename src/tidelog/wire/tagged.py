"""Tagged fields (KIP-482): the section that ends every struct of a flexible version.

A count, then a tag, a size and a value each, in ascending order of tags. Tags that we do not know are skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tidelog.wire.elements import TAGS_MAX
from tidelog.wire.errors import MalformedMessage
from tidelog.wire.primitives import read_uvarint, write_uvarint

T = TypeVar("T")


def skip_tagged_fields(data: memoryview, position: int) -> int:
    """The position after a section none of whose fields we know."""
    return position + 1 if data[position] == 0 else read_tagged_fields(data, position, below=0)[1]


def read_tagged_fields(data: memoryview, position: int, *, below: int) -> tuple[dict[int, memoryview], int]:
    """The bytes of every field whose tag is less than `below`, and the position after the section.

    Tags ascend, so none comes twice and no more than `below` are kept.
    """
    known: dict[int, memoryview] = {}
    count, position = read_uvarint(data, position)
    if count > TAGS_MAX:
        raise MalformedMessage(f"{count} tagged fields at byte {position}, where {TAGS_MAX} are accepted")
    previous_tag = -1
    for _ in range(count):
        tag, start = read_uvarint(data, position)
        if tag <= previous_tag:
            raise MalformedMessage(f"tag {tag} at byte {position} follows tag {previous_tag}")
        size, start = read_uvarint(data, start)
        if size > len(data) - start:
            raise MalformedMessage(f"tag {tag} at byte {position} has {size} bytes, where {len(data) - start} remain")
        position = start + size
        if tag < below:
            known[tag] = data[start:position]
        previous_tag = tag
    return known, position


def read_tag_value(read: Callable[[memoryview, int], tuple[T, int]], value: memoryview) -> T:
    """The value of a tagged field, which fills the size given for it."""
    decoded, end = read(value, 0)
    if end != len(value):
        raise MalformedMessage(f"a tagged field has {len(value)} bytes, of which {end} are its value")
    return decoded


def write_tag(section: bytearray, tag: int, value: bytes | bytearray) -> None:
    """Append one field to a section whose count is written before it."""
    write_uvarint(section, tag)
    write_uvarint(section, len(value))
    section += value
