"""The keys of committed offsets as bytes: a partition of a million of them is loaded without decoding one.

A key is its version (int16), the group, the topic and the partition. What follows the group is called its slot here: keys of
versions 0 and 1 with the same group and the same slot are the same offset.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.coordinator.machine import CoordinatorRecord, MalformedRecord
from tidelog.model import TopicPartition

KEY_VERSION: Final = b"\x00\x01"
STRING_BYTES_MAX: Final = 2**15 - 1  # the length of a string in a key is an int16
_PARTITION_BYTES: Final = 4


class RawKey(NamedTuple):
    """A group and a topic partition."""

    group: bytes
    slot: bytes


def join_key(group: bytes, slot: bytes) -> bytes:
    """The key as it is written today."""
    return b"%b%b%b%b" % (KEY_VERSION, len(group).to_bytes(2, "big"), group, slot)


def check_key(key: RawKey) -> None:
    """Whether these bytes name a group, a topic and a partition. Raises MalformedRecord."""
    check_slot(key.slot)
    _check_text(key.group)


def check_slot(slot: bytes) -> None:
    """Whether these bytes are a topic and a partition. Raises MalformedRecord."""
    if len(slot) < _PARTITION_BYTES + 2 or len(slot) != (slot[0] << 8 | slot[1]) + 2 + _PARTITION_BYTES:
        raise MalformedRecord(f"a key of an offset ends with {slot[:64]!r}, which is no topic and partition")
    _check_text(topic_of(slot))


def _check_text(name: bytes) -> None:
    try:
        name.decode()
    except UnicodeDecodeError as failure:
        raise MalformedRecord(f"a key of an offset has {name[:64]!r} where a name should be") from failure


def slot_of(topic: str, partition: int) -> bytes:
    """The slot of a topic partition; empty, which is no slot, if no key can hold its name."""
    name = topic.encode()
    if len(name) > STRING_BYTES_MAX:
        return b""
    return b"%b%b%b" % (len(name).to_bytes(2, "big"), name, partition.to_bytes(_PARTITION_BYTES, "big", signed=True))


def read_slot(slot: bytes) -> TopicPartition:
    """The topic partition of a slot."""
    return TopicPartition(topic_of(slot).decode(), int.from_bytes(slot[-_PARTITION_BYTES:], "big", signed=True))


def topic_of(slot: bytes) -> bytes:
    """The name of its topic."""
    return slot[2:-_PARTITION_BYTES]


def tombstone(group: bytes, slot: bytes) -> CoordinatorRecord:
    """The record that forgets an offset."""
    return CoordinatorRecord(join_key(group, slot), None)
