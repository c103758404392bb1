"""Transaction markers: control batches of one record that decide a producer's open transaction (KIP-98)."""

from __future__ import annotations

import enum
import struct
from typing import Final, NamedTuple

from tidelog.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_SIZE,
    TRANSACTIONAL_BIT,
    CorruptBatch,
    new_header,
    read_header,
    write_batch,
)
from tidelog.records.record import encode_record, read_records
from tidelog.runtime.disk import Buffer


class MarkerType(enum.IntEnum):
    """What a control record says. UNKNOWN stands for all types that readers must pass over, such as those of KRaft."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1


class Marker(NamedTuple):
    """The decision of a transaction, and the epoch of the coordinator that took it (-1 for an unknown type)."""

    type: MarkerType
    coordinator_epoch: int


def build_marker(
    marker_type: MarkerType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
) -> bytearray:
    """A marker batch; like client batches it gets its offset and leader epoch when it is appended."""
    header = new_header(
        attributes=TRANSACTIONAL_BIT | CONTROL_BIT,
        last_offset_delta=0,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        record_count=1,
    )._replace(producer_id=producer_id, producer_epoch=producer_epoch)
    return write_batch(
        header, encode_record(0, 0, _KEY.pack(_VERSION, marker_type), _VALUE.pack(_VERSION, coordinator_epoch))
    )


def read_marker(batch: Buffer) -> Marker:
    """The marker in a control batch. Raises CorruptBatch, also for a control batch that compaction has emptied."""
    header = read_header(batch)
    if header.size == len(batch) == _USUAL_SIZE and header.record_count == 1 and not header.attributes & CODEC_MASK:
        marker = _read_usual(batch)
        if marker is not None:
            return marker
    records = read_records(batch, max_bytes=_CONTROL_BYTES_MAX)
    if not records:
        raise CorruptBatch("the control batch holds no record")
    record = records[0]
    if record.key is None or len(record.key) < _KEY.size:
        raise CorruptBatch(f"the control record at offset {record.offset} has no whole key")
    version, type_number = _KEY.unpack_from(record.key)
    if version < 0:
        raise CorruptBatch(f"control record key version {version} at offset {record.offset}")
    if type_number not in (MarkerType.ABORT, MarkerType.COMMIT):
        return Marker(MarkerType.UNKNOWN, -1)
    # Later versions append fields to the value; the prefix keeps its meaning.
    if record.value is None or len(record.value) < _VALUE.size:
        raise CorruptBatch(f"the transaction marker at offset {record.offset} has no whole value")
    version, coordinator_epoch = _VALUE.unpack_from(record.value)
    if version < 0:
        raise CorruptBatch(f"transaction marker version {version} at offset {record.offset}")
    return Marker(MarkerType(type_number), coordinator_epoch)


def _read_usual(batch: Buffer) -> Marker | None:
    """The marker where it is laid out as everybody writes it; None where one has to look closer. Every replica reads every marker."""
    fields = _USUAL.unpack_from(batch, HEADER_SIZE)
    opening, version, type_number, value_length, value_version, coordinator_epoch, header_count = fields
    if opening != _USUAL_OPENING or value_length != _USUAL_VALUE_LENGTH or version or value_version or header_count:
        return None
    marker_type = _USUAL_TYPES.get(type_number)
    return None if marker_type is None else Marker(marker_type, coordinator_epoch)


_VERSION: Final = 0
_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
# A record of two fields without a header, in lengths of one byte each: its own, three zeros, the key's, the key, the value's, the value.
_USUAL: Final = struct.Struct(">5shhBhiB")
_USUAL_SIZE: Final = HEADER_SIZE + _USUAL.size
_USUAL_OPENING: Final = bytes((2 * (_USUAL.size - 1), 0, 0, 0, 2 * _KEY.size))
_USUAL_VALUE_LENGTH: Final = 2 * _VALUE.size
_USUAL_TYPES: Final = {0: MarkerType.ABORT, 1: MarkerType.COMMIT}
_CONTROL_BYTES_MAX: Final = 1 << 20
