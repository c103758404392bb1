"""Which transactions may be open: those that the coordinator's own log, `__transaction_state`, says are not ended yet.

An open transaction is known if its first record is not below the high watermark, or if the last record of a transactional id says that its
producer has a transaction under way in this partition: ongoing, or decided with markers still to be written. Any other hangs: nobody will
ever decide it, and readers of committed records wait for it for ever.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidelog.coordinator.group.records import MalformedRecord
from tidelog.coordinator.machine import CoordinatorRecord
from tidelog.coordinator.transaction.records import read_record
from tidelog.coordinator.transaction.states import TransactionState
from tidelog.model import Offset, ProducerId, TopicPartition
from tidelog.pipeline.audit.claims import TRANSACTIONS_TOPIC, LogClaims
from tidelog.pipeline.audit.findings import Check, Finding
from tidelog.records.batch import BatchHeader, CorruptBatch, crc_holds, headers
from tidelog.records.record import Record, read_records

_RECORDS_BYTES_MAX: Final = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """Records of a producer that no marker follows."""

    topic_partition: TopicPartition
    replica: str
    producer_id: ProducerId
    producer_epoch: int
    first_offset: Offset
    high_watermark: Offset | None
    file: str
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinators:
    """What the coordinators' logs say last of every transactional id; `is_there` unless no replica of these logs was given."""

    is_there: bool
    under_way: dict[ProducerId, TransactionState]


def read_coordinators(logs: Sequence[LogClaims]) -> Coordinators:
    """From the longest log of each partition of `__transaction_state`."""
    partitions: dict[TopicPartition, list[LogClaims]] = defaultdict(list)
    for log in logs:
        partitions[log.topic_partition].append(log)
    under_way: dict[ProducerId, TransactionState] = {}
    for members in partitions.values():
        for state in _last_states([_read(log) for log in members]).values():
            if not state.status.is_idle:
                under_way[state.producer_id] = state
                under_way[state.next_producer_id] = state
                under_way[state.previous_producer_id] = state
    under_way.pop(-1, None)
    return Coordinators(is_there=bool(logs), under_way=under_way)


def judge(found: OpenTransaction, coordinators: Coordinators) -> Finding | None:
    """A finding unless the transaction is known to be open."""
    if found.high_watermark is None or found.first_offset >= found.high_watermark:
        return None
    state = coordinators.under_way.get(found.producer_id)
    if state is not None and found.topic_partition in state.partitions:
        return None
    return Finding(
        check=Check.TRANSACTION,
        what=f"producer {found.producer_id}, epoch {found.producer_epoch}: never decided, and {_reason(coordinators, state)}",
        replicas=(found.replica,),
        topic=found.topic_partition.topic,
        partition=found.topic_partition.index,
        offset=found.first_offset,
        file=found.file,
        position=found.position,
    )


def _reason(coordinators: Coordinators, state: TransactionState | None) -> str:
    if not coordinators.is_there:
        return f"the directories hold no {TRANSACTIONS_TOPIC} that could know of it"
    if state is None:
        return f"{TRANSACTIONS_TOPIC} knows of no transaction of this producer under way"
    return f"the transaction of {state.transactional_id!r} under way is not in this partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    end: tuple[int, Offset]
    states: dict[str, TransactionState]


def _last_states(replicas: Sequence[_Read]) -> dict[str, TransactionState]:
    return max(replicas, key=lambda each: each.end).states


def _read(log: LogClaims) -> _Read:
    """All transactional ids of one log, as far as it can be read."""
    states: dict[str, TransactionState] = {}
    end = (-1, 0)
    for header, records in _batches(log):
        end = (header.leader_epoch, header.next_offset)
        for record in records:
            try:
                said = read_record(CoordinatorRecord(record.key or b"", record.value))
            except MalformedRecord:
                continue
            if said.state is None:
                states.pop(said.transactional_id, None)
            else:
                states[said.transactional_id] = said.state
    return _Read(end=end, states=states)


def _batches(log: LogClaims) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """What cannot be read is left out: the audit of this very log tells of it."""
    for segment in log.files.segments:
        try:
            content = memoryview(Path(segment.path).read_bytes())
            for position, header in headers(content):
                if not header.is_control and crc_holds(content, position, header):
                    batch = content[position : position + header.size]
                    yield header, read_records(batch, max_bytes=_RECORDS_BYTES_MAX)
        except (OSError, CorruptBatch):
            continue
