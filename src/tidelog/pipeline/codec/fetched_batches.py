"""Which batches of one fetch answer are for the reader: whole, undamaged, in the wanted range, and of no aborted transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from tidelog.client.aborted import AbortedFilter, AbortedTransaction
from tidelog.client.errors import CorruptRecords
from tidelog.model import TopicPartition
from tidelog.pipeline.codec import records_kernel as kernel
from tidelog.pipeline.codec.columns import Wanted
from tidelog.pipeline.codec.records_kernel import Int64s
from tidelog.records.batch import CONTROL_BIT, HEADER_SIZE, MAGIC, TRANSACTIONAL_BIT, CorruptBatch, read_header
from tidelog.records.control import MarkerType, read_marker

_CHECKED_BYTES: Final = 40  # of a header, at its end, are covered by the checksum
_MAGIC_AT: Final = 16
_OFFSET_MAX: Final = (1 << 63) - (1 << 32)


class FetchedBatches:
    """The batches of one fetch answer: their headers as a table of the kernel, in the order of their offsets."""

    def __init__(self, data: memoryview, wanted: Wanted) -> None:
        self.data = np.frombuffer(data, np.uint8)
        self._view = data
        self._wanted = wanted
        self._headers = np.empty((kernel.count_batches(self.data), kernel.BATCH_WIDTH), np.int64)
        kernel.read_headers(self.data, self._headers)

    def readable(self, next_offset: int, aborted: Sequence[tuple[int, int]]) -> tuple[Int64s, int]:
        """The batches with records for a reader at `next_offset`, and the offset after all of them.

        Raises CorruptRecords for a damaged batch, and when there are bytes but no way to get on.
        """
        to_offset = self._wanted.to_offset
        (beyond,) = np.nonzero(self._headers[:, kernel.BASE_OFFSET] >= to_offset)
        batches = self._headers[: beyond[0]] if beyond.size else self._headers
        self._check(batches)
        next_offsets = batches[:, kernel.BASE_OFFSET] + batches[:, kernel.LAST_OFFSET_DELTA] + 1
        end_offset = to_offset if beyond.size else min(int(next_offsets[-1:].sum()), to_offset)
        if end_offset <= next_offset:
            raise CorruptRecords(self._partition, next_offset, self._reason_for_no_batch(next_offset))
        is_data = (batches[:, kernel.ATTRIBUTES] & CONTROL_BIT) == 0
        kept = is_data & (batches[:, kernel.RECORD_COUNT] > 0) & (next_offsets > next_offset)
        if self._wanted.skips_aborted and aborted:
            kept &= ~self._aborted(batches, aborted)
        return batches[kept], end_offset

    def next_offset(self, batch: Int64s) -> int:
        """Offset of the record that may follow a batch."""
        return int(batch[kernel.BASE_OFFSET] + batch[kernel.LAST_OFFSET_DELTA] + 1)

    def payload(self, batch: Int64s) -> memoryview:
        """The records of a batch as they came, perhaps compressed."""
        return self._view[batch[kernel.START] : batch[kernel.END]]

    def corrupt(self, batch: Int64s, reason: str) -> CorruptRecords:
        """The error that says what is wrong with a batch, and where it is."""
        base_offset, last_offset_delta = int(batch[kernel.BASE_OFFSET]), int(batch[kernel.LAST_OFFSET_DELTA])
        is_sane = 0 <= base_offset <= _OFFSET_MAX and last_offset_delta >= 0
        return CorruptRecords(
            self._partition, base_offset, reason, next_offset=self.next_offset(batch) if is_sane else None
        )

    @property
    def _partition(self) -> TopicPartition:
        return TopicPartition(self._wanted.topic, self._wanted.partition)

    def _check(self, batches: Int64s) -> None:
        """Raise CorruptRecords if a checksum does not hold, or a header says what cannot be."""
        view = self._view
        claimed = batches[:, [kernel.START, kernel.END, kernel.CRC]].tolist()
        for row, (start, end, crc) in enumerate(claimed):
            if crc32c(view[start - _CHECKED_BYTES : end]) != crc:
                raise self.corrupt(batches[row], "the checksum does not hold")
        base, delta = batches[:, kernel.BASE_OFFSET], batches[:, kernel.LAST_OFFSET_DELTA]
        count = batches[:, kernel.RECORD_COUNT]
        self._refuse((base < 0) | (base > _OFFSET_MAX) | (delta < 0) | (count < 0), batches)
        is_overlapping = np.zeros(len(batches), np.bool_)
        is_overlapping[1:] = base[1:] <= base[:-1] + delta[:-1]
        self._refuse(is_overlapping, batches)

    def _refuse(self, wrong: npt.NDArray[np.bool_], batches: Int64s) -> None:
        if wrong.any():
            batch = batches[int(np.argmax(wrong))]
            claims = f"{batch[kernel.RECORD_COUNT]} records up to offset delta {batch[kernel.LAST_OFFSET_DELTA]}"
            raise self.corrupt(batch, f"its header claims {claims}, which cannot be here")

    def _aborted(self, batches: Int64s, aborted: Sequence[tuple[int, int]]) -> npt.NDArray[np.bool_]:
        """Which batches are of aborted transactions. Markers count even before the wanted offset: they end what is listed."""
        transactions = [AbortedTransaction(producer_id, first_offset) for producer_id, first_offset in aborted]
        is_listed = np.isin(batches[:, kernel.PRODUCER_ID], [producer_id for producer_id, _ in aborted])
        verdicts = np.zeros(len(batches), np.bool_)
        judge = AbortedFilter(transactions)
        for row in np.flatnonzero(is_listed):
            batch = batches[row]
            producer_id = int(batch[kernel.PRODUCER_ID])
            last_offset = int(batch[kernel.BASE_OFFSET] + batch[kernel.LAST_OFFSET_DELTA])
            if batch[kernel.ATTRIBUTES] & CONTROL_BIT:
                judge.on_marker(producer_id=producer_id, last_offset=last_offset, is_abort=self._is_abort(batch))
            else:
                is_transactional = bool(batch[kernel.ATTRIBUTES] & TRANSACTIONAL_BIT)
                verdicts[row] = judge.is_aborted(
                    producer_id=producer_id, last_offset=last_offset, is_transactional=is_transactional
                )
        return verdicts

    def _is_abort(self, batch: Int64s) -> bool:
        if not batch[kernel.RECORD_COUNT]:
            return False
        try:
            marker = read_marker(self._view[batch[kernel.START] - HEADER_SIZE : batch[kernel.END]])
        except CorruptBatch as error:
            raise self.corrupt(batch, str(error)) from error
        return marker.type is MarkerType.ABORT

    def _reason_for_no_batch(self, next_offset: int) -> str:
        """Why there was nothing at or after the offset among the bytes."""
        view = self._view
        position = int(self._headers[-1, kernel.END]) if len(self._headers) else 0
        rest = len(view) - position
        if rest > _MAGIC_AT and view[position + _MAGIC_AT] != MAGIC:
            found = view[position + _MAGIC_AT]
            return f"it is of record format {found}, where only format {MAGIC} (of Kafka 0.11 and later) can be read"
        if rest >= HEADER_SIZE:
            try:
                read_header(view, position)
            except CorruptBatch as error:
                return str(error)
        return f"{len(view)} fetched bytes hold no whole batch at or after offset {next_offset}"
