"""What classic members tell each other through the coordinator, which does not look inside: subscriptions and assignments.

Written as Java's consumer writes them (version 3), read as leniently as it reads them: a newer version is read as far as we know it, and
whatever follows is ignored. So groups of different clients understand each other.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from tidelog.model import TopicPartition
from tidelog.wire.errors import MalformedMessage
from tidelog.wire.primitives import (
    INT16,
    INT32,
    read_classic_count,
    read_classic_length,
    read_classic_nullable_string,
    read_classic_string,
    write_classic_length,
    write_classic_string,
)

T = TypeVar("T")

NO_GENERATION: Final = -1
VERSION_MAX: Final = 3

_OWNED_FROM: Final = 1
_GENERATION_FROM: Final = 2
_RACK_FROM: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What one member wants and has. `generation` is the one in which it got `owned`."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberAssignment:
    """What the leader gives to one member."""

    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None


def write_subscription(subscription: Subscription, *, version: int = VERSION_MAX) -> bytes:
    """The metadata of a JoinGroup protocol."""
    out = bytearray(INT16.pack(version))
    topics = sorted(subscription.topics)
    write_classic_length(out, topics)
    for topic in topics:
        write_classic_string(out, topic)
    _write_bytes(out, subscription.user_data)
    if version >= _OWNED_FROM:
        write_partitions(out, subscription.owned)
    if version >= _GENERATION_FROM:
        out += INT32.pack(subscription.generation)
    if version >= _RACK_FROM:
        write_classic_string(out, subscription.rack)
    return bytes(out)


def read_subscription(data: bytes) -> Subscription:
    """Raises MalformedMessage."""
    return _read(_read_subscription, data)


def write_assignment(assignment: MemberAssignment, *, version: int = VERSION_MAX) -> bytes:
    """What SyncGroup carries to a member."""
    out = bytearray(INT16.pack(version))
    write_partitions(out, assignment.partitions)
    _write_bytes(out, assignment.user_data)
    return bytes(out)


def read_assignment(data: bytes) -> MemberAssignment:
    """No bytes, which a member gets that the leader left out, are an assignment of nothing. Raises MalformedMessage."""
    return _read(_read_assignment, data) if data else MemberAssignment(partitions=())


def write_partitions(out: bytearray, partitions: Iterable[TopicPartition]) -> None:
    """Append an array of topics with their partitions, both in order."""
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        by_topic.setdefault(topic, []).append(index)
    write_classic_length(out, by_topic)
    for topic, indexes in by_topic.items():
        write_classic_string(out, topic)
        write_classic_length(out, indexes)
        out += struct.pack(f">{len(indexes)}i", *indexes)


def read_partitions(data: memoryview, position: int) -> tuple[tuple[TopicPartition, ...], int]:
    """The array, and where it ends. Raises MalformedMessage, struct.error."""
    count, position = read_classic_count(data, position, element_size=6)
    partitions: list[TopicPartition] = []
    for _ in range(count):
        topic, position = read_classic_string(data, position)
        index_count, position = read_classic_count(data, position, element_size=4)
        indexes = struct.unpack_from(f">{index_count}i", data, position)
        position += 4 * index_count
        partitions += [TopicPartition(topic, index) for index in indexes]
    return tuple(partitions), position


def _read(reader: Callable[[memoryview], T], data: bytes) -> T:
    try:
        return reader(memoryview(data))
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedMessage(f"not a consumer's metadata: {error}") from None


def _read_subscription(data: memoryview) -> Subscription:
    version, position = _read_version(data)
    count, position = read_classic_count(data, position, element_size=2)
    topics = []
    for _ in range(count):
        topic, position = read_classic_string(data, position)
        topics.append(topic)
    user_data, position = _read_bytes(data, position)
    owned: tuple[TopicPartition, ...] = ()
    generation, rack = NO_GENERATION, None
    if version >= _OWNED_FROM:
        owned, position = read_partitions(data, position)
    if version >= _GENERATION_FROM:
        (generation,) = INT32.unpack_from(data, position)
        position += 4
    if version >= _RACK_FROM:
        rack, position = read_classic_nullable_string(data, position)
    return Subscription(topics=tuple(topics), user_data=user_data, owned=owned, generation=generation, rack=rack)


def _read_assignment(data: memoryview) -> MemberAssignment:
    _, position = _read_version(data)
    partitions, position = read_partitions(data, position)
    user_data, _ = _read_bytes(data, position)
    return MemberAssignment(partitions=partitions, user_data=user_data)


def _read_version(data: memoryview) -> tuple[int, int]:
    (version,) = INT16.unpack_from(data, 0)
    if version < 0:
        raise MalformedMessage(f"version {version} of a consumer's metadata")
    return version, 2


def _write_bytes(out: bytearray, data: bytes | None) -> None:
    write_classic_length(out, data)
    out += data or b""


def _read_bytes(data: memoryview, position: int) -> tuple[bytes | None, int]:
    length, start = read_classic_length(data, position)
    if length < 0:
        return None, start
    return bytes(data[start : start + length]), start + length
