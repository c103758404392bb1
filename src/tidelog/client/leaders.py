"""Asking the leaders of many partitions at once, whoever they turn out to be."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from tidelog.client.cluster import ClientRuntime, Cluster
from tidelog.client.config import ClientConfig
from tidelog.client.errors import BrokersUnreachable, ConnectionLost
from tidelog.model import BrokerId, ErrorCode, TopicPartition

T = TypeVar("T")

Ask: TypeAlias = Callable[[BrokerId, Sequence[TopicPartition]], Awaitable[Mapping[TopicPartition, T | ErrorCode]]]


class LeaderQuestions:
    """Repeats a question to those partitions that had no leader, or another one than we thought, for default.api.timeout.ms."""

    def __init__(self, cluster: Cluster, config: ClientConfig, runtime: ClientRuntime) -> None:
        self._cluster = cluster
        self._config = config
        self._runtime = runtime

    async def ask(self, partitions: Iterable[TopicPartition], ask: Ask[T]) -> dict[TopicPartition, T | ErrorCode]:
        """The answer of each partition's leader, or the error it ended with. A partition nobody knows is an error at once."""
        answers: dict[TopicPartition, T | ErrorCode] = dict.fromkeys(partitions, ErrorCode.LEADER_NOT_AVAILABLE)
        failures = 0
        try:
            async with asyncio.timeout(self._config.default_api_timeout_ms / 1000):
                while missing := [key for key, answer in answers.items() if self._is_worth_a_retry(key, answer)]:
                    if failures:
                        delay_ms = self._config.retry_backoff.delay_ms(failures, self._runtime.randomness)
                        await asyncio.sleep(delay_ms / 1000)
                    failures += 1
                    await self._cluster.refresh(*{key.topic: None for key in missing})
                    await self._round(missing, ask, answers)
        except TimeoutError:
            pass  # each partition has the error it met last
        return answers

    def _is_worth_a_retry(self, topic_partition: TopicPartition, answer: object) -> bool:
        if not isinstance(answer, ErrorCode) or answer is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return False
        if answer is ErrorCode.KAFKA_STORAGE_ERROR:
            # Another replica will lead, if there is one; a disk that failed stays so.
            partition = self._cluster.metadata.partition(topic_partition)
            return partition is not None and len(partition.replicas) > 1
        return answer.is_retriable

    async def _round(
        self, missing: Sequence[TopicPartition], ask: Ask[T], answers: dict[TopicPartition, T | ErrorCode]
    ) -> None:
        metadata = self._cluster.metadata
        by_leader: dict[BrokerId, list[TopicPartition]] = {}
        for key in missing:
            leader = metadata.leader_of(key)
            topic = metadata.topic(key.topic)
            if leader is not None:
                by_leader.setdefault(leader.broker_id, []).append(key)
            elif topic is None:
                answers[key] = metadata.error_of(key.topic) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif key.index not in {partition.index for partition in topic.partitions}:
                answers[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        async with asyncio.TaskGroup() as group:
            for node, led in by_leader.items():
                group.create_task(self._ask_broker(node, led, ask, answers))

    async def _ask_broker(
        self,
        node: BrokerId,
        led: Sequence[TopicPartition],
        ask: Ask[T],
        answers: dict[TopicPartition, T | ErrorCode],
    ) -> None:
        try:
            answers.update(await ask(node, led))
        except (ConnectionLost, BrokersUnreachable):
            answers.update(dict.fromkeys(led, ErrorCode.NETWORK_EXCEPTION))
