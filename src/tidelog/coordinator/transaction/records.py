"""A transactional id as a record of `__transaction_state`, in Kafka's format.

Version 1 of the value is version 0 in compact fields, and has room for what versions 1 and 2 of the protocol remember. It is written as
soon as the cluster speaks one of them, and wherever version 0 would forget something.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from tidelog.coordinator.group.record_codec import (
    INT16,
    INT32,
    INT64,
    FieldReader,
    damage_is_malformed,
    key_of,
    open_key,
    open_value,
)
from tidelog.coordinator.machine import CoordinatorRecord
from tidelog.coordinator.transaction.partition_lists import PartitionLists
from tidelog.coordinator.transaction.states import TransactionState, TransactionStatus, TransactionVersion
from tidelog.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from tidelog.wire.errors import MalformedMessage
from tidelog.wire.primitives import write_uvarint

KEY_VERSION: Final = 0

_HEAD: Final = Struct(">hqhib")  # version, producer id, epoch, timeout, status
_TAIL: Final = Struct(">qq")  # last update, start
_COMPACT_SINCE: Final = 1
_NEWEST: Final = 1
_NULL: Final = -1

_RESERVED_FROM: Final = 4_096
"""Bytes from which on the record of an open transaction has all tags, so that the one that ends it is not larger.

One that just fits into a message could not be ended otherwise, neither by its producer nor by time.
"""

_PREVIOUS_ID: Final = 0
_NEXT_ID: Final = 1
_CLIENT_VERSION: Final = 2
_NEXT_EPOCH: Final = 3


class Remembered(NamedTuple):
    """What a record says of a transactional id; no state if the id is forgotten."""

    transactional_id: str
    state: TransactionState | None


def state_record(
    state: TransactionState, cluster: TransactionVersion, lists: PartitionLists | None = None
) -> CoordinatorRecord:
    """A record in the format that this version of transactions calls for. Who writes many keeps the lists of partitions."""
    is_compact = cluster >= TransactionVersion.ONE or _needs_tags(state)
    known = PartitionLists() if lists is None else lists
    value = _compact_value(state, known) if is_compact else _classic_value(state, known)
    return CoordinatorRecord(key_of(KEY_VERSION, state.transactional_id), value)


def tombstone(transactional_id: str) -> CoordinatorRecord:
    """The record that forgets an id."""
    return CoordinatorRecord(key_of(KEY_VERSION, transactional_id), None)


@damage_is_malformed
def read_record(record: CoordinatorRecord, lists: PartitionLists | None = None) -> Remembered:
    """What a record says. Who reads many keeps the lists of partitions. Raises MalformedRecord."""
    transactional_id = open_key(record.key, KEY_VERSION).string()
    known = PartitionLists() if lists is None else lists
    if record.value is None:
        known.forget(transactional_id)
        return Remembered(transactional_id, None)
    _, fields = open_value(record.value, newest=_NEWEST, compact_since=_COMPACT_SINCE)
    return Remembered(transactional_id, _read_state(transactional_id, fields, known))


# Writing.


def _needs_tags(state: TransactionState) -> bool:
    return state.client_version >= TransactionVersion.TWO or state.next_producer_id != NO_PRODUCER_ID


def _classic_value(state: TransactionState, lists: PartitionLists) -> bytes:
    out = bytearray(_HEAD.pack(0, *state.writer, state.timeout_ms, state.status))
    if state.status is TransactionStatus.EMPTY:
        out += INT32.pack(_NULL)
    else:
        out += lists.write(state.transactional_id, state.partitions, is_compact=False)
    return bytes(out + _TAIL.pack(state.last_update_ms, state.start_ms))


def _compact_value(state: TransactionState, lists: PartitionLists) -> bytes:
    out = bytearray(_HEAD.pack(1, *state.writer, state.timeout_ms, state.status))
    if state.status is TransactionStatus.EMPTY:
        out.append(0)
    else:
        out += lists.write(state.transactional_id, state.partitions, is_compact=True)
    out += _TAIL.pack(state.last_update_ms, state.start_ms)
    is_reserving = state.status is TransactionStatus.ONGOING and len(out) >= _RESERVED_FROM
    tagged = list(_tagged(state, has_all=is_reserving))
    write_uvarint(out, len(tagged))
    for tag, content in tagged:
        write_uvarint(out, tag)
        write_uvarint(out, len(content))
        out += content
    return bytes(out)


def _tagged(state: TransactionState, *, has_all: bool) -> Iterator[tuple[int, bytes]]:
    """What is not as nearly always, or all there is, in the order of the tags."""
    if has_all or state.previous_producer_id != NO_PRODUCER_ID:
        yield _PREVIOUS_ID, INT64.pack(state.previous_producer_id)
    if has_all or state.next_producer_id != NO_PRODUCER_ID:
        yield _NEXT_ID, INT64.pack(state.next_producer_id)
    if has_all or state.client_version != TransactionVersion.ZERO:
        yield _CLIENT_VERSION, INT16.pack(state.client_version)
    if has_all or state.next_producer_epoch != NO_PRODUCER_EPOCH:
        yield _NEXT_EPOCH, INT16.pack(state.next_producer_epoch)


# Reading.


def _read_state(transactional_id: str, fields: FieldReader, lists: PartitionLists) -> TransactionState:
    producer_id, epoch, timeout_ms = fields.int64(), fields.int16(), fields.int32()
    status = _status(fields.int8())
    partitions = lists.read(transactional_id, fields)
    last_update_ms, start_ms = fields.int64(), fields.int64()
    tagged = fields.tagged()
    return TransactionState(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=timeout_ms,
        status=status,
        partitions=partitions,
        start_ms=start_ms,
        last_update_ms=last_update_ms,
        previous_producer_id=_number(tagged, _PREVIOUS_ID, INT64, NO_PRODUCER_ID),
        next_producer_id=_number(tagged, _NEXT_ID, INT64, NO_PRODUCER_ID),
        next_producer_epoch=_number(tagged, _NEXT_EPOCH, INT16, NO_PRODUCER_EPOCH),
        client_version=_version(_number(tagged, _CLIENT_VERSION, INT16, TransactionVersion.ZERO)),
    )


def _status(number: int) -> TransactionStatus:
    try:
        status = TransactionStatus(number)
    except ValueError as error:
        raise MalformedMessage(f"status {number}") from error
    if status in {TransactionStatus.DEAD, TransactionStatus.PREPARE_EPOCH_FENCE}:
        raise MalformedMessage(f"status {number}, which nobody writes")
    return status


def _version(number: int) -> TransactionVersion:
    try:
        return TransactionVersion(number)
    except ValueError as error:
        raise MalformedMessage(f"version {number} of transactions") from error


def _number(tagged: dict[int, bytes], tag: int, layout: Struct, default: int) -> int:
    content = tagged.get(tag)
    return default if content is None else int(layout.unpack(content)[0])
