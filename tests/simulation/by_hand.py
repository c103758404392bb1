"""A transactional producer whose every request is made by hand, over lines of its own: so that one may come late.

A line is a connection. What was sent over an earlier line and is brought by the network only now is what this producer sends over an older
line after it has used a newer one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tests.simulation.clusters import make_topic
from tests.simulation.story import passed
from tests.simulation.workload import properties
from tidelog.client import Consumer, ConsumerConfig
from tidelog.client.connection import Connection, ConnectionLimits, open_connection
from tidelog.coordinator.placement import partition_of
from tidelog.model import BrokerId, ErrorCode, Offset, ProducerIdentity, TopicPartition
from tidelog.records.builder import RecordBatchBuilder
from tidelog.runtime import Address, Runtime
from tidelog.simulation.cluster import PORT, SimulatedCluster
from tidelog.simulation.registry_session import RegistryTiming
from tidelog.wire.api import Request, Response
from tidelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tidelog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from tidelog.wire.messages.describe_transactions import DescribeTransactionsRequest
from tidelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

R = TypeVar("R", bound=Response)

ID = "bank"
GROUP = "g"
T0 = TopicPartition("t", 0)
STATE = TopicPartition("__transaction_state", 0)
OFFSETS = TopicPartition("__consumer_offsets", 0)
SETTINGS = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.two.phase.commit.enable": "true",
    "min.insync.replicas": "2",
    "auto.leader.rebalance.enable": "false",
}
_LIMITS = ConnectionLimits(
    client_id="by-hand", setup_timeout_ms=5_000, request_timeout_ms=60_000, in_flight_max=10, receive_bytes_max=1 << 20
)
_AGAIN = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
_TRIES = 200


def bank(*, seed: int = 1, **settings: str) -> SimulatedCluster:
    """Three brokers; with `t`, `u` and the internal topics on all of them once `open_bank` was called."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return SimulatedCluster(
        seed, brokers=3, settings={**SETTINGS, **named}, timing=RegistryTiming(session_timeout_ms=1_500)
    )


def open_bank(cluster: SimulatedCluster) -> None:
    """Broker 1 leads `t` and the offsets, 2 leads `u` and coordinates transactions."""
    make_topic(cluster, (1, 2, 3))
    make_topic(cluster, (2, 3, 1), name="u")
    make_topic(cluster, (1, 2, 3), {"cleanup.policy": "compact"}, name=OFFSETS.topic)
    make_topic(cluster, (2, 3, 1), {"cleanup.policy": "compact"}, name=STATE.topic)


@dataclass(frozen=True, slots=True)
class Line:
    """A connection to a broker."""

    cluster: SimulatedCluster
    connection: Connection

    @classmethod
    def to(cls, cluster: SimulatedCluster, broker_id: BrokerId) -> Line:
        """A new one."""

        async def connect(runtime: Runtime) -> Connection:
            return await open_connection(runtime.network, Address(f"broker-{broker_id}", PORT), _LIMITS)

        return cls(cluster, cluster.tell(connect))

    def ask(self, request: Request[R], version: int) -> R:
        """Say something, and wait for the answer."""
        return self.cluster.tell(lambda _: self.connection.request(request, version=version))

    def begin(self, request: Request[R], version: int) -> asyncio.Future[R]:
        """Say something, and leave the answer for later."""

        async def send(_: Runtime) -> asyncio.Future[R]:
            return self.connection.send(request, version=version).answer

        return self.cluster.tell(send)


