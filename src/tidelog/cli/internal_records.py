"""Records of internal topics as Kafka 4.1's formatters print them: one JSON object per line, records of other kinds not at all."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Final

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


def offset_line(record: ShownRecord) -> bytes:
    """A committed offset, or its tombstone."""
    if key_version(record.key or b"") not in {LEGACY_OFFSET_KEY, OFFSET_KEY}:
        return b""
    return _line(record, _offset_key_fields, _offset_fields)


def group_line(record: ShownRecord) -> bytes:
    """A classic group, or its tombstone."""
    if key_version(record.key or b"") != CLASSIC_GROUP_KEY:
        return b""
    return _line(record, lambda key: {"group": read_group_key(key)}, _group_fields)


def transaction_line(record: ShownRecord) -> bytes:
    """A transactional id, or its tombstone."""
    key = record.key or b""
    if key_version(key) != TRANSACTION_KEY:
        return b""

    def key_fields(_key: bytes) -> dict[str, object]:
        return {"transactionalId": read_record(CoordinatorRecord(key, None)).transactional_id}

    def value_fields(value: bytes, _version: int) -> dict[str, object]:
        return _transaction_fields(read_record(CoordinatorRecord(key, value)).state)

    return _line(record, key_fields, value_fields)


FORMATTERS: Final[dict[str, Callable[[ShownRecord], bytes]]] = {
    "offsets": offset_line,
    "group-metadata": group_line,
    "transactions": transaction_line,
}


def _line(
    record: ShownRecord,
    key_fields: Callable[[bytes], dict[str, object]],
    value_fields: Callable[[bytes, int], dict[str, object]],
) -> bytes:
    key, value = record.key or b"", record.value
    shown: dict[str, object] = {
        "key": {"type": key_version(key), "data": _read(lambda: key_fields(key))},
        "value": None,
    }
    if value is not None:
        version = key_version(value)
        shown["value"] = {"version": version, "data": _read(lambda: value_fields(value, version))}
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _read(read: Callable[[], dict[str, object]]) -> dict[str, object] | str:
    try:
        return read()
    except MalformedRecord:
        return _UNREADABLE


def _offset_key_fields(key: bytes) -> dict[str, object]:
    group_id, topic, partition = read_offset_key(key)
    return {"group": group_id, "topic": topic, "partition": partition}


def _offset_fields(value: bytes, version: int) -> dict[str, object]:
    committed = read_committed_offset(value)
    fields: dict[str, object] = {"offset": committed.offset}
    if version >= 3:
        fields["leaderEpoch"] = committed.leader_epoch
    fields |= {"metadata": committed.metadata, "commitTimestamp": committed.commit_ms}
    if version == 1:
        fields["expireTimestamp"] = committed.expire_ms
    if committed.topic_id is not None:
        fields["topicId"] = base64.urlsafe_b64encode(committed.topic_id.bytes).decode().rstrip("=")
    return fields


def _group_fields(value: bytes, version: int) -> dict[str, object]:
    group = read_group_value(value)
    fields: dict[str, object] = {
        "protocolType": group.protocol_type,
        "generation": group.generation,
        "protocol": group.protocol,
        "leader": group.leader,
    }
    if version >= 2:
        fields["currentStateTimestamp"] = group.state_timestamp_ms
    return fields | {"members": [_member_fields(member, version) for member in group.members]}


def _member_fields(member: ClassicMemberValue, version: int) -> dict[str, object]:
    fields: dict[str, object] = {"memberId": member.member_id}
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


def _transaction_fields(state: TransactionState | None) -> dict[str, object]:
    if state is None:
        raise MalformedRecord("a value that says nothing")
    topics: dict[str, list[int]] = {}
    for topic, index in state.partitions:
        topics.setdefault(topic, []).append(index)
    partitions = [{"topic": topic, "partitionIds": indexes} for topic, indexes in topics.items()]
    fields: dict[str, object] = {
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
