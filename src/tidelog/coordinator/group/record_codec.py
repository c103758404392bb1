"""Reading and writing the fields of Kafka's records of groups; damage shows as one exception.

Keys have classic fields, values of KIP-848 compact ones, and older values come in both. A cursor is told at the start which of the two
its bytes use. What is hot (committed offsets) does without it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from struct import Struct, error, unpack_from
from typing import Final, ParamSpec, TypeVar

from tidelog.coordinator.machine import MalformedRecord
from tidelog.model import TopicId
from tidelog.wire.errors import MalformedMessage
from tidelog.wire.primitives import (
    read_classic_count,
    read_classic_length,
    read_classic_nullable_count,
    read_classic_nullable_string,
    read_compact_count,
    read_compact_length,
    read_compact_nullable_count,
    read_compact_nullable_string,
    read_uuid,
    read_uvarint,
    write_classic_string,
    write_compact_string,
    write_uuid,
    write_uvarint,
)

INT8: Final = Struct(">b")
INT16: Final = Struct(">h")
INT32: Final = Struct(">i")
INT64: Final = Struct(">q")
NO_TOPIC_ID: Final = TopicId(int=0)

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")
_Element = TypeVar("_Element")

DAMAGE: Final = (error, IndexError, UnicodeDecodeError, MalformedMessage)
"""What running into wrong bytes raises on the way."""


def damage_is_malformed(read: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Have a reading function raise MalformedRecord for whatever is wrong with the bytes."""

    @wraps(read)
    def reading(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        try:
            return read(*args, **kwargs)
        except DAMAGE as failure:
            raise MalformedRecord(f"{read.__name__}: {failure}") from failure

    return reading


class FieldReader:
    """Takes one field after the other. Raises one of DAMAGE if there is none."""

    __slots__ = ("_data", "_position", "is_compact")

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = memoryview(data)
        self._position = 0
        self.is_compact = False

    @property
    def position(self) -> int:
        """How many bytes lie before the next field."""
        return self._position

    def since(self, begin: int) -> bytes:
        """What was read from a position on."""
        return bytes(self._data[begin : self._position])

    def passed(self, content: bytes) -> bool:
        """Go past these bytes if they come next; whether they do."""
        end = self._position + len(content)
        if self._data[self._position : end] != content:
            return False
        self._position = end
        return True

    def int8(self) -> int:
        """A byte with a sign."""
        return self._number(INT8)

    def int16(self) -> int:
        """Two bytes, big-endian."""
        return self._number(INT16)

    def int32(self) -> int:
        """Four bytes, big-endian."""
        return self._number(INT32)

    def int64(self) -> int:
        """Eight bytes, big-endian."""
        return self._number(INT64)

    def nullable_string(self) -> str | None:
        """Text, or none."""
        read = read_compact_nullable_string if self.is_compact else read_classic_nullable_string
        text, self._position = read(self._data, self._position)
        return text

    def string(self) -> str:
        """Text that must be there."""
        text = self.nullable_string()
        if text is None:
            raise MalformedMessage(f"a null string before byte {self._position}")
        return text

    def bytes_(self) -> bytes:
        """Bytes that must be there."""
        read = read_compact_length if self.is_compact else read_classic_length
        length, start = read(self._data, self._position)
        if length < 0:
            raise MalformedMessage(f"null bytes at byte {self._position}")
        self._position = start + length
        return bytes(self._data[start : self._position])

    def uuid(self) -> TopicId:
        """The id of a topic."""
        identifier, self._position = read_uuid(self._data, self._position)
        return NO_TOPIC_ID if identifier is None else identifier

    def array(self, read_element: Callable[[], _Element]) -> tuple[_Element, ...]:
        """As many elements as it says there are, which never are more than there are bytes."""
        read = read_compact_count if self.is_compact else read_classic_count
        count, self._position = read(self._data, self._position, element_size=1)
        return tuple(read_element() for _ in range(count))

    def nullable_array(self, read_element: Callable[[], _Element]) -> tuple[_Element, ...] | None:
        """The same, or none."""
        read = read_compact_nullable_count if self.is_compact else read_classic_nullable_count
        count, self._position = read(self._data, self._position, element_size=1)
        return None if count < 0 else tuple(read_element() for _ in range(count))

    def int32_array(self) -> tuple[int, ...]:
        """Numbers of four bytes, all at once."""
        read = read_compact_count if self.is_compact else read_classic_count
        count, start = read(self._data, self._position, element_size=INT32.size)
        self._position = start + count * INT32.size
        return unpack_from(f">{count}i", self._data, start)

    def tagged(self) -> dict[int, bytes]:
        """The tagged fields that end a compact structure, unread; classic ones have none."""
        if not self.is_compact:
            return {}
        count, self._position = read_uvarint(self._data, self._position)
        fields: dict[int, bytes] = {}
        for _ in range(count):
            tag, self._position = read_uvarint(self._data, self._position)
            size, start = read_uvarint(self._data, self._position)
            self._position = start + size
            if self._position > len(self._data):
                raise MalformedMessage(f"a tagged field of {size} bytes at byte {start} is cut short")
            fields[tag] = bytes(self._data[start : self._position])
        return fields

    def _number(self, layout: Struct) -> int:
        (value,) = layout.unpack_from(self._data, self._position)
        self._position += layout.size
        return int(value)


def open_value(value: bytes, *, newest: int, compact_since: int) -> tuple[int, FieldReader]:
    """The version of a value and a reader behind it; versions that nobody has written yet are damage."""
    fields = FieldReader(value)
    version = fields.int16()
    if not 0 <= version <= newest:
        raise MalformedMessage(f"a value of version {version}, where {newest} is the newest")
    fields.is_compact = version >= compact_since
    return version, fields


def open_key(key: bytes, *versions: int) -> FieldReader:
    """A reader behind the version of a key, which must be one of `versions`."""
    fields = FieldReader(key)
    version = fields.int16()
    if version not in versions:
        raise MalformedMessage(f"a key of version {version}")
    return fields


def key_of(version: int, *texts: str) -> bytes:
    """A key made of strings."""
    out = bytearray(INT16.pack(version))
    for text in texts:
        write_classic_string(out, text)
    return bytes(out)


def write_strings(out: bytearray, texts: tuple[str, ...]) -> None:
    """Append a compact array of strings."""
    write_uvarint(out, len(texts) + 1)
    for text in texts:
        write_compact_string(out, text)


def write_bytes(out: bytearray, content: bytes) -> None:
    """Append compact bytes."""
    write_uvarint(out, len(content) + 1)
    out += content


def write_partitions(out: bytearray, topic_id: TopicId, partitions: tuple[int, ...]) -> None:
    """Append the structure that names a topic and some of its partitions."""
    write_uuid(out, topic_id)
    write_uvarint(out, len(partitions) + 1)
    for partition in partitions:
        out += INT32.pack(partition)
    out.append(0)  # no tagged fields
