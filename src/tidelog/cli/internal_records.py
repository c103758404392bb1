"""Records of internal topics, one line each, records of other kinds not at all: for people as Kafka printed them up to version 3, for
machines as the JSON that Kafka 4.1's formatters print."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from tidelog.cli.internal_lines import group_text, offset_text, transaction_text
from tidelog.cli.shown_record import ShownRecord
from tidelog.coordinator.group.records import (
    CLASSIC_GROUP_KEY,
    LEGACY_OFFSET_KEY,
    OFFSET_KEY,
    ClassicMemberValue,
    MalformedRecord,
    key_version,
    read_committed_offset,
    read_group_key,
    read_group_value,
    read_offset_key,
)
from tidelog.coordinator.machine import CoordinatorRecord
from tidelog.coordinator.transaction.records import KEY_VERSION as TRANSACTION_KEY
from tidelog.coordinator.transaction.records import read_record
from tidelog.coordinator.transaction.states import TransactionState, TransactionStatus, TransactionVersion
from tidelog.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

_UNREADABLE: Final = "unknown"  # what stands for the data of a value that cannot be read

_NEVER: Final = object()
_LEFT_OUT: Final[dict[str, object]] = {  # tagged fields are not written, nor printed, where they say nothing
    "previousProducerId": NO_PRODUCER_ID,
    "nextProducerId": NO_PRODUCER_ID,
    "nextProducerEpoch": NO_PRODUCER_EPOCH,
    "clientTransactionVersion": int(TransactionVersion.ZERO),
}


Fields: TypeAlias = dict[str, Any]  # of JSON
Data: TypeAlias = Fields | str  # _UNREADABLE, where the bytes say nothing


def offset_fields(record: ShownRecord) -> Fields | None:
    """A committed offset, or its tombstone."""
    if key_version(record.key or b"") not in {LEGACY_OFFSET_KEY, OFFSET_KEY}:
        return None
    return _fields(record, _offset_key_fields, _offset_fields)


def group_fields(record: ShownRecord) -> Fields | None:
    """A classic group, or its tombstone."""
    if key_version(record.key or b"") != CLASSIC_GROUP_KEY:
        return None
    return _fields(record, lambda key: {"group": read_group_key(key)}, _group_fields)


def transaction_fields(record: ShownRecord) -> Fields | None:
    """A transactional id, or its tombstone."""
    key = record.key or b""
    if key_version(key) != TRANSACTION_KEY:
        return None

    def key_fields(_key: bytes) -> Fields:
        return {"transactionalId": read_record(CoordinatorRecord(key, None)).transactional_id}

    def value_fields(value: bytes, _version: int) -> Fields:
        return _transaction_fields(read_record(CoordinatorRecord(key, value)).state)

    return _fields(record, key_fields, value_fields)


_FORMATTERS: Final[dict[str, tuple[Callable[[ShownRecord], Fields | None], Callable[[Data, Data | None], str]]]] = {
    "offsets": (offset_fields, offset_text),
    "group-metadata": (group_fields, group_text),
    "transactions": (transaction_fields, transaction_text),
}


def formatter(name: str, *, is_json: bool) -> Callable[[ShownRecord], bytes]:
    """What prints the records of one kind, and nothing for others."""
    fields_of, text_of = _FORMATTERS[name]

    def line(record: ShownRecord) -> bytes:
        fields = fields_of(record)
        if fields is None:
            return b""
        if is_json:
            return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        value = fields["value"]
        return text_of(fields["key"]["data"], None if value is None else value["data"]).encode() + b"\n"

    return line


def _fields(
    record: ShownRecord, key_fields: Callable[[bytes], Fields], value_fields: Callable[[bytes, int], Fields]
) -> Fields:
    key, value = record.key or b"", record.value
    shown: Fields = {"key": {"type": key_version(key), "data": _read(lambda: key_fields(key))}, "value": None}
    if value is not None:
        version = key_version(value)
        shown["value"] = {"version": version, "data": _read(lambda: value_fields(value, version))}
    return shown


def _read(read: Callable[[], Fields]) -> Data:
    try:
        return read()
    except MalformedRecord:
        return _UNREADABLE


def _offset_key_fields(key: bytes) -> Fields:
    group_id, topic, partition = read_offset_key(key)
    return {"group": group_id, "topic": topic, "partition": partition}


def _offset_fields(value: bytes, version: int) -> Fields:
    committed = read_committed_offset(value)
    fields: Fields = {"offset": committed.offset}
    if version >= 3:
        fields["leaderEpoch"] = committed.leader_epoch
    fields |= {"metadata": committed.metadata, "commitTimestamp": committed.commit_ms}
    if version == 1:
        fields["expireTimestamp"] = committed.expire_ms
    if committed.topic_id is not None:
        fields["topicId"] = base64.urlsafe_b64encode(committed.topic_id.bytes).decode().rstrip("=")
    return fields


def _group_fields(value: bytes, version: int) -> Fields:
    group = read_group_value(value)
    fields: Fields = {
        "protocolType": group.protocol_type,
        "generation": group.generation,
        "protocol": group.protocol,
        "leader": group.leader,
    }
    if version >= 2:
        fields["currentStateTimestamp"] = group.state_timestamp_ms
    return fields | {"members": [_member_fields(member, version) for member in group.members]}


def _member_fields(member: ClassicMemberValue, version: int) -> Fields:
    fields: Fields = {"memberId": member.member_id}
    if version >= 3:
        fields["groupInstanceId"] = member.instance_id
    fields |= {"clientId": member.client_id, "clientHost": member.client_host}
    if version >= 1:
        fields["rebalanceTimeout"] = member.rebalance_timeout_ms
    return fields | {
        "sessionTimeout": member.session_timeout_ms,
        "subscription": base64.b64encode(member.subscription).decode(),
        "assignment": base64.b64encode(member.assignment).decode(),
    }


def _transaction_fields(state: TransactionState | None) -> Fields:
    if state is None:
        raise MalformedRecord("a value that says nothing")
    topics: dict[str, list[int]] = {}
    for topic, index in state.partitions:
        topics.setdefault(topic, []).append(index)
    partitions = [{"topic": topic, "partitionIds": indexes} for topic, indexes in topics.items()]
    fields: Fields = {
        "producerId": state.producer_id,
        "previousProducerId": state.previous_producer_id,
        "nextProducerId": state.next_producer_id,
        "producerEpoch": state.producer_epoch,
        "nextProducerEpoch": state.next_producer_epoch,
        "transactionTimeoutMs": state.timeout_ms,
        "transactionStatus": int(state.status),
        "transactionPartitions": None if state.status is TransactionStatus.EMPTY else partitions,
        "transactionLastUpdateTimestampMs": state.last_update_ms,
        "transactionStartTimestampMs": state.start_ms,
        "clientTransactionVersion": int(state.client_version),
    }
    return {name: value for name, value in fields.items() if _LEFT_OUT.get(name, _NEVER) != value}
