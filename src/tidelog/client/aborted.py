"""The reader's half of transactions: which fetched batches a read_committed consumer must not hand out.

The broker sends data below the last stable offset, aborted or not, with the list of aborted transactions that touch the range. Because of
that bound nothing has to be buffered: every transaction in the range is decided (kafka-semantics 5.8).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from tidelog.model import Offset, ProducerId


class AbortedTransaction(NamedTuple):
    """A transaction that was aborted, by its producer and the offset of its first record in this partition."""

    producer_id: ProducerId
    first_offset: Offset


class AbortedFilter:
    """Walks the batches of one fetch answer in offset order and says which belong to aborted transactions."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._waiting = deque(sorted(aborted, key=lambda transaction: transaction.first_offset))
        self._active: set[ProducerId] = set()

    def is_aborted(self, *, producer_id: ProducerId, last_offset: Offset, is_transactional: bool) -> bool:
        """Whether this data batch is part of an aborted transaction. Ask once per batch, in order."""
        self._activate(last_offset)
        return is_transactional and producer_id in self._active

    def on_marker(self, *, producer_id: ProducerId, last_offset: Offset, is_abort: bool) -> None:
        """A transaction marker was reached: an abort ends the aborted transaction of its producer."""
        self._activate(last_offset)
        if is_abort:
            self._active.discard(producer_id)

    def _activate(self, last_offset: Offset) -> None:
        while self._waiting and self._waiting[0].first_offset <= last_offset:
            self._active.add(self._waiting.popleft().producer_id)
