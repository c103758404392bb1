"""Looking after replicas: who leads, who has which partition, and how far each replica is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tidelog.client.admin_messages import by_topic, replica
from tidelog.client.admin_values import ElectionKind, PartitionResult, Reassignment, ReplicaDescription
from tidelog.client.cluster import ClientRuntime, Cluster
from tidelog.client.config import ClientConfig
from tidelog.client.controller_questions import ControllerQuestions
from tidelog.client.errors import BrokersUnreachable, ConnectionLost, RequestRefused
from tidelog.model import BrokerEpoch, BrokerId, ErrorCode, TopicPartition
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.describe_replicas import DescribeReplicasRequest, DescribeReplicasResponse, ReplicasWanted
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from tidelog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

_DESCRIBE_REPLICAS_VERSION: Final = 0  # said outright, since brokers do not advertise what is not of Kafka's protocol
_DESCRIBE_REPLICAS_TIMEOUT_MS: Final = 3_000.0  # who shows replicas would rather leave one broker out than wait for it


class ReplicaAdmin:
    """The part of an admin that looks after replicas."""

    def __init__(self, cluster: Cluster, config: ClientConfig, runtime: ClientRuntime) -> None:
        self._cluster = cluster
        self._config = config
        self._runtime = runtime
        self._controller = ControllerQuestions(cluster, config, runtime)

    async def elect_leaders(
        self, kind: ElectionKind, partitions: Iterable[TopicPartition] | None
    ) -> dict[TopicPartition, PartitionResult]:
        """Elect leaders of these partitions, or of all; what became of each, where all were meant only of those that changed or failed.

        Raises RequestRefused, BrokersUnreachable or UnsupportedApi.
        """
        wanted = None
        if partitions is not None:
            wanted = tuple(
                TopicPartitions(topic=topic, partitions=tuple(key.index for key in keys))
                for topic, keys in by_topic(partitions).items()
            )
        request = ElectLeadersRequest(
            election_type=kind, topic_partitions=wanted, timeout_ms=self._config.request_timeout_ms
        )
        response = await self._controller.request(request, _codes_of_election)
        _check(response.error_code, None)
        return {
            TopicPartition(topic.topic, row.partition_id): PartitionResult(
                code=row.error_code, message=row.error_message
            )
            for topic in response.replica_election_results
            for row in topic.partition_result
        }

    async def alter_reassignments(
        self, wanted: Mapping[TopicPartition, Sequence[BrokerId] | None]
    ) -> dict[TopicPartition, PartitionResult]:
        """Begin to move partitions to these brokers, the preferred leader first; None ends a move that is under way.

        Raises RequestRefused, BrokersUnreachable or UnsupportedApi.
        """
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=self._config.request_timeout_ms,
            topics=tuple(
                ReassignableTopic(
                    name=topic,
                    partitions=tuple(
                        ReassignablePartition(partition_index=key.index, replicas=_brokers(wanted[key])) for key in keys
                    ),
                )
                for topic, keys in by_topic(wanted).items()
            ),
        )
        response = await self._controller.request(request, _codes_of_reassignment)
        _check(response.error_code, response.error_message)
        return {
            TopicPartition(topic.name, row.partition_index): PartitionResult(
                code=row.error_code, message=row.error_message
            )
            for topic in response.responses
            for row in topic.partitions
        }

    async def list_reassignments(self, partitions: Iterable[TopicPartition] | None = None) -> list[Reassignment]:
        """Which of these partitions, or of all, are moving. Raises RequestRefused, BrokersUnreachable or UnsupportedApi."""
        topics = None
        if partitions is not None:
            topics = tuple(
                ListPartitionReassignmentsTopics(name=topic, partition_indexes=tuple(key.index for key in keys))
                for topic, keys in by_topic(partitions).items()
            )
        request = ListPartitionReassignmentsRequest(timeout_ms=self._config.request_timeout_ms, topics=topics)
        response = await self._controller.request(request, lambda answer: [answer.error_code])
        _check(response.error_code, response.error_message)
        return [
            Reassignment(
                topic_partition=TopicPartition(topic.name, row.partition_index),
                replicas=row.replicas,
                adding=row.adding_replicas,
                removing=row.removing_replicas,
            )
            for topic in response.topics
            for row in topic.partitions
        ]

    async def describe_replicas(
        self, partitions: Iterable[TopicPartition] | None = None, *, brokers: Iterable[BrokerId] | None = None
    ) -> dict[BrokerId, tuple[ReplicaDescription, ...]]:
        """What each of these brokers, or of all live ones, says of its replicas of these partitions, or of all.

        A broker that does not answer soon, or is not one of ours, is left out. Raises BrokersUnreachable if none answers.
        """
        topics = None
        if partitions is not None:
            topics = tuple(
                ReplicasWanted(topic=topic, partitions=tuple(key.index for key in keys))
                for topic, keys in by_topic(partitions).items()
            )
        answers = await self._ask_each(DescribeReplicasRequest(topics=topics), brokers)
        return {
            node: tuple(
                replica(topic, row)
                for topic in answer.topics
                for row in topic.partitions
                # Everybody is asked about every partition; who has no replica of it has nothing to tell.
                if row.error_code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            for node, answer in answers.items()
        }

    async def broker_epochs(self) -> dict[BrokerId, BrokerEpoch]:
        """The epoch of each broker's registration, where it tells. Raises BrokersUnreachable if none answers."""
        answers = await self._ask_each(DescribeReplicasRequest(topics=()), None)
        return {node: answer.broker_epoch for node, answer in answers.items()}

    async def _ask_each(
        self, request: DescribeReplicasRequest, brokers: Iterable[BrokerId] | None
    ) -> dict[BrokerId, DescribeReplicasResponse]:
        await self._cluster.refresh_in_time()
        wanted = sorted(self._cluster.metadata.brokers if brokers is None else set(brokers))
        async with asyncio.TaskGroup() as group:
            asked = {node: group.create_task(self._ask_one(node, request)) for node in wanted}
        answers = {node: task.result() for node, task in asked.items()}
        heard = {node: answer for node, answer in answers.items() if answer is not None}
        if not heard:
            raise BrokersUnreachable(f"none of the brokers {', '.join(map(str, wanted))} told of its replicas")
        return heard

    async def _ask_one(self, node: BrokerId, request: DescribeReplicasRequest) -> DescribeReplicasResponse | None:
        timeout_ms = min(_DESCRIBE_REPLICAS_TIMEOUT_MS, self._config.request_timeout_ms)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                answer = await self._cluster.request(
                    node, request, timeout_ms=timeout_ms, version=_DESCRIBE_REPLICAS_VERSION
                )
        except (ConnectionLost, BrokersUnreachable, TimeoutError):
            return None
        return answer if answer.error_code is ErrorCode.NONE else None


def _check(code: ErrorCode, message: str | None) -> None:
    if code is not ErrorCode.NONE:
        raise RequestRefused(code, message)


def _brokers(wanted: Sequence[BrokerId] | None) -> tuple[BrokerId, ...] | None:
    return None if wanted is None else tuple(wanted)


def _codes_of_election(answer: ElectLeadersResponse) -> list[ErrorCode]:
    rows = [row.error_code for topic in answer.replica_election_results for row in topic.partition_result]
    return [answer.error_code, *rows]


def _codes_of_reassignment(answer: AlterPartitionReassignmentsResponse) -> list[ErrorCode]:
    return [answer.error_code, *(row.error_code for topic in answer.responses for row in topic.partitions)]
