"""Transactions as a log tells them: batches of a producer, then the marker that decides about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tidelog.model import BrokerId, Offset, ProducerId, TopicPartition
from tidelog.partition import Partition
from tidelog.records import read_records
from tidelog.records.control import MarkerType, read_marker
from tidelog.simulation.checkers.reading import batches_of
from tidelog.storage import PartitionLog

_INFLATED_BYTES_MAX: Final = 1 << 24


@dataclass(slots=True, kw_only=True)
class LoggedTransaction:
    """What one producer wrote between two markers. Without a marker yet it is open."""

    producer_id: ProducerId
    first_offset: Offset
    epochs: list[int] = field(default_factory=list)  # of its batches
    values: dict[Offset, bytes] = field(default_factory=dict)
    marker_offset: Offset | None = None
    marker_epoch: int | None = None
    is_committed: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLog:
    """One replica's log: its transactions in the order of their first batches, and what its index says was aborted."""

    transactions: tuple[LoggedTransaction, ...]
    aborted: tuple[tuple[ProducerId, Offset], ...]

    @property
    def aborted_by_markers(self) -> tuple[tuple[ProducerId, Offset], ...]:
        """What was aborted as the batches tell it, in the order of the markers."""
        ended = [each for each in self.transactions if each.is_committed is False]
        ended.sort(key=lambda each: each.marker_offset or 0)
        return tuple((each.producer_id, each.first_offset) for each in ended)


TransactionLogs: TypeAlias = dict[TopicPartition, dict[BrokerId, TransactionLog]]


def transaction_log(partition: Partition) -> TransactionLog:
    """Read a whole log that nothing was deleted from or compacted in."""
    log = partition.log
    aborted = log.aborted_transactions(log.log_start_offset, log.log_end_offset)
    return TransactionLog(
        transactions=tuple(_transactions(log)), aborted=tuple((each.producer_id, each.first_offset) for each in aborted)
    )


def _transactions(log: PartitionLog) -> list[LoggedTransaction]:
    found: list[LoggedTransaction] = []
    open_now: dict[ProducerId, LoggedTransaction] = {}
    for header, batch in batches_of(log):
        if header.is_control:
            ended = open_now.pop(header.producer_id, None)
            if ended is not None:  # A marker may come twice, or where nothing was written.
                ended.marker_offset, ended.marker_epoch = header.base_offset, header.producer_epoch
                ended.is_committed = read_marker(batch).type is MarkerType.COMMIT
        elif header.is_transactional:
            if header.producer_id not in open_now:
                begun = LoggedTransaction(producer_id=header.producer_id, first_offset=header.base_offset)
                open_now[header.producer_id] = begun
                found.append(begun)
            transaction = open_now[header.producer_id]
            transaction.epochs.append(header.producer_epoch)
            for record in read_records(batch, max_bytes=_INFLATED_BYTES_MAX):
                transaction.values[record.offset] = record.value or b""
    return found