class ByHand:
    """One incarnation of a transactional id. Speaks version 1 or 2 of the protocol (KIP-890)."""

    def __init__(self, cluster: SimulatedCluster, *, version: int = 1, transactional_id: str = ID) -> None:
        self.cluster = cluster
        self.version = version
        self.transactional_id = transactional_id
        self.identity = ProducerIdentity(-1, -1)
        self.sequences: dict[TopicPartition, int] = {}

    @property
    def coordinator(self) -> BrokerId:
        """The broker that coordinates."""
        return self.cluster.state(TopicPartition(STATE.topic, partition_of(self.transactional_id, 1))).leader

    def line(self, broker_id: BrokerId | None = None) -> Line:
        """A new connection, to the coordinator unless told otherwise."""
        return Line.to(self.cluster, self.coordinator if broker_id is None else broker_id)

    # Requests.

    def init(self, line: Line | None = None, *, timeout_ms: int = 60_000, **two_phase: bool) -> InitProducerIdResponse:
        """Take the id over; asks again as long as the answer is that it has to."""
        line = line or self.line()
        answer = self._again(
            lambda: self.init_once(line, timeout_ms=timeout_ms, **two_phase), lambda each: each.error_code
        )
        if answer.error_code is ErrorCode.NONE:
            self.identity = ProducerIdentity(answer.producer_id, answer.producer_epoch)
            self.sequences.clear()
        return answer

    def init_once(self, line: Line, *, timeout_ms: int = 60_000, **two_phase: bool) -> InitProducerIdResponse:
        """InitProducerId, once."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms, **two_phase
        )
        return line.ask(request, 6 if two_phase else 5)

    def add(self, *partitions: TopicPartition, line: Line) -> list[ErrorCode]:
        """AddPartitionsToTxn, once."""
        topics = tuple(AddPartitionsToTxnTopic(name=one.topic, partitions=(one.index,)) for one in partitions)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.producer_epoch,
            v3_and_below_topics=topics,
        )
        answer = line.ask(request, 3)
        return [
            each.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        ]

    def join(self, line: Line, *partitions: TopicPartition) -> None:
        """Say where it is going to write, as old clients do, once the last transaction is complete."""
        if self.version == 1:
            self.cluster.until(
                lambda: set(self.add(*partitions, line=line)) == {ErrorCode.NONE}, "partitions are added"
            )

    def produce_request(
        self, value: bytes, to: TopicPartition = T0, *, sequence: int | None = None
    ) -> tuple[ProduceRequest, int]:
        """A batch of one record in the transaction, and the version it is sent in."""
        base = self.sequences.get(to, 0) if sequence is None else sequence
        self.sequences[to] = base + 1
        builder = RecordBatchBuilder(
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            base_sequence=base,
            is_transactional=True,
        )
        builder.append(timestamp_ms=int(self.cluster.world.node("client").clock.wall_ms()), key=None, value=value)
        data = PartitionProduceData(index=to.index, records=builder.build())
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=5_000,
            topic_data=(TopicProduceData(name=to.topic, partition_data=(data,)),),
        )
        return request, 11 if self.version == 1 else 12

    def produce(self, value: bytes, to: TopicPartition = T0, *, line: Line, sequence: int | None = None) -> ErrorCode:
        """Write one record."""
        request, version = self.produce_request(value, to, sequence=sequence)
        return line.ask(request, version).responses[0].partition_responses[0].error_code

    def end_request(self, *, committed: bool) -> tuple[EndTxnRequest, int]:
        """EndTxn, and the version it is sent in."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            committed=committed,
        )
        return request, 4 if self.version == 1 else 5

    def end(self, line: Line, *, committed: bool) -> ErrorCode:
        """EndTxn until it is answered for good; with version 2 the next transaction has the identity of the answer."""
        request, version = self.end_request(committed=committed)
        answer: EndTxnResponse = self._again(lambda: line.ask(request, version), lambda each: each.error_code)
        if answer.error_code is ErrorCode.NONE and self.version > 1:
            self.identity = ProducerIdentity(answer.producer_id, answer.producer_epoch)
            self.sequences.clear()
        return answer.error_code

    def add_offsets(self, line: Line, group: str = GROUP) -> ErrorCode:
        """AddOffsetsToTxn, once."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            group_id=group,
        )
        return line.ask(request, 3).error_code

    def offsets_request(
        self, offset: Offset, *, generation: int = -1, member: str = ""
    ) -> tuple[TxnOffsetCommitRequest, int]:
        """TxnOffsetCommit of partition 0 of `t`, and the version it is sent in."""
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=None)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=GROUP,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            generation_id=generation,
            member_id=member,
            topics=(TxnOffsetCommitRequestTopic(name="t", partitions=(partition,)),),
        )
        return request, 4 if self.version == 1 else 5

    def offsets(self, offset: Offset, *, line: Line, generation: int = -1, member: str = "") -> ErrorCode:
        """TxnOffsetCommit, once."""
        request, version = self.offsets_request(offset, generation=generation, member=member)
        return line.ask(request, version).topics[0].partitions[0].error_code

    def _again(self, ask: Callable[[], R], code: Callable[[R], ErrorCode]) -> R:
        for _ in range(_TRIES):
            answer = ask()
            if code(answer) not in _AGAIN:
                return answer
            self.cluster.world.run_for_ms(50)
        raise TimeoutError("the coordinator wants to be asked again, for ever")


def seen(cluster: SimulatedCluster, topic: str = "t", *, isolation: str = "read_committed") -> list[str]:
    """What a reader is given of a topic's one partition now, from the beginning to the end of what is stable."""
    topic_partition = TopicPartition(topic, 0)

    async def story(runtime: Runtime) -> list[str]:
        config = ConsumerConfig.from_properties(
            properties(cluster, auto_offset_reset="earliest", isolation_level=isolation)
        )
        async with Consumer.connect(config, runtime) as consumer:
            consumer.assign([topic_partition])
            end = (await consumer.end_offsets([topic_partition]))[topic_partition]
            found: list[str] = []
            async with asyncio.timeout(60):
                while await consumer.position(topic_partition) < end:
                    found += [(record.value or b"").decode() for record in await consumer.poll(timeout_ms=500)]
            return found

    return cluster.tell(story)


def until_stable(cluster: SimulatedCluster, *partitions: TopicPartition, within_ms: float = 30_000) -> None:
    """I9: nothing is undecided there, on any replica."""

    def is_so() -> bool:
        views = [view for one in partitions for view in cluster.snapshot().replicas.get(one, ())]
        return bool(views) and all(view.last_stable_offset == view.log_end_offset for view in views)

    cluster.until(is_so, f"{', '.join(map(str, partitions))} are stable", within_ms=within_ms)


def status_of(cluster: SimulatedCluster, transactional_id: str = ID) -> str:
    """How the transaction stands, as its coordinator says; the name of its answer where it does not say."""
    request = DescribeTransactionsRequest(transactional_ids=(transactional_id,))
    described = Line.to(cluster, cluster.state(STATE).leader).ask(request, 0).transaction_states[0]
    return described.transaction_state or described.error_code.name


def wait_s(cluster: SimulatedCluster, seconds: float) -> None:
    """Let time pass."""
    cluster.world.run(passed(seconds))


__all__: Sequence[str] = (
    "GROUP", "ID", "OFFSETS", "STATE", "T0", "ByHand", "Line", "bank", "open_bank", "seen", "status_of", "until_stable", "wait_s",
)  # fmt: skip
