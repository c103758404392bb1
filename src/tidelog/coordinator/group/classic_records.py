"""A classic group as a record: who is in it, and who has what. Kafka 4.1 writes version 3 of the value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidelog.coordinator.group.record_codec import (
    INT16,
    INT32,
    INT64,
    FieldReader,
    damage_is_malformed,
    key_of,
    open_value,
)
from tidelog.coordinator.machine import CoordinatorRecord
from tidelog.model import NO_TIMESTAMP, TimestampMs
from tidelog.wire.primitives import write_classic_string

CLASSIC_GROUP_KEY: Final = 2

_WRITTEN: Final = 3
_NEWEST: Final = 4
_COMPACT_SINCE: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberValue:
    """A member as it was when the assignment was made."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroupValue:
    """A generation of a group."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: TimestampMs
    members: tuple[ClassicMemberValue, ...]


def group_record(group_id: str, value: ClassicGroupValue | None) -> CoordinatorRecord:
    """A group as Kafka 4.1 writes it; a tombstone if there is no value."""
    return CoordinatorRecord(key_of(CLASSIC_GROUP_KEY, group_id), None if value is None else _group_value(value))


@damage_is_malformed
def read_group_value(value: bytes) -> ClassicGroupValue:
    """Reads every version there has been; what a version does not know is -1 or none."""
    version, fields = open_value(value, newest=_NEWEST, compact_since=_COMPACT_SINCE)
    group = ClassicGroupValue(
        protocol_type=fields.string(),
        generation=fields.int32(),
        protocol=fields.nullable_string(),
        leader=fields.nullable_string(),
        state_timestamp_ms=fields.int64() if version >= 2 else NO_TIMESTAMP,
        members=fields.array(lambda: _read_member(fields, version)),
    )
    fields.tagged()
    return group


def _read_member(fields: FieldReader, version: int) -> ClassicMemberValue:
    member_id = fields.string()
    instance_id = fields.nullable_string() if version >= 3 else None
    client_id, client_host = fields.string(), fields.string()
    rebalance_timeout_ms = fields.int32() if version >= 1 else None
    session_timeout_ms = fields.int32()
    member = ClassicMemberValue(
        member_id=member_id,
        instance_id=instance_id,
        client_id=client_id,
        client_host=client_host,
        # Before there were two timeouts, one served both purposes; Kafka reads such a record the same way.
        rebalance_timeout_ms=session_timeout_ms if rebalance_timeout_ms is None else rebalance_timeout_ms,
        session_timeout_ms=session_timeout_ms,
        subscription=fields.bytes_(),
        assignment=fields.bytes_(),
    )
    fields.tagged()
    return member


def _group_value(value: ClassicGroupValue) -> bytes:
    out = bytearray(INT16.pack(_WRITTEN))
    write_classic_string(out, value.protocol_type)
    out += INT32.pack(value.generation)
    write_classic_string(out, value.protocol)
    write_classic_string(out, value.leader)
    out += INT64.pack(value.state_timestamp_ms)
    out += INT32.pack(len(value.members))
    for member in value.members:
        _write_member(out, member)
    return bytes(out)


def _write_member(out: bytearray, member: ClassicMemberValue) -> None:
    write_classic_string(out, member.member_id)
    write_classic_string(out, member.instance_id)
    write_classic_string(out, member.client_id)
    write_classic_string(out, member.client_host)
    out += INT32.pack(member.rebalance_timeout_ms)
    out += INT32.pack(member.session_timeout_ms)
    for content in (member.subscription, member.assignment):
        out += INT32.pack(len(content))
        out += content
