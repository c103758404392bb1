"""What is found in the files of a log: one row per batch, index entry, producer or checkpoint line, in the words of Kafka's dump tool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from tidelog.model import NO_SEQUENCE, Offset, TimestampType
from tidelog.records.batch import CODEC_MASK, BatchHeader, sequence_after
from tidelog.records.compression import Codec
from tidelog.records.control import Marker
from tidelog.records.record import Record
from tidelog.storage.checkpoints import EpochStart
from tidelog.storage.producer_snapshot import NO_TRANSACTION, SnapshotEntry
from tidelog.storage.transaction_index import AbortedEntry

Fact: TypeAlias = str | int | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Bytes that are not what the file should hold."""

    position: int
    size: int
    problem: str

    def facts(self) -> dict[str, Fact]:
        """The row in words."""
        return {"position": self.position, "size": self.size}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRow:
    """One record of a batch."""

    record: Record
    sequence: int
    timestamp_type: TimestampType
    marker: Marker | None = None
    problem: None = None

    def facts(self) -> dict[str, Fact]:
        """The row in Kafka's words, without key and payload, which may be no text."""
        record = self.record
        facts: dict[str, Fact] = {
            "offset": record.offset,
            _TIME_WORDS[self.timestamp_type]: record.timestamp_ms,
            "keySize": -1 if record.key is None else len(record.key),
            "valueSize": -1 if record.value is None else len(record.value),
            "sequence": self.sequence,
            "headerKeys": f"[{','.join(name for name, _ in record.headers)}]",
        }
        if self.marker is not None:
            facts |= {"endTxnMarker": self.marker.type.name, "coordinatorEpoch": self.marker.coordinator_epoch}
        return facts


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow:
    """One batch of a `.log` file; a problem with its records does not hide its header."""

    position: int
    header: BatchHeader
    is_valid: bool
    records: tuple[RecordRow, ...] | None = None
    problem: str | None = None

    def facts(self) -> dict[str, Fact]:
        """The row in Kafka's words and order."""
        header = self.header
        number = header.attributes & CODEC_MASK
        return {
            "baseOffset": header.base_offset,
            "lastOffset": header.last_offset,
            "count": header.record_count,
            "baseSequence": header.base_sequence,
            "lastSequence": header.last_sequence,
            "producerId": header.producer_id,
            "producerEpoch": header.producer_epoch,
            "partitionLeaderEpoch": header.leader_epoch,
            "isTransactional": header.is_transactional,
            "isControl": header.is_control,
            "deleteHorizonMs": header.base_timestamp if header.has_delete_horizon else None,
            "position": self.position,
            _TIME_WORDS[header.timestamp_type]: header.max_timestamp,
            "size": header.size,
            "magic": header.magic,
            "compresscodec": Codec(number).name.lower() if number in _CODEC_NUMBERS else f"unknown ({number})",
            "crc": header.crc,
            "isvalid": self.is_valid,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetIndexRow:
    """An entry of an `.index` file."""

    offset: Offset
    position: int
    problem: str | None = None

    def facts(self) -> dict[str, Fact]:
        """The row in Kafka's words."""
        return {"offset": self.offset, "position": self.position}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeIndexRow:
    """An entry of a `.timeindex` file."""

    timestamp_ms: int
    offset: Offset
    problem: str | None = None

    def facts(self) -> dict[str, Fact]:
        """The row in Kafka's words."""
        return {"timestamp": self.timestamp_ms, "offset": self.offset}


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedRow:
    """An entry of a `.txnindex` file."""

    entry: AbortedEntry
    problem: str | None = None

    def facts(self) -> dict[str, Fact]:
        """The row in Kafka's words."""
        entry = self.entry
        return {
            "version": entry.version,
            "producerId": entry.producer_id,
            "firstOffset": entry.first_offset,
            "lastOffset": entry.last_offset,
            "lastStableOffset": entry.last_stable_offset,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerRow:
    """A producer in a `.snapshot` file."""

    entry: SnapshotEntry
    problem: None = None

    def facts(self) -> dict[str, Fact]:
        """The row in Kafka's words."""
        entry = self.entry
        first_sequence = NO_SEQUENCE
        if entry.last_sequence >= 0:
            first_sequence = sequence_after(entry.last_sequence, -entry.offset_delta)
        return {
            "producerId": entry.producer_id,
            "producerEpoch": entry.producer_epoch,
            "coordinatorEpoch": entry.coordinator_epoch,
            "currentTxnFirstOffset": None
            if entry.transaction_first_offset == NO_TRANSACTION
            else entry.transaction_first_offset,
            "lastTimestamp": entry.timestamp_ms,
            "firstSequence": first_sequence,
            "lastSequence": entry.last_sequence,
            "lastOffset": entry.last_offset,
            "offsetDelta": entry.offset_delta,
            "timestamp": entry.timestamp_ms,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRow:
    """A line of a checkpoint of offsets."""

    topic: str
    partition: int
    offset: Offset
    problem: None = None

    def facts(self) -> dict[str, Fact]:
        """The row in words."""
        return {"topic": self.topic, "partition": self.partition, "offset": self.offset}


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRow:
    """A line of a `leader-epoch-checkpoint`."""

    entry: EpochStart
    problem: None = None

    def facts(self) -> dict[str, Fact]:
        """The row in words."""
        return {"leaderEpoch": self.entry.leader_epoch, "startOffset": self.entry.start_offset}


Row: TypeAlias = BatchRow | OffsetIndexRow | TimeIndexRow | AbortedRow | ProducerRow | CheckpointRow | EpochRow | Damage

_TIME_WORDS: Final = {TimestampType.CREATE_TIME: "CreateTime", TimestampType.LOG_APPEND_TIME: "LogAppendTime"}
_CODEC_NUMBERS: Final = frozenset(int(codec) for codec in Codec)
