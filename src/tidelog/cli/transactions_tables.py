"""Transactions as tables: with the columns of Kafka's own tool, and with what it does not tell, whom they keep waiting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tidelog.cli.describing import described_topics, partitions_of
from tidelog.cli.moments import duration, moment
from tidelog.cli.output import Cell, Row, Table
from tidelog.client import (
    Admin,
    Cluster,
    Consumer,
    ConsumerConfig,
    HeldPartition,
    OpenTransaction,
    ProducerDescription,
    TransactionDescription,
    TransactionListing,
)
from tidelog.model import BrokerId, ErrorCode, IsolationLevel, TimestampMs, TopicPartition
from tidelog.runtime import Runtime

_LISTING: Final = {
    "transactional_id": "TRANSACTIONAL-ID",
    "coordinator": "COORDINATOR",
    "producer_id": "PRODUCER-ID",
    "state": "STATE",
}
_DESCRIPTION: Final = {
    "coordinator": "COORDINATOR",
    "transactional_id": "TRANSACTIONAL-ID",
    "producer_id": "PRODUCER-ID",
    "producer_epoch": "PRODUCER-EPOCH",
    "state": "STATE",
    "timeout_ms": "TIMEOUT-MS",
    "start": "START",
    "duration": "DURATION",
    "topic_partitions": "TOPIC-PARTITIONS",
}
_PARTITION: Final = {
    "transactional_id": "TRANSACTIONAL-ID",
    "topic": "TOPIC",
    "partition": "PARTITION",
    "start_offset": "START-OFFSET",
    "last_stable_offset": "LAST-STABLE-OFFSET",
    "is_holding": "HOLDS-BACK",
    "waiting": "WAITING",
}
_HELD: Final = {
    "topic": "TOPIC",
    "partition": "PARTITION",
    "last_stable_offset": "LAST-STABLE-OFFSET",
    "high_watermark": "HIGH-WATERMARK",
    "waiting": "WAITING",
    "transactional_id": "TRANSACTIONAL-ID",
    "producer_id": "PRODUCER-ID",
    "producer_epoch": "PRODUCER-EPOCH",
    "state": "STATE",
    "since": "SINCE",
    "duration": "DURATION",
}
_HANGING: Final = {
    "topic": "TOPIC",
    "partition": "PARTITION",
    "producer_id": "PRODUCER-ID",
    "producer_epoch": "PRODUCER-EPOCH",
    "coordinator_epoch": "COORDINATOR-EPOCH",
    "start_offset": "START-OFFSET",
    "last_timestamp": "LAST-TIMESTAMP",
    "duration": "DURATION",
}
_PRODUCER: Final = {
    "producer_id": "PRODUCER-ID",
    "producer_epoch": "PRODUCER-EPOCH",
    "coordinator_epoch": "LATEST-COORDINATOR-EPOCH",
    "last_sequence": "LAST-SEQUENCE",
    "last_timestamp": "LAST-TIMESTAMP",
    "start_offset": "CURRENT-TRANSACTION-START-OFFSET",
}
_HANGS: Final = "hanging"  # stands for the state of what no coordinator knows
_FIRST_RECORD_WITHIN_MS: Final = 3_000


class TransactionTables:
    """Asks a cluster about transactions and makes tables of the answers."""

    def __init__(self, cluster: Cluster, config: ConsumerConfig, runtime: Runtime) -> None:
        self._admin = Admin(cluster, config, runtime)
        self._connected = (cluster, config, runtime)

    def listed(self, found: Iterable[TransactionListing]) -> Table:
        """Transactional ids and how they stand."""
        rows: list[Row] = [
            {
                "transactional_id": one.transactional_id,
                "coordinator": one.coordinator,
                "producer_id": one.producer_id,
                "state": one.state,
            }
            for one in found
        ]
        return Table(headings=_LISTING, rows=rows)

    async def described(self, transactional_ids: Sequence[str]) -> tuple[Table, Table]:
        """Transactional ids, and the partitions of what they have open: where it began there, and whom it keeps waiting."""
        found = await self._admin.transactions.describe(transactional_ids)
        known = [one for one in found.values() if isinstance(one, TransactionDescription)]
        held = await self._admin.transactions.holders(dict.fromkeys(key for one in known for key in one.partitions))
        parts = {one.transactional_id: [_part_row(one, key, held[key]) for key in one.partitions] for one in known}
        rows = [{**self._description_row(one), "partitions": parts[one.transactional_id]} for one in known]
        notes = [f"{name}: {_reason(code)}" for name, code in found.items() if isinstance(code, ErrorCode)]
        return (
            Table(headings=_DESCRIPTION, rows=rows, notes=notes, has_failed=bool(notes)),
            Table(headings=_PARTITION, rows=[row for some in parts.values() for row in some]),
        )

    async def held(self, partitions: Iterable[TopicPartition], *, only_held: bool) -> Table:
        """How far who reads committed records gets in partitions, and which transaction keeps them from the rest since when."""
        found = await self._admin.transactions.holders(partitions)
        told = [one for one in found.values() if not isinstance(one, ErrorCode)]
        rows = [await self._held_row(one) for one in told if one.holder is not None or not only_held]
        return Table(headings=_HELD, rows=rows, notes=_failures(found), has_failed=len(told) < len(found))

    async def hanging(self, partitions: Iterable[TopicPartition], *, max_timeout_ms: int) -> Table:
        """Transactions that no coordinator will ever end."""
        found = await self._admin.transactions.find_hanging(partitions, max_timeout_ms=max_timeout_ms)
        rows = [self._hanging_row(one) for some in found.values() if not isinstance(some, ErrorCode) for one in some]
        notes = _failures(found)
        return Table(headings=_HANGING, rows=rows, notes=notes, has_failed=bool(notes))

    async def producers(self, partitions: Iterable[TopicPartition]) -> Table:
        """All producers that partitions remember."""
        found = await self._admin.transactions.describe_producers(partitions)
        rows = [_producer_row(one) for some in found.values() if not isinstance(some, ErrorCode) for one in some]
        notes = _failures(found)
        return Table(headings=_PRODUCER, rows=rows, notes=notes, has_failed=bool(notes))

    async def partitions(self, topic: str | None, index: int | None, broker: BrokerId | None) -> list[TopicPartition]:
        """All partitions, or those of a topic, of those only the ones that a broker has a replica of. Raises CommandFailed."""
        names = [topic] if topic is not None else await self._admin.list_topics(include_internal=True)
        return [
            key
            for known in await described_topics(*self._connected, names)
            for key in partitions_of(known, index)
            if broker is None or broker in known.partitions[key.index].replicas
        ]

    def _age_ms(self, since_ms: TimestampMs | None) -> int | None:
        _, _, runtime = self._connected
        return None if since_ms is None else runtime.clock.wall_ms() - since_ms

    def _description_row(self, one: TransactionDescription) -> dict[str, Cell]:
        age_ms = self._age_ms(one.start_ms)
        return {
            "coordinator": one.coordinator,
            "transactional_id": one.transactional_id,
            "producer_id": one.producer_id,
            "producer_epoch": one.producer_epoch,
            "state": one.state,
            "timeout_ms": one.timeout_ms,
            "start": moment(one.start_ms),
            "start_ms": one.start_ms,
            "duration": duration(age_ms),
            "duration_ms": age_ms,
            "topic_partitions": [f"{key.topic}:{key.index}" for key in one.partitions],
        }

    async def _held_row(self, held: HeldPartition) -> Row:
        row: dict[str, Cell] = {
            "topic": held.topic_partition.topic,
            "partition": held.topic_partition.index,
            "last_stable_offset": held.last_stable_offset,
            "high_watermark": held.high_watermark,
            "waiting": held.waiting_count,
            "transactional_id": None,
        }
        if held.holder is None:
            return row
        known = held.holder.transaction
        since_ms = await self._since_ms(held.holder, is_whole=held.holder.first_offset >= held.last_stable_offset)
        age_ms = self._age_ms(since_ms)
        return row | {
            "transactional_id": None if known is None else known.transactional_id,
            "producer_id": held.holder.producer.producer_id,
            "producer_epoch": held.holder.producer.producer_epoch,
            "coordinator_epoch": held.holder.producer.coordinator_epoch,
            "state": _HANGS if known is None or held.holder.is_hanging else known.state,
            "since": moment(since_ms),
            "since_ms": since_ms,
            "duration": duration(age_ms),
            "duration_ms": age_ms,
        }

    async def _since_ms(self, one: OpenTransaction, *, is_whole: bool) -> TimestampMs | None:
        """When a transaction began: the coordinator knows, or else its first record says, unless that is deleted."""
        if one.transaction is not None and not one.is_hanging and one.transaction.start_ms is not None:
            return one.transaction.start_ms
        if not is_whole:
            return None
        cluster, config, runtime = self._connected
        all_there_is = replace(config, isolation_level=IsolationLevel.READ_UNCOMMITTED)
        async with Consumer(cluster, all_there_is, runtime) as consumer:
            consumer.assign([one.topic_partition])
            consumer.seek(one.topic_partition, one.first_offset)
            records = await consumer.poll(max_records=1, timeout_ms=_FIRST_RECORD_WITHIN_MS)
        return records[0].timestamp_ms if records else None

    def _hanging_row(self, one: OpenTransaction) -> Row:
        age_ms = self._age_ms(one.producer.last_timestamp_ms)
        return {
            "topic": one.topic_partition.topic,
            "partition": one.topic_partition.index,
            **_producer_row(one.producer),
            "duration": duration(age_ms),
            "duration_ms": age_ms,
        }


def _producer_row(one: ProducerDescription) -> dict[str, Cell]:
    is_open = one.transaction_first_offset >= 0
    return {
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "coordinator_epoch": one.coordinator_epoch,
        "last_sequence": one.last_sequence,
        "last_timestamp": moment(one.last_timestamp_ms),
        "last_timestamp_ms": one.last_timestamp_ms,
        "start_offset": one.transaction_first_offset if is_open else None,
    }


def _part_row(one: TransactionDescription, key: TopicPartition, held: HeldPartition | ErrorCode) -> Row:
    row: dict[str, Cell] = {
        "transactional_id": one.transactional_id,
        "topic": key.topic,
        "partition": key.index,
    }
    if isinstance(held, ErrorCode):
        return row | {"error": held.name}
    starts = [each.first_offset for each in held.open if each.producer.producer_id == one.producer_id]
    is_holding = held.holder is not None and held.holder.producer.producer_id == one.producer_id
    return row | {
        "start_offset": starts[0] if starts else None,
        "last_stable_offset": held.last_stable_offset,
        "high_watermark": held.high_watermark,
        "is_holding": is_holding,
        "waiting": held.waiting_count if is_holding else 0,
    }


def _failures(found: Mapping[TopicPartition, object]) -> list[str]:
    return [f"{key.topic}:{key.index}: {code.name}" for key, code in found.items() if isinstance(code, ErrorCode)]


def _reason(code: ErrorCode) -> str:
    if code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return f"{code.name}: nobody has used it, or not for transactional.id.expiration.ms"
    return code.name
