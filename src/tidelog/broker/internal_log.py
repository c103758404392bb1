"""A partition that this broker leads, as the coordinators see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidelog.broker.replica_manager import ReplicaManager
from tidelog.coordinator import CoordinatorRecord
from tidelog.coordinator.internal_log import TransactionEnd
from tidelog.model import (
    NO_OFFSET,
    NO_TIMESTAMP,
    ApiError,
    ErrorCode,
    Offset,
    ProducerIdentity,
    TimestampMs,
)
from tidelog.partition import Partition
from tidelog.records import Codec, RecordBatchBuilder, Validated, read_header
from tidelog.runtime import StorageFailure


@dataclass(frozen=True, slots=True)
class LedLog:
    """One replica for as long as it leads without a break: two of the same reign are the same."""

    replicas: ReplicaManager
    partition: Partition
    reign: int
    codec: Codec = Codec.NONE

    @property
    def start_offset(self) -> Offset:
        """Where the log begins."""
        return self.partition.log.log_start_offset

    @property
    def end_offset(self) -> Offset:
        """Where it ends, committed or not."""
        return self.partition.log.log_end_offset

    @property
    def committed_offset(self) -> Offset:
        """The high watermark; -1 once the reign is over."""
        try:
            self.partition.check_reign(self.reign)
        except ApiError:
            return NO_OFFSET
        return self.partition.high_watermark

    @property
    def batch_bytes_max(self) -> int:
        """As the topic is set: a message may be no larger, and a segment has to hold it."""
        config = self.partition.log.config
        return min(config.max_message_bytes, config.segment_bytes)

    def append(
        self,
        records: Sequence[CoordinatorRecord],
        *,
        now_ms: TimestampMs,
        producer: ProducerIdentity | None = None,
    ) -> Offset:
        """Append with acks=all, so nothing is written that too few replicas would hold. Raises ApiError.

        What is written in a producer's name belongs to its transaction, and has sequence 0 as in Kafka: nobody counts it.
        """
        self.partition.check_reign(self.reign)
        builder = self._builder(producer)
        for key, value in records:
            builder.append(timestamp_ms=now_ms, key=key, value=value)
        batch = builder.build()
        config = self.partition.log.config
        if len(batch) > config.max_message_bytes:
            raise ApiError(
                ErrorCode.MESSAGE_TOO_LARGE, f"{len(batch)} bytes, where {config.max_message_bytes} are allowed"
            )
        if len(batch) > config.segment_bytes:
            raise ApiError(ErrorCode.RECORD_LIST_TOO_LARGE, f"{len(batch)} bytes do not fit in a segment")
        # Our own batch needs no validation: it has keys, and was compressed as the topic has it.
        return self.replicas.append_own(self.partition, Validated(batch, read_header(batch), NO_TIMESTAMP)).base_offset

    def _builder(self, producer: ProducerIdentity | None) -> RecordBatchBuilder:
        if producer is None:
            return RecordBatchBuilder(codec=self.codec)
        producer_id, producer_epoch = producer
        return RecordBatchBuilder(
            codec=self.codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )

    def append_marker(self, end: TransactionEnd, *, now_ms: TimestampMs) -> Offset:
        """Append with acks=all how a transaction ended that has records here. Raises ApiError."""
        self.partition.check_reign(self.reign)
        _, appended = self.replicas.append_marker(self.partition.topic_partition, end)
        return appended.last_offset

    def read(self, offset: Offset, *, max_bytes: int) -> bytes:
        """Whatever the log holds. Raises ApiError."""
        self.partition.check_reign(self.reign)
        try:
            return self.partition.log.read(offset, max_bytes=max_bytes, end_offset=self.end_offset)
        except StorageFailure as failure:
            raise self.replicas.storage_error(self.partition.topic_partition, failure) from failure
