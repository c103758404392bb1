"""Committed offsets as records: the most frequent ones by far, hence read and written by hand.

Kafka 4.1 writes version 4 of the value, and version 1 where the client asked for a retention of its own. The others are read.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from tidelog.coordinator.group.record_codec import DAMAGE, NO_TOPIC_ID, FieldReader
from tidelog.coordinator.machine import CoordinatorRecord, MalformedRecord
from tidelog.model import NO_TIMESTAMP, LeaderEpoch, Offset, TimestampMs, TopicId
from tidelog.wire.errors import MalformedMessage, UnencodableMessage
from tidelog.wire.primitives import CLASSIC_STRING_BYTES_MAX, write_uvarint

LEGACY_OFFSET_KEY: Final = 0  # written by Kafka 0.8, and read as the other
OFFSET_KEY: Final = 1

_NEWEST_VALUE: Final = 4
_KEY_HEAD: Final = Struct(">hh")  # version, length of the group id
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_OLD_HEAD: Final = Struct(">hqh")  # version 0 to 2: offset, length of metadata
_OLD_TAIL: Final = Struct(">q")  # commit time
_EXPIRING_TAIL: Final = Struct(">qq")  # version 1: commit time, expiry
_EPOCH_HEAD: Final = Struct(">hqih")  # version 3: offset, leader epoch, length of metadata
_COMPACT_HEAD: Final = Struct(">hqi")  # version 4: offset, leader epoch
_COMPACT_TAIL: Final = Struct(">qb")  # commit time, number of tagged fields
_LEADER_EPOCH_UNKNOWN: Final = -1
_TOPIC_ID_TAG: Final = 0
_TOPIC_ID_FIELD: Final = b"\x00\x10"  # tag 0, 16 bytes


class OffsetKey(NamedTuple):
    """Whose position, and where."""

    group_id: str
    topic: str
    partition: int


class CommittedOffset(NamedTuple):
    """A position of a group in a partition: the next record it wants."""

    offset: Offset
    leader_epoch: LeaderEpoch  # of the record before; -1 if the client did not say
    metadata: str
    commit_ms: TimestampMs
    expire_ms: TimestampMs = NO_TIMESTAMP  # only where the client asked for a retention of its own
    topic_id: TopicId | None = None  # none where nobody here knew the topic


def offset_record(key: OffsetKey, value: CommittedOffset | None) -> CoordinatorRecord:
    """A commit as Kafka 4.1 writes it; a tombstone if there is no value."""
    return CoordinatorRecord(_offset_key(key), None if value is None else _offset_value(value))


def read_offset_key(key: bytes) -> OffsetKey:
    """Reads version 0 and 1, which look the same."""
    try:
        version, group_size = _KEY_HEAD.unpack_from(key)
        group_end = 4 + group_size
        (topic_size,) = _INT16.unpack_from(key, group_end)
        topic_end = group_end + 2 + topic_size
        (partition,) = _INT32.unpack_from(key, topic_end)
        if group_size < 0 or topic_size < 0 or not LEGACY_OFFSET_KEY <= version <= OFFSET_KEY:
            raise MalformedRecord(f"a key of an offset of version {version} with lengths {group_size} and {topic_size}")
        return OffsetKey(str(key[4:group_end], "utf-8"), str(key[group_end + 2 : topic_end], "utf-8"), partition)
    except DAMAGE as failure:
        raise MalformedRecord(f"a key of an offset: {failure}") from failure


def read_committed_offset(value: bytes) -> CommittedOffset:
    """Reads every version there has been."""
    try:
        (version,) = _INT16.unpack_from(value)
        if version == _NEWEST_VALUE:
            return _read_compact(value)
        if version == 3:
            _, offset, leader_epoch, size = _EPOCH_HEAD.unpack_from(value)
            start = _EPOCH_HEAD.size
        elif 0 <= version < 3:
            _, offset, size = _OLD_HEAD.unpack_from(value)
            leader_epoch, start = _LEADER_EPOCH_UNKNOWN, _OLD_HEAD.size
        else:
            raise MalformedRecord(f"a committed offset of version {version}, where {_NEWEST_VALUE} is the newest")
        if size < 0:
            raise MalformedRecord(f"a committed offset with metadata of {size} bytes")
        metadata = str(value[start : start + size], "utf-8")
        if version != 1:
            return CommittedOffset(offset, leader_epoch, metadata, *_OLD_TAIL.unpack_from(value, start + size))
        commit_ms, expire_ms = _EXPIRING_TAIL.unpack_from(value, start + size)
        return CommittedOffset(offset, leader_epoch, metadata, commit_ms, expire_ms)
    except DAMAGE as failure:
        raise MalformedRecord(f"a committed offset: {failure}") from failure


def _offset_key(key: OffsetKey) -> bytes:
    group, topic = key.group_id.encode(), key.topic.encode()
    if len(group) > CLASSIC_STRING_BYTES_MAX or len(topic) > CLASSIC_STRING_BYTES_MAX:
        raise UnencodableMessage(f"no record can name a group of {len(group)} and a topic of {len(topic)} bytes")
    head = _KEY_HEAD.pack(OFFSET_KEY, len(group))
    return b"".join((head, group, _INT16.pack(len(topic)), topic, _INT32.pack(key.partition)))


def _offset_value(value: CommittedOffset) -> bytes:
    metadata = value.metadata.encode()
    if value.expire_ms != NO_TIMESTAMP:
        head = _OLD_HEAD.pack(1, value.offset, len(metadata))
        return b"".join((head, metadata, _EXPIRING_TAIL.pack(value.commit_ms, value.expire_ms)))
    out = bytearray(_COMPACT_HEAD.pack(_NEWEST_VALUE, value.offset, value.leader_epoch))
    write_uvarint(out, len(metadata) + 1)
    out += metadata
    if value.topic_id is None:
        out += _COMPACT_TAIL.pack(value.commit_ms, 0)
    else:
        out += _COMPACT_TAIL.pack(value.commit_ms, 1)
        out += _TOPIC_ID_FIELD
        out += value.topic_id.bytes
    return bytes(out)


def _read_compact(value: bytes) -> CommittedOffset:
    _, offset, leader_epoch = _COMPACT_HEAD.unpack_from(value)
    size = value[14]
    end = 14 + size
    if 0 < size < 0x80:  # nearly always: short metadata, and no tagged field
        commit_ms, tagged_count = _COMPACT_TAIL.unpack_from(value, end)
        if not tagged_count:
            return CommittedOffset(offset, leader_epoch, str(value[15:end], "utf-8"), commit_ms)
    fields = FieldReader(memoryview(value)[14:])
    fields.is_compact = True
    metadata, commit_ms, topic_id = fields.string(), fields.int64(), fields.tagged().get(_TOPIC_ID_TAG)
    if topic_id is None:
        return CommittedOffset(offset, leader_epoch, metadata, commit_ms)
    if len(topic_id) != 16:
        raise MalformedMessage(f"the id of a topic has {len(topic_id)} bytes")
    identifier = TopicId(bytes=topic_id)
    return CommittedOffset(
        offset, leader_epoch, metadata, commit_ms, topic_id=None if identifier == NO_TOPIC_ID else identifier
    )
