"""A coordinator of transactions that does as the test says, on any of the scripted brokers, and keeps a list of what was asked."""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias, TypeVar

from tests.client.scripted_brokers import AS_USUAL, ScriptedBrokers
from tidelog.client import Producer, ProducerConfig
from tidelog.model import BrokerId, ErrorCode
from tidelog.records.batch import headers
from tidelog.runtime import Runtime
from tidelog.wire.api import ApiKey, advertised_versions
from tidelog.wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    api_versions,
    end_txn,
    find_coordinator,
    init_producer_id,
    produce,
    txn_offset_commit,
)

T = TypeVar("T")


class Silence(enum.Enum):
    """How a request stays without an answer."""

    UNHEARD = enum.auto()
    DONE = enum.auto()  # but done


Twist: TypeAlias = ErrorCode | Silence

PRODUCER_ID = 7
COORDINATOR = 2


class ScriptedTransactions:
    """`twists` of an API happen one by one before it goes as usual."""

    def __init__(self, *, level: int = 2, brokers: ScriptedBrokers | None = None) -> None:
        self.brokers = brokers or ScriptedBrokers()
        self.node: BrokerId = COORDINATOR
        self.level = level
        self.newest: dict[ApiKey, int] = {}
        self.epoch = -1
        self.ongoing: tuple[int, int] = (-1, -1)
        self.ended: list[tuple[int, bool]] = []  # under which epoch, and whether committed
        self.written: list[tuple[int, int]] = []  # epoch and first number of every batch that was taken
        self.log: list[str] = []
        self._twists: dict[ApiKey, deque[Twist]] = {}
        self._heard: dict[ApiKey, asyncio.Event] = {}
        self.brokers.scripts |= {
            ApiKey.API_VERSIONS: self._versions,
            ApiKey.FIND_COORDINATOR: self._find,
            ApiKey.PRODUCE: self._twisted(ApiKey.PRODUCE, self._produce),
            ApiKey.INIT_PRODUCER_ID: self._twisted(ApiKey.INIT_PRODUCER_ID, self._init),
            ApiKey.ADD_PARTITIONS_TO_TXN: self._twisted(ApiKey.ADD_PARTITIONS_TO_TXN, self._add_partitions),
            ApiKey.ADD_OFFSETS_TO_TXN: self._twisted(ApiKey.ADD_OFFSETS_TO_TXN, self._add_offsets),
            ApiKey.TXN_OFFSET_COMMIT: self._twisted(ApiKey.TXN_OFFSET_COMMIT, self._commit_offsets),
            ApiKey.END_TXN: self._twisted(ApiKey.END_TXN, self._end),
        }

    def twist(self, key: ApiKey, *twists: Twist) -> None:
        """What happens to the next requests."""
        self._twists.setdefault(key, deque()).extend(twists)

    async def heard(self, key: ApiKey) -> None:
        """Wait until something of this kind was asked."""
        await self._heard.setdefault(key, asyncio.Event()).wait()

    def run(self, story: Callable[[Producer], Coroutine[Any, Any, T]], **settings: str) -> T:
        """Tell a story of a producer called `orders`."""

        async def told(runtime: Runtime) -> T:
            async with Producer.connect(self.config(**settings), runtime) as producer:
                return await story(producer)

        return self.brokers.run(told)

    def config(self, **settings: str) -> ProducerConfig:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        common = {
            "bootstrap.servers": self.brokers.bootstrap,
            "transactional.id": "orders",
            "request.timeout.ms": "1000",
        }
        return ProducerConfig.from_properties({**common, "max.block.ms": "10000", **named})

    def _twisted(self, key: ApiKey, act: Callable[[Any, ErrorCode], Any]) -> Any:
        def script(node: BrokerId, request: Any) -> Any:
            self.log.append(key.name)
            self._heard.setdefault(key, asyncio.Event()).set()
            waiting = self._twists.get(key)
            twist = waiting.popleft() if waiting else ErrorCode.NONE
            if twist is Silence.UNHEARD:
                return None
            if twist is Silence.DONE:
                act(request, ErrorCode.NONE)
                return None
            is_for_anybody = (
                key in {ApiKey.PRODUCE, ApiKey.TXN_OFFSET_COMMIT} or getattr(request, "transactional_id", "") is None
            )
            if not is_for_anybody and node != self.node:
                twist = ErrorCode.NOT_COORDINATOR
            return act(request, twist)

        return script

    def _versions(self, node: BrokerId, request: Any) -> Any:
        feature = api_versions.FinalizedFeatureKey(
            name="transaction.version", max_version_level=self.level, min_version_level=self.level
        )
        rows = tuple(
            api_versions.ApiVersion(
                api_key=row.api_key,
                min_version=row.min_version,
                max_version=self.newest.get(ApiKey(row.api_key), row.max_version),
            )
            for row in advertised_versions()
        )
        return api_versions.ApiVersionsResponse(
            error_code=ErrorCode.NONE, api_keys=rows, finalized_features=(feature,) if self.level else ()
        )

    def _find(self, node: BrokerId, request: find_coordinator.FindCoordinatorRequest) -> Any:
        rows = tuple(
            find_coordinator.Coordinator(key=key, node_id=self.node, host=f"broker-{self.node}", port=9092)
            for key in request.coordinator_keys
        )
        return find_coordinator.FindCoordinatorResponse(coordinators=rows)

    def _init(self, request: init_producer_id.InitProducerIdRequest, code: ErrorCode) -> Any:
        if code is not ErrorCode.NONE:
            return init_producer_id.InitProducerIdResponse(error_code=code, producer_epoch=-1)
        self.epoch += 1
        ongoing_id, ongoing_epoch = self.ongoing if request.keep_prepared_txn else (-1, -1)
        return init_producer_id.InitProducerIdResponse(
            error_code=code,
            producer_id=PRODUCER_ID,
            producer_epoch=self.epoch,
            ongoing_txn_producer_id=ongoing_id,
            ongoing_txn_producer_epoch=ongoing_epoch,
        )

    def _add_partitions(self, request: add_partitions_to_txn.AddPartitionsToTxnRequest, code: ErrorCode) -> Any:
        topics = tuple(
            add_partitions_to_txn.AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=tuple(
                    add_partitions_to_txn.AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=code
                    )
                    for index in topic.partitions
                ),
            )
            for topic in request.v3_and_below_topics
        )
        return add_partitions_to_txn.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)

    def _add_offsets(self, request: Any, code: ErrorCode) -> Any:
        return add_offsets_to_txn.AddOffsetsToTxnResponse(error_code=code)

    def _commit_offsets(self, request: txn_offset_commit.TxnOffsetCommitRequest, code: ErrorCode) -> Any:
        topics = tuple(
            txn_offset_commit.TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    txn_offset_commit.TxnOffsetCommitResponsePartition(
                        partition_index=row.partition_index, error_code=code
                    )
                    for row in topic.partitions
                ),
            )
            for topic in request.topics
        )
        return txn_offset_commit.TxnOffsetCommitResponse(topics=topics)

    def _end(self, request: end_txn.EndTxnRequest, code: ErrorCode) -> Any:
        """As a coordinator does: the same question again gets the same answer."""
        if code is not ErrorCode.NONE:
            return end_txn.EndTxnResponse(error_code=code)
        asked = (request.producer_epoch, request.committed)
        if asked not in self.ended:
            self.ended.append(asked)
            self.epoch += self.level >= 2
        return end_txn.EndTxnResponse(error_code=code, producer_id=PRODUCER_ID, producer_epoch=self.epoch)

    def _produce(self, request: produce.ProduceRequest, code: ErrorCode) -> Any:
        if code is ErrorCode.NONE:
            self.written += [
                (header.producer_epoch, header.base_sequence)
                for topic in request.topic_data
                for data in topic.partition_data
                for _, header in headers(data.records or b"")
                if header.is_transactional and request.transactional_id == "orders"
            ]
            return AS_USUAL
        rows = tuple(
            produce.TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=tuple(
                    produce.PartitionProduceResponse(index=data.index, error_code=code, base_offset=-1)
                    for data in topic.partition_data
                ),
            )
            for topic in request.topic_data
        )
        return produce.ProduceResponse(responses=rows)
