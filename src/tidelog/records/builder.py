"""Making a batch, record by record."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.model import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    invariant,
)
from tidelog.records.batch import HEADER_SIZE, MAGIC, TRANSACTIONAL_BIT, BatchHeader, write_batch
from tidelog.records.compression import Codec, compress
from tidelog.records.record import RecordHeader, encode_record


class RecordBatchBuilder:
    """Collects records with offset deltas 0, 1, 2... and writes them out as one batch, as often as wanted."""

    def __init__(
        self,
        *,
        codec: Codec = Codec.NONE,
        compression_level: int | None = None,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
    ) -> None:
        self.record_count = 0
        self.codec = codec
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.is_transactional = is_transactional
        self._compression_level = compression_level
        self._payload = bytearray()
        self._base_timestamp = NO_TIMESTAMP
        self._max_timestamp = NO_TIMESTAMP

    @property
    def size_bytes(self) -> int:
        """Size of the batch as it stands, before compression."""
        return HEADER_SIZE + len(self._payload)

    def append(
        self, *, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Sequence[RecordHeader] = ()
    ) -> None:
        """Add one record."""
        if self.record_count == 0:
            self._base_timestamp = self._max_timestamp = timestamp_ms
        elif timestamp_ms > self._max_timestamp:
            self._max_timestamp = timestamp_ms
        self._payload += encode_record(self.record_count, timestamp_ms - self._base_timestamp, key, value, headers)
        self.record_count += 1

    def build(self, base_offset: int = 0, leader_epoch: int = NO_LEADER_EPOCH) -> bytearray:
        """The batch as bytes; a client leaves offset and leader epoch to the leader."""
        invariant(self.record_count > 0, "a batch is built of at least one record")
        header = BatchHeader(
            base_offset=base_offset,
            length=0,
            leader_epoch=leader_epoch,
            magic=MAGIC,
            crc=0,
            attributes=self.codec | (TRANSACTIONAL_BIT if self.is_transactional else 0),
            last_offset_delta=self.record_count - 1,
            base_timestamp=self._base_timestamp,
            max_timestamp=self._max_timestamp,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            record_count=self.record_count,
        )
        if self.codec is Codec.NONE:
            return write_batch(header, self._payload)
        return write_batch(header, compress(self.codec, self._payload, self._compression_level))
