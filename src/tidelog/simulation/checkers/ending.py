"""What is left when a run is over and healed, for the checkers that look at the end only."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from tidelog.client import Consumer, ConsumerConfig
from tidelog.model import BrokerId, Offset, TopicPartition
from tidelog.partition import Partition
from tidelog.records import headers, read_records
from tidelog.records.batch import CorruptBatch
from tidelog.runtime import Runtime
from tidelog.simulation.checkers.group_offsets import committed_offsets, stored_offsets
from tidelog.simulation.checkers.reading import Unreadable, chunks_of
from tidelog.simulation.checkers.transaction_logs import TransactionLog, TransactionLogs, transaction_log
from tidelog.simulation.observer import Snapshot

if TYPE_CHECKING:  # Both import the checkers.
    from tidelog.simulation.cluster import SimulatedCluster
    from tidelog.simulation.workloads.history import History

_INFLATED_BYTES_MAX: Final = 1 << 24
_CONSUME_S: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A healed cluster without load: what clients were told, what the registry says, and what can be read."""

    history: History
    snapshot: Snapshot
    contents: Mapping[tuple[BrokerId, TopicPartition], Mapping[Offset, bytes]]  # every record of each replica's log
    consumed: Mapping[
        TopicPartition, Mapping[Offset, bytes]
    ]  # what a fresh consumer reads from the beginning to the end
    cluster: SimulatedCluster
    committed_offsets: Mapping[str, Mapping[TopicPartition, Offset]] = field(default_factory=dict)  # of each group
    stored_offsets: Mapping[str, Mapping[BrokerId, Mapping[TopicPartition, Offset]]] = field(default_factory=dict)
    committed: Mapping[TopicPartition, Mapping[Offset, bytes]] = field(default_factory=dict)
    """What a fresh reader of what is committed is given, of the topics that are written in transactions."""
    transaction_logs: Mapping[TopicPartition, Mapping[BrokerId, TransactionLog]] = field(default_factory=dict)
    unreadable: Mapping[tuple[BrokerId, TopicPartition], str] = field(default_factory=dict)  # logs, and where and why

    def replicas(self, topic_partition: TopicPartition) -> Iterator[tuple[BrokerId, Mapping[Offset, bytes]]]:
        """The log of each replica that the registry assigns; an empty one where the broker has none."""
        state = self.snapshot.states.get(topic_partition)
        for broker_id in () if state is None else state.assignment:
            yield broker_id, self.contents.get((broker_id, topic_partition), {})


class EndChecker(Protocol):
    """One invariant that can be judged when everything is over."""

    @property
    def name(self) -> str:
        """How reports call it, e.g. `I1 what was acknowledged stays`."""
        ...

    def verdict(self, ending: Ending) -> Iterator[str]:
        """What is broken."""
        ...


def ending_of(cluster: SimulatedCluster, history: History) -> Ending:
    """Read every log, and every partition once more as a consumer. Raises TimeoutError where a consumer does not come to the end.

    A log that cannot be read is among the `unreadable`, and so are those of which the transactions or offsets cannot.
    """
    snapshot = cluster.snapshot()
    contents, unreadable = _contents(cluster, snapshot)
    hopeless = {topic_partition for _, topic_partition in unreadable}  # A consumer would wait for them for ever.
    leaders = [view for view in snapshot.leaders() if view.topic_partition not in hopeless]
    ends = {view.topic_partition: view.high_watermark for view in leaders}
    consumed = cluster.tell(lambda runtime: _consume(cluster.bootstrap, ends, runtime))
    stable = {
        view.topic_partition: view.last_stable_offset
        for view in leaders
        if history.is_transactional(view.topic_partition.topic)
    }
    committed = cluster.tell(lambda runtime: _consume(cluster.bootstrap, stable, runtime, "read_committed"))
    groups = (*history.groups.read_by, *history.transactions.copied)
    return Ending(
        history=history,
        snapshot=snapshot,
        contents=contents,
        consumed=consumed,
        cluster=cluster,
        committed_offsets=committed_offsets(cluster, groups),
        stored_offsets=stored_offsets(cluster, snapshot, groups, except_of=unreadable),
        committed=committed,
        transaction_logs=_transaction_logs(cluster, stable, except_of=unreadable),
        unreadable=unreadable,
    )


def _contents(
    cluster: SimulatedCluster, snapshot: Snapshot
) -> tuple[dict[tuple[BrokerId, TopicPartition], Mapping[Offset, bytes]], dict[tuple[BrokerId, TopicPartition], str]]:
    """What every log holds; and of those that cannot be read, why."""
    decoded: dict[bytes, Mapping[Offset, bytes]] = {}
    contents: dict[tuple[BrokerId, TopicPartition], Mapping[Offset, bytes]] = {}
    unreadable: dict[tuple[BrokerId, TopicPartition], str] = {}
    for broker in cluster.brokers.values():
        for partition in broker.partitions():
            if partition.topic_partition in snapshot.states:
                place = (broker.broker_id, partition.topic_partition)
                try:
                    contents[place] = records_of(partition, decoded)
                except Unreadable as why:
                    contents[place], unreadable[place] = {}, str(why)
    return contents, unreadable


def _transaction_logs(
    cluster: SimulatedCluster,
    topic_partitions: Container[TopicPartition],
    *,
    except_of: Container[tuple[BrokerId, TopicPartition]],
) -> TransactionLogs:
    found: TransactionLogs = {}
    for broker in cluster.brokers.values():
        for partition in broker.partitions():
            place = (broker.broker_id, partition.topic_partition)
            if partition.topic_partition in topic_partitions and place not in except_of:
                logs = found.setdefault(partition.topic_partition, {})
                logs[broker.broker_id] = transaction_log(partition)
    return found


def records_of(partition: Partition, decoded: dict[bytes, Mapping[Offset, bytes]]) -> dict[Offset, bytes]:
    """Every record in a replica's log, committed or not. Replicas are alike, so what one had need not be decoded for the next.

    Raises Unreadable.
    """
    log = partition.log
    found: dict[Offset, bytes] = {}
    for chunk in chunks_of(log):
        if chunk.data not in decoded:
            decoded[chunk.data] = _decode(chunk.data)
        found |= decoded[chunk.data]
    return {offset: value for offset, value in found.items() if offset >= log.log_start_offset}


def _decode(data: bytes) -> dict[Offset, bytes]:
    """The records of some batches. Markers of transactions are no records."""
    found: dict[Offset, bytes] = {}
    for position, header in headers(data):
        if not header.is_control:
            try:
                records = list(read_records(data[position : position + header.size], max_bytes=_INFLATED_BYTES_MAX))
            except CorruptBatch as error:
                raise Unreadable(f"at offset {header.base_offset}: {error!r}") from error
            found |= {record.offset: record.value or b"" for record in records}
    return found


async def _consume(
    bootstrap: str, ends: Mapping[TopicPartition, Offset], runtime: Runtime, isolation: str = "read_uncommitted"
) -> dict[TopicPartition, dict[Offset, bytes]]:
    found: dict[TopicPartition, dict[Offset, bytes]] = {topic_partition: {} for topic_partition in ends}
    config = ConsumerConfig.from_properties(
        {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest", "isolation.level": isolation}
    )
    async with Consumer.connect(config, runtime) as consumer, asyncio.timeout(_CONSUME_S):
        consumer.assign(ends)
        for topic_partition, end in ends.items():
            while await consumer.position(topic_partition) < end:
                for record in await consumer.poll(timeout_ms=1000):
                    found[record.topic_partition][record.offset] = record.value or b""
    return found
