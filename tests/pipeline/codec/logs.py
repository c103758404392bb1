"""Logs of a partition as brokers keep them, with transactions and compacted batches, and the fetches that they answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hypothesis import strategies as st

from tests.pipeline.codec.rows import Row, row_of
from tests.records import batches
from tidelog.model import TimestampType
from tidelog.records import Codec, MarkerType, build_marker, compress, stamp
from tidelog.records.batch import APPEND_TIME_BIT, TRANSACTIONAL_BIT, new_header, write_batch
from tidelog.records.record import encode_record

APPEND_TIME_MS = 1_234_567
NO_PRODUCER = -1


class Appended(NamedTuple):
    """A data batch, of no producer or as part of a transaction. `lost` are the rows that compaction has taken."""

    producer_id: int
    rows: list[batches.Row]
    codec: Codec
    has_append_time: bool
    lost: frozenset[int]


class Ended(NamedTuple):
    """The end of a producer's transaction, if it has one."""

    producer_id: int
    is_abort: bool


class Stored(NamedTuple):
    """A batch in the log."""

    data: bytes
    next_offset: int
    rows: list[Row]
    producer_id: int


class Log:
    """Batches one after the other, all transactions decided."""

    def __init__(self, events: list[Appended | Ended]) -> None:
        self.batches: list[Stored] = []
        self.end_offset = 0
        self._open: dict[int, int] = {}
        self._aborted: list[tuple[int, int, int]] = []  # producer, first offset, offset of the marker
        for event in events:
            if isinstance(event, Appended):
                self._append(event)
            elif event.producer_id in self._open:
                self._end(event)
        for producer_id in list(self._open):
            self._end(Ended(producer_id, is_abort=producer_id % 2 == 0))

    def rows(self, from_offset: int, to_offset: int, *, with_aborted: bool = False) -> list[Row]:
        """What a reader gets of the range."""
        return [
            row
            for stored in self.batches
            for row in stored.rows
            if from_offset <= row.offset < to_offset and (with_aborted or not self._is_aborted(stored))
        ]

    def fetch(self, offset: int, bytes_max: int) -> tuple[bytes, list[tuple[int, int]]]:
        """From the batch with the offset on, at least a whole one and perhaps a torn one, with the transactions aborted since."""
        found = [stored.data for stored in self.batches if stored.next_offset > offset]
        size = max(bytes_max, len(found[0])) if found else 0
        return b"".join(found)[:size], [(producer, first) for producer, first, last in self._aborted if last >= offset]

    def _append(self, event: Appended) -> None:
        base_timestamp = event.rows[0][0]
        max_timestamp = APPEND_TIME_MS if event.has_append_time else max(row[0] for row in event.rows)
        kept = [(delta, row) for delta, row in enumerate(event.rows) if delta not in event.lost]
        payload = b"".join(
            encode_record(delta, timestamp - base_timestamp, key, value, headers)
            for delta, (timestamp, key, value, headers) in kept
        )
        in_transaction = event.producer_id != NO_PRODUCER
        header = new_header(
            attributes=event.codec
            | (APPEND_TIME_BIT if event.has_append_time else 0)
            | (TRANSACTIONAL_BIT if in_transaction else 0),
            last_offset_delta=len(event.rows) - 1,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            record_count=len(kept),
        )._replace(producer_id=event.producer_id, producer_epoch=0, base_sequence=0)
        if in_transaction:
            self._open.setdefault(event.producer_id, self.end_offset)
        time_of: Callable[[int], int] = (lambda _: APPEND_TIME_MS) if event.has_append_time else (lambda time: time)
        type_ = TimestampType.LOG_APPEND_TIME if event.has_append_time else TimestampType.CREATE_TIME
        rows = [
            row_of(self.end_offset + delta, time_of(timestamp), key, value, headers, type_)
            for delta, (timestamp, key, value, headers) in kept
        ]
        data = write_batch(header, compress(event.codec, payload))
        self._store(data, len(event.rows), rows, event.producer_id)

    def _end(self, event: Ended) -> None:
        first = self._open.pop(event.producer_id)
        if event.is_abort:
            self._aborted.append((event.producer_id, first, self.end_offset))
        type_ = MarkerType.ABORT if event.is_abort else MarkerType.COMMIT
        marker = build_marker(
            type_, producer_id=event.producer_id, producer_epoch=0, coordinator_epoch=0, timestamp_ms=5
        )
        self._store(marker, 1, [], event.producer_id)

    def _store(self, data: bytearray, offset_count: int, rows: list[Row], producer_id: int) -> None:
        stamp(data, 0, base_offset=self.end_offset, leader_epoch=0)
        self.end_offset += offset_count
        self.batches.append(Stored(bytes(data), self.end_offset, rows, producer_id))

    def _is_aborted(self, stored: Stored) -> bool:
        return any(
            producer == stored.producer_id and first <= stored.next_offset - 1 <= last
            for producer, first, last in self._aborted
        )


_producers = st.sampled_from([NO_PRODUCER, 1, 2, 3])
_appended = st.builds(
    Appended,
    producer_id=_producers,
    rows=batches.rows,
    codec=batches.codecs,
    has_append_time=st.booleans(),
    lost=st.just(frozenset()) | st.frozensets(st.integers(0, 12), max_size=12),
)
_ended = st.builds(Ended, producer_id=st.sampled_from([1, 2, 3]), is_abort=st.booleans())
logs = st.lists(_appended | _ended, min_size=1, max_size=8).map(Log)
