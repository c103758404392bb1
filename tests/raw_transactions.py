"""Transactions written message by message, so that a test can stop anywhere, or leave out what no producer would leave out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from tidelog.client import ClientRuntime, Cluster
from tidelog.client.admin_transaction_messages import aborting, codes_in
from tidelog.client.config import ClientConfig
from tidelog.client.coordinators import CoordinatorKind, CoordinatorQuestions
from tidelog.model import BrokerId, ErrorCode, ProducerIdentity, TopicPartition
from tidelog.records.builder import RecordBatchBuilder
from tidelog.runtime.real import real_runtime
from tidelog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from tidelog.wire.messages.end_txn import EndTxnRequest
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

T = TypeVar("T")

_CLIENTS_ADD_PARTITIONS_UP_TO = 3
_CLASSIC_PRODUCE = 11  # the newest in which clients add partitions themselves
_CLASSIC_END = 4


class RawTransactions:
    """Speaks to a cluster in the names of producers, in the protocol of transactions that every client knows."""

    def __init__(self, cluster: Cluster, config: ClientConfig, runtime: ClientRuntime) -> None:
        self._cluster = cluster
        self._questions = CoordinatorQuestions(cluster, config, runtime, kind=CoordinatorKind.TRANSACTIONAL_ID)
        self._coordinators = self._questions.coordinators

    async def init(self, name: str, *, is_two_phase: bool = False, keeps: bool = False) -> ProducerIdentity:
        """Become the producer of a transactional id, or the one that keeps what was prepared."""
        request = InitProducerIdRequest(
            transactional_id=name,
            transaction_timeout_ms=600_000,
            enable2_pc=is_two_phase or keeps,
            keep_prepared_txn=keeps,
        )

        async def ask(node: BrokerId, _names: Sequence[str]) -> dict[str, ProducerIdentity | ErrorCode]:
            answer = await self._cluster.request(node, request)
            is_given = answer.error_code is ErrorCode.NONE
            return {
                name: ProducerIdentity(answer.producer_id, answer.producer_epoch) if is_given else answer.error_code
            }

        given = (await self._questions.ask([name], ask))[name]
        assert isinstance(given, ProducerIdentity), given
        return given

    async def open(self, name: str, producer: ProducerIdentity, partition: TopicPartition, *values: bytes) -> None:
        """Begin a transaction with these records."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(name=partition.topic, partitions=(partition.index,)),),
        )
        node = await self._coordinators.of(name)
        answer = await self._cluster.request(node, request, version=_CLIENTS_ADD_PARTITIONS_UP_TO)
        codes = [
            row.partition_error_code
            for each in answer.results_by_topic_v3_and_below
            for row in each.results_by_partition
        ]
        assert codes == [ErrorCode.NONE]
        await self.write(producer, partition, *values, name=name)

    async def write(
        self,
        producer: ProducerIdentity,
        partition: TopicPartition,
        *values: bytes,
        name: str = "nobody",
        sequence: int = 0,
    ) -> None:
        """Records in a transaction, whether a coordinator knows of it or not."""
        builder = RecordBatchBuilder(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        for value in values:
            builder.append(timestamp_ms=1_000, key=None, value=value)
        data = PartitionProduceData(index=partition.index, records=builder.build())
        request = ProduceRequest(
            transactional_id=name,
            acks=-1,
            timeout_ms=5_000,
            topic_data=(TopicProduceData(name=partition.topic, partition_data=(data,)),),
        )
        leader = await self._cluster.leader_of(partition)
        answer = await self._cluster.request(leader.broker_id, request, version=_CLASSIC_PRODUCE)
        codes = [row.error_code for each in answer.responses for row in each.partition_responses]
        assert codes == [ErrorCode.NONE]

    async def mark(self, producer: ProducerIdentity, partition: TopicPartition) -> None:
        """Abort in one partition, as a coordinator would."""
        leader = await self._cluster.leader_of(partition)
        codes = codes_in(await self._cluster.request(leader.broker_id, aborting(partition, producer, 0)))
        assert codes == {partition: ErrorCode.NONE}

    async def end(self, name: str, producer: ProducerIdentity, *, is_committed: bool) -> ErrorCode:
        """Commit or abort; what the coordinator says to it."""
        request = EndTxnRequest(
            transactional_id=name,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=is_committed,
        )
        answer = await self._cluster.request(await self._coordinators.of(name), request, version=_CLASSIC_END)
        return answer.error_code


def written(bootstrap: str, story: Callable[[RawTransactions], Awaitable[T]]) -> T:
    """Let producers do something to real brokers."""

    async def play() -> T:
        runtime = real_runtime()
        config = ClientConfig.from_properties({"bootstrap.servers": bootstrap})
        try:
            async with Cluster(config, runtime) as cluster:
                return await story(RawTransactions(cluster, config, runtime))
        finally:
            runtime.disk.close()

    return asyncio.run(play())


def opened(bootstrap: str, name: str, partition: TopicPartition, *, is_two_phase: bool = False) -> ProducerIdentity:
    """A transaction of two records that its producer leaves open."""

    async def story(raw: RawTransactions) -> ProducerIdentity:
        producer = await raw.init(name, is_two_phase=is_two_phase)
        await raw.open(name, producer, partition, b"one", b"two")
        return producer

    return written(bootstrap, story)
