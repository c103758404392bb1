"""How the replicas of this broker stand: for operators, and for a controller that must choose between survivors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from tidelog.broker.replica_manager import ReplicaManager
from tidelog.controller import ClusterImage
from tidelog.controller.channels import ReplicaEnd
from tidelog.model import BrokerEpoch, BrokerId, ErrorCode, TopicPartition
from tidelog.partition import ReplicaDescription
from tidelog.runtime import Clock
from tidelog.storage import PartitionLog
from tidelog.wire.messages.describe_replicas import (
    DescribeReplicasRequest,
    DescribeReplicasResponse,
    RemoteReplica,
    ReplicaOfPartition,
    ReplicasOfTopic,
    ReplicasWanted,
)

DESCRIBE_REPLICAS_VERSION: Final = 0
"""Named by whoever asks, because it is advertised to nobody."""
_PARTITIONS_AT_ONCE: Final = 200


class ReplicaDescriptions:
    """Looks at replicas, also at logs that nobody has told us the role of yet."""

    def __init__(
        self, broker_id: BrokerId, replicas: ReplicaManager, clock: Clock, broker_epoch: Callable[[], BrokerEpoch]
    ) -> None:
        self._broker_id = broker_id
        self._replicas = replicas
        self._clock = clock
        self._broker_epoch = broker_epoch

    async def describe(self, request: DescribeReplicasRequest) -> DescribeReplicasResponse:
        """The replicas asked for, or all that are hosted."""
        topics: dict[str, list[ReplicaOfPartition]] = {}
        logs: dict[str, PartitionLog] = {}
        for position, wanted in enumerate(self._wanted(request), 1):
            described, log = self._describe(wanted)
            topics.setdefault(wanted.topic, []).append(described)
            if log is not None:
                logs[wanted.topic] = log
            if position % _PARTITIONS_AT_ONCE == 0:
                await asyncio.sleep(0)
        return DescribeReplicasResponse(
            broker_id=self._broker_id,
            broker_epoch=self._broker_epoch(),
            topics=tuple(
                ReplicasOfTopic(
                    topic=name, topic_id=logs[name].topic_id if name in logs else None, partitions=tuple(partitions)
                )
                for name, partitions in topics.items()
            ),
        )

    def _wanted(self, request: DescribeReplicasRequest) -> Iterator[TopicPartition]:
        if request.topics is None:
            yield from sorted(partition.topic_partition for partition, _ in self._replicas.partitions())
            return
        for topic in request.topics:
            for index in topic.partitions:
                yield TopicPartition(topic.topic, index)

    def _describe(self, topic_partition: TopicPartition) -> tuple[ReplicaOfPartition, PartitionLog | None]:
        index = topic_partition.index
        if self._replicas.hosting.is_offline(topic_partition):
            return ReplicaOfPartition(partition_index=index, error_code=ErrorCode.KAFKA_STORAGE_ERROR), None
        partition = self._replicas.hosting.partition(topic_partition)
        if partition is not None:
            clock = self._clock
            return _told(index, partition.describe(clock.wall_ms(), clock.monotonic_ms())), partition.log
        log = self._replicas.placement.log(topic_partition)
        if log is None:
            return ReplicaOfPartition(partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), None
        described = ReplicaOfPartition(
            partition_index=index,
            error_code=ErrorCode.NONE,
            last_epoch=log.latest_leader_epoch,
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
        )
        return described, log


def _told(index: int, known: ReplicaDescription) -> ReplicaOfPartition:
    return ReplicaOfPartition(
        partition_index=index,
        error_code=ErrorCode.NONE,
        is_leader=known.is_leader,
        leader_id=known.leader_id,
        leader_epoch=known.leader_epoch,
        last_epoch=known.last_epoch,
        log_start_offset=known.log_start_offset,
        log_end_offset=known.log_end_offset,
        high_watermark=known.high_watermark,
        last_stable_offset=known.last_stable_offset,
        isr=known.isr,
        assignment=known.assignment,
        remotes=tuple(
            RemoteReplica(
                broker_id=remote.broker_id,
                log_end_offset=remote.log_end_offset,
                last_caught_up_ms=remote.last_caught_up_ms,
            )
            for remote in known.remotes
        ),
    )


def request_for(partitions: Sequence[TopicPartition]) -> DescribeReplicasRequest:
    """The question about these partitions."""
    topics: dict[str, list[int]] = {}
    for topic_partition in partitions:
        topics.setdefault(topic_partition.topic, []).append(topic_partition.index)
    wanted = (ReplicasWanted(topic=name, partitions=tuple(indexes)) for name, indexes in topics.items())
    return DescribeReplicasRequest(topics=tuple(wanted))


def ends_in(response: DescribeReplicasResponse, image: ClusterImage) -> Mapping[TopicPartition, ReplicaEnd]:
    """How far the replicas of an answer go, those of an earlier topic of the same name left out."""
    ends: dict[TopicPartition, ReplicaEnd] = {}
    for topic in response.topics:
        known = image.topics.get(topic.topic)
        if known is None or topic.topic_id not in (None, known.topic_id):
            continue
        for one in topic.partitions:
            if one.error_code is ErrorCode.NONE:
                ends[TopicPartition(topic.topic, one.partition_index)] = ReplicaEnd(one.last_epoch, one.log_end_offset)
    return ends
