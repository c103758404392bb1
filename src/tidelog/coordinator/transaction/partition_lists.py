"""The partitions of a transaction as its records name them: topics in order, each with its indexes.

All records of a transaction say the same of that, but for those that add something. So a machine keeps what was written or read last of every
id that has one: a transaction of a hundred partitions is put into bytes when it grows, and not again when it is decided.
"""

from __future__ import annotations

from itertools import groupby
from struct import Struct
from typing import NamedTuple

from tidelog.coordinator.group.record_codec import INT32, FieldReader
from tidelog.model import TopicPartition
from tidelog.wire.primitives import write_classic_string, write_compact_string, write_uvarint


class _Known(NamedTuple):
    """Partitions, and the bytes that stand for them."""

    partitions: tuple[TopicPartition, ...]
    content: bytes
    is_compact: bool


class PartitionLists:
    """Writes and reads lists, and remembers the last one of each transactional id; nothing of an id whose list is empty.

    What is remembered only saves work: bytes are taken for the ones that are known if they are the same, and begin at the same field.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def __len__(self) -> int:
        """How many ids are remembered: those whose last record has partitions."""
        return len(self._known)

    def write(self, transactional_id: str, partitions: tuple[TopicPartition, ...], *, is_compact: bool) -> bytes:
        """The bytes of a list."""
        known = self._known.get(transactional_id)
        if known is not None and known.partitions is partitions and known.is_compact is is_compact:
            return known.content
        content = _compact(partitions) if is_compact else _classic(partitions)
        self._remember(transactional_id, _Known(partitions, content, is_compact))
        return content

    def read(self, transactional_id: str, fields: FieldReader) -> tuple[TopicPartition, ...]:
        """The list that comes next, in order, whatever the order it was written in. Raises one of DAMAGE."""
        known = self._known.get(transactional_id)
        if known is not None and known.is_compact is fields.is_compact and fields.passed(known.content):
            return known.partitions
        begin = fields.position
        partitions = _read(fields)
        self._remember(transactional_id, _Known(partitions, fields.since(begin), fields.is_compact))
        return partitions

    def forget(self, transactional_id: str) -> None:
        """There is no such id any more."""
        self._known.pop(transactional_id, None)

    def _remember(self, transactional_id: str, known: _Known) -> None:
        if known.partitions:
            self._known[transactional_id] = known
        else:
            self._known.pop(transactional_id, None)


def _classic(partitions: tuple[TopicPartition, ...]) -> bytes:
    topics = _by_topic(partitions)
    out = bytearray(INT32.pack(len(topics)))
    for topic, indexes in topics:
        write_classic_string(out, topic)
        out += INT32.pack(len(indexes)) + _indexes(indexes)
    return bytes(out)


def _compact(partitions: tuple[TopicPartition, ...]) -> bytes:
    topics = _by_topic(partitions)
    out = bytearray()
    write_uvarint(out, len(topics) + 1)
    for topic, indexes in topics:
        write_compact_string(out, topic)
        write_uvarint(out, len(indexes) + 1)
        out += _indexes(indexes)
        out.append(0)  # no tagged fields
    return bytes(out)


def _by_topic(partitions: tuple[TopicPartition, ...]) -> list[tuple[str, list[int]]]:
    return [(topic, [index for _, index in group]) for topic, group in groupby(partitions, key=_topic)]


def _topic(partition: TopicPartition) -> str:
    return partition.topic


def _indexes(indexes: list[int]) -> bytes:
    return Struct(f">{len(indexes)}i").pack(*indexes)


def _read(fields: FieldReader) -> tuple[TopicPartition, ...]:
    def read_topic() -> list[TopicPartition]:
        topic, indexes = fields.string(), fields.int32_array()
        fields.tagged()
        return [TopicPartition(topic, index) for index in indexes]

    topics = fields.nullable_array(read_topic) or ()
    return tuple(dict.fromkeys(sorted(partition for topic in topics for partition in topic)))
