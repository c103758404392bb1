"""What one fetch brought of one partition, read batch by batch as records are taken. Pure.

Fetched bytes begin with the batch that contains the wanted offset, may end within a batch, and hold control batches and aborted records
that are not to be handed out. Headers are read on arrival, to know where the next fetch begins; records only when somebody takes them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tidelog.client.aborted import AbortedFilter, AbortedTransaction
from tidelog.client.errors import CorruptRecords
from tidelog.model import (
    NO_LEADER_EPOCH,
    IsolationLevel,
    LeaderEpoch,
    Offset,
    TimestampMs,
    TimestampType,
    TopicPartition,
)
from tidelog.records.batch import BatchHeader, CorruptBatch, crc_holds, headers
from tidelog.records.control import MarkerType, read_marker
from tidelog.records.record import Record, RecordHeader, read_records
from tidelog.wire.primitives import Buffer


class ConsumedRecord(NamedTuple):
    """A record as a consumer gets it. A tuple because one is made for every record."""

    topic_partition: TopicPartition
    offset: Offset
    timestamp_ms: TimestampMs
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...]
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingRules:
    """How fetched bytes are read."""

    isolation_level: IsolationLevel
    checks_crcs: bool
    batch_bytes_max: int  # after decompression


class FetchedRecords:
    """A buffer of whole batches with a position that only moves forward."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        data: Buffer,
        *,
        fetch_offset: Offset,
        aborted: Iterable[AbortedTransaction],
        rules: ReadingRules,
    ) -> None:
        self.topic_partition = topic_partition
        self.next_offset = fetch_offset
        """The offset after the last record taken or skipped: where a consumer stands that took all so far."""
        self.end_offset = fetch_offset
        """Where the next fetch begins."""
        self.last_epoch: LeaderEpoch = NO_LEADER_EPOCH
        """The leader epoch of the last batch, which is of the record before the next fetch; unknown where there is no batch."""
        self.size_bytes = len(data)
        self._data = memoryview(data)
        self._rules = rules
        self._filter = AbortedFilter(aborted if rules.isolation_level is IsolationLevel.READ_COMMITTED else ())
        self._batches: deque[tuple[int, BatchHeader]] = deque()
        self._records: deque[Record] = deque()
        self._current: BatchHeader | None = None
        self._damage: CorruptRecords | None = None
        self._scan()

    @property
    def is_exhausted(self) -> bool:
        """Whether nothing is left to take, and nothing to complain about."""
        return self._current is None and not self._batches and self._damage is None

    def take(self, count_max: int) -> list[ConsumedRecord]:
        """Up to so many records, in order. Raises CorruptRecords, every time, once the first batch left is damaged."""
        taken: list[ConsumedRecord] = []
        while len(taken) < count_max:
            if self._current is not None:
                self._take_from_batch(self._current, count_max, taken)
            elif self._batches:
                try:
                    self._open_next_batch()
                except CorruptRecords as damage:
                    self._damage = damage
                    self._batches.clear()
            elif self._damage is not None and not taken:
                raise self._damage
            else:
                break
        return taken

    def _scan(self) -> None:
        """Find the batches, and where they end."""
        try:
            for position, header in headers(self._data):
                if header.next_offset > self.next_offset:
                    self._batches.append((position, header))
                    self.end_offset = header.next_offset
                    self.last_epoch = header.leader_epoch
        except CorruptBatch as error:
            self._damage = CorruptRecords(self.topic_partition, self.end_offset, str(error))
        if self.size_bytes and not self._batches and self._damage is None:
            reason = f"{self.size_bytes} fetched bytes hold no whole batch at or after offset {self.next_offset}"
            self._damage = CorruptRecords(self.topic_partition, self.next_offset, reason)

    def _open_next_batch(self) -> None:
        """Read the next batch, or step over it."""
        position, header = self._batches.popleft()
        batch = self._data[position : position + header.size]
        try:
            self._check(position, header)
            if self._is_for_the_reader(batch, header):
                self._records.extend(read_records(batch, max_bytes=self._rules.batch_bytes_max))
        except CorruptBatch as error:
            raise CorruptRecords(
                self.topic_partition, header.base_offset, str(error), next_offset=header.next_offset
            ) from error
        self._current = header
        while self._records and self._records[0].offset < self.next_offset:
            self._records.popleft()
        self._finish_batch_if_empty(header)

    def _check(self, position: int, header: BatchHeader) -> None:
        if self._rules.checks_crcs and not crc_holds(self._data, position, header):
            raise CorruptBatch("the checksum does not hold")

    def _is_for_the_reader(self, batch: Buffer, header: BatchHeader) -> bool:
        if header.is_control:
            is_abort = header.record_count > 0 and read_marker(batch).type is MarkerType.ABORT
            self._filter.on_marker(producer_id=header.producer_id, last_offset=header.last_offset, is_abort=is_abort)
            return False
        return header.record_count > 0 and not self._filter.is_aborted(
            producer_id=header.producer_id,
            last_offset=header.last_offset,
            is_transactional=header.is_transactional,
        )

    def _take_from_batch(self, header: BatchHeader, count_max: int, taken: list[ConsumedRecord]) -> None:
        for _ in range(min(count_max - len(taken), len(self._records))):
            record = self._records.popleft()
            taken.append(
                ConsumedRecord(
                    self.topic_partition,
                    record.offset,
                    record.timestamp_ms,
                    header.timestamp_type,
                    record.key,
                    record.value,
                    record.headers,
                    header.leader_epoch,
                )
            )
            self.next_offset = record.offset + 1
        self._finish_batch_if_empty(header)

    def _finish_batch_if_empty(self, header: BatchHeader) -> None:
        if not self._records:
            self._current = None
            # Past the batch, not past its last record: compaction may have taken that one, and control batches have none for us.
            self.next_offset = header.next_offset
