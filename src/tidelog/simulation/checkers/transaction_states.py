"""Transactional ids go from state to state only as they may, as the committed records of `__transaction_state` tell it.

Nothing is completed that was not decided, nothing decided that was not open, no decision becomes another; partitions are only added to an
open transaction, and epochs of a producer id never go back. Read below every fault, as soon as it is committed. Where records are missing
because compaction has taken them, the next state of an id may be any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from tidelog.coordinator.machine import CoordinatorRecord
from tidelog.coordinator.transaction.records import read_record
from tidelog.coordinator.transaction.states import TransactionState, TransactionStatus, TransactionVersion
from tidelog.model import BrokerId, Offset
from tidelog.partition import Partition
from tidelog.records import headers, read_records
from tidelog.simulation.observer import Place, ReplicaView, Snapshot
from tidelog.storage.names import LOG, file_name

_TOPIC: Final = "__transaction_state"
_INFLATED_BYTES_MAX: Final = 1 << 24
_IDLE: Final = (TransactionStatus.EMPTY, TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT)
_ONGOING: Final = (TransactionStatus.ONGOING,)
_BEFORE: Final = {
    TransactionStatus.EMPTY: _IDLE,
    TransactionStatus.ONGOING: (*_IDLE, *_ONGOING),
    TransactionStatus.PREPARE_COMMIT: _ONGOING,
    TransactionStatus.PREPARE_ABORT: _ONGOING,
    TransactionStatus.COMPLETE_COMMIT: (TransactionStatus.PREPARE_COMMIT,),
    TransactionStatus.COMPLETE_ABORT: (TransactionStatus.PREPARE_ABORT,),
}


class Hosts(Protocol):
    """A broker that can be looked into."""

    @property
    def broker_id(self) -> BrokerId:
        """Who it is."""
        ...

    @property
    def place(self) -> Place:
        """Where its replicas are."""
        ...

    def partitions(self) -> Iterable[Partition]:
        """Its replicas."""
        ...


class TransactionStates:
    """Reads what is committed, once, wherever it is led."""

    name = "transactions go from state to state as they may"

    def __init__(self, brokers: Iterable[Hosts]) -> None:
        self._brokers = brokers
        self._known: dict[int, _Followed] = {}

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """What was committed since the last look."""
        for topic_partition, views in snapshot.replicas.items():
            if topic_partition.topic == _TOPIC:
                followed = self._known.setdefault(topic_partition.index, _Followed())
                for view in views:
                    if view.is_leader and view.high_watermark > followed.next_offset:
                        yield from self._follow(view, followed)

    def _follow(self, view: ReplicaView, followed: _Followed) -> Iterator[str]:
        for broker in self._brokers:
            for partition in broker.partitions() if broker.broker_id == view.broker_id else ():
                if partition.topic_partition == view.topic_partition:
                    yield from followed.follow(partition, broker.place)


class _Followed:
    """One partition: how far it was read, and what every id was then."""

    def __init__(self) -> None:
        self.next_offset = 0
        self._states: dict[str, TransactionState | None] = {}

    def follow(self, partition: Partition, place: Place) -> Iterator[str]:
        for offset, batch in _batches(partition, place, self.next_offset, partition.high_watermark):
            if offset > self.next_offset:
                self._states.clear()
            for record in read_records(batch, max_bytes=_INFLATED_BYTES_MAX):
                self.next_offset = record.offset + 1
                if record.key is not None:
                    yield from self._step(record.offset, CoordinatorRecord(record.key, record.value))

    def _step(self, offset: Offset, record: CoordinatorRecord) -> Iterator[str]:
        transactional_id, after = read_record(record)
        if transactional_id in self._states:
            before = self._states[transactional_id]
            for sentence in wrong_step(before, after):
                yield f"at offset {offset} {transactional_id} {sentence}"
        self._states[transactional_id] = after


def wrong_step(before: TransactionState | None, after: TransactionState | None) -> Iterator[str]:
    """Why an id may not go from one state to the other; None is an id that is not known."""
    if after is None:
        if before is not None and before.status not in _IDLE:
            yield f"is forgotten in {before.status.label}"
        return
    if before is None:
        if after.status is not TransactionStatus.EMPTY:
            yield f"begins in {after.status.label}"
        return
    is_exempt = _is_abort_of_nothing(before, after) or _is_giving_up(before, after)
    if before.status not in _BEFORE[after.status] and not is_exempt:
        yield f"goes from {before.status.label} to {after.status.label}"
    if before.producer_id == after.producer_id and after.producer_epoch < before.producer_epoch:
        yield f"goes from epoch {before.producer_epoch} to {after.producer_epoch}"
    if before.status is TransactionStatus.ONGOING and not set(before.partitions) <= set(after.partitions):
        yield f"loses {sorted(set(before.partitions) - set(after.partitions))} from its transaction"
    if after.status.is_idle and after.partitions:
        yield f"has {list(after.partitions)} in {after.status.label}"


def _is_giving_up(before: TransactionState, after: TransactionState) -> bool:
    """Partitions that have met a later epoch of the producer, after a power cut, abort what they have open under its id before it changes."""
    is_decided = before.status.is_decided and not before.is_given_up
    return is_decided and after.is_given_up and set(after.partitions) <= set(before.partitions)


def _is_abort_of_nothing(before: TransactionState, after: TransactionState) -> bool:
    """With version 2 a transaction may be aborted that no partition knows of: late mail of it is fenced."""
    return (
        after.status in (TransactionStatus.PREPARE_ABORT, TransactionStatus.COMPLETE_ABORT)
        and before.status in _IDLE
        and after.client_version is TransactionVersion.TWO
    )


def _batches(
    partition: Partition, place: Place, start_offset: Offset, end_offset: Offset
) -> Iterator[tuple[Offset, bytes]]:
    """Base offset and bytes of the batches in a range; none of a segment that a fault has changed."""
    log = partition.log
    for segment, after in zip(
        log.segments, [*(each.base_offset for each in log.segments[1:]), end_offset], strict=True
    ):
        if after <= start_offset:
            continue
        file = place.disk.peek(f"{log.directory}/{file_name(segment.base_offset, LOG)}")
        if file is None or file.is_rotten:  # Of a file that is gone `files_are_there` speaks.
            return
        data = bytes(file.content[: segment.size])
        for position, header in headers(data):
            if start_offset <= header.base_offset and header.last_offset < end_offset:
                yield header.base_offset, data[position : position + header.size]
