"""Asking leaders for offsets: of a point in time, of the start, of the end of a log."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from tidelog.client.cluster import HOPELESS_TOPIC, ClientRuntime, Cluster
from tidelog.client.config import ClientConfig
from tidelog.client.errors import (
    BrokersUnreachable,
    ClientError,
    ConnectionLost,
    FetchFailed,
    NoPosition,
    TopicUnavailable,
    UnsupportedApi,
)
from tidelog.client.verdict import SAYS_METADATA_IS_STALE
from tidelog.model import BrokerId, ErrorCode, IsolationLevel, LeaderEpoch, Offset, TimestampMs, TopicPartition
from tidelog.wire.messages.list_offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

EARLIEST: Final = EARLIEST_TIMESTAMP
LATEST: Final = LATEST_TIMESTAMP
_CONSUMER: Final = -1


class FoundOffset(NamedTuple):
    """An offset and the record that is there: timestamp and epoch are -1 where an end of the log was asked for."""

    offset: Offset
    timestamp_ms: TimestampMs
    leader_epoch: LeaderEpoch


Answer: TypeAlias = FoundOffset | ClientError | None
"""What was found, None where the log has nothing so young, or why asking again is pointless."""


class OffsetLookup:
    """Answers for many partitions at once, each from its leader, whoever that turns out to be."""

    def __init__(
        self, cluster: Cluster, config: ClientConfig, runtime: ClientRuntime, isolation_level: IsolationLevel
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._runtime = runtime
        self._isolation_level = isolation_level

    async def find(self, wanted: Mapping[TopicPartition, TimestampMs]) -> dict[TopicPartition, FoundOffset | None]:
        """The first offset at or after each time (or EARLIEST, LATEST); None where the log has nothing so young.

        Retries for default.api.timeout.ms, then raises NoPosition; FetchFailed or TopicUnavailable for what waiting does not cure.
        """
        found: dict[TopicPartition, FoundOffset | None] = {}
        failures = 0
        try:
            async with asyncio.timeout(self._config.default_api_timeout_ms / 1000):
                while missing := {key: wanted[key] for key in wanted if key not in found}:
                    if failures:
                        delay_ms = self._config.retry_backoff.delay_ms(failures, self._runtime.randomness)
                        await asyncio.sleep(delay_ms / 1000)
                    failures += 1
                    for topic_partition, answer in (await self.ask(missing)).items():
                        if isinstance(answer, ClientError):
                            raise answer
                        found[topic_partition] = answer
        except TimeoutError:
            unanswered = ", ".join(str(key) for key in wanted if key not in found)
            raise NoPosition(f"no offset of {unanswered} within {self._config.default_api_timeout_ms} ms") from None
        return found

    async def ask(self, wanted: Mapping[TopicPartition, TimestampMs]) -> dict[TopicPartition, Answer]:
        """One round of questions; partitions nobody could answer for yet are left out."""
        await self._learn_leaders(wanted)
        by_leader: dict[BrokerId, dict[TopicPartition, TimestampMs]] = {}
        answers: dict[TopicPartition, Answer] = {}
        for topic_partition, timestamp_ms in wanted.items():
            leader = self._cluster.metadata.leader_of(topic_partition)
            code = self._cluster.metadata.error_of(topic_partition.topic)
            if leader is not None:
                by_leader.setdefault(leader.broker_id, {})[topic_partition] = timestamp_ms
            elif code in HOPELESS_TOPIC:
                answers[topic_partition] = TopicUnavailable(topic_partition.topic, code)
        async with asyncio.TaskGroup() as group:
            for node, partitions in by_leader.items():
                group.create_task(self._ask_broker(node, partitions, answers))
        return answers

    async def _learn_leaders(self, wanted: Iterable[TopicPartition]) -> None:
        topics = {key.topic: None for key in wanted}
        self._cluster.track(*topics)
        unknown = {key.topic: None for key in wanted if self._cluster.metadata.leader_of(key) is None}
        if unknown:
            await self._cluster.refresh(*unknown)

    async def _ask_broker(
        self, node: BrokerId, wanted: Mapping[TopicPartition, TimestampMs], answers: dict[TopicPartition, Answer]
    ) -> None:
        try:
            response = await self._cluster.request(node, self._request(wanted))
        except (ConnectionLost, BrokersUnreachable):
            self._cluster.want_refresh()
            return
        except UnsupportedApi as error:
            answers.update(dict.fromkeys(wanted, error))
            return
        for topic in response.topics:
            for partition in topic.partitions:
                topic_partition = TopicPartition(topic.name, partition.partition_index)
                if partition.error_code is ErrorCode.NONE:
                    found = FoundOffset(partition.offset, partition.timestamp, partition.leader_epoch)
                    answers[topic_partition] = found if partition.offset >= 0 else None
                elif partition.error_code in SAYS_METADATA_IS_STALE:
                    self._cluster.want_refresh(topic.name)
                elif not partition.error_code.is_retriable:
                    answers[topic_partition] = FetchFailed(topic_partition, partition.error_code)

    def _request(self, wanted: Mapping[TopicPartition, TimestampMs]) -> ListOffsetsRequest:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for topic_partition, timestamp_ms in wanted.items():
            leader = self._cluster.metadata.leader_of(topic_partition)
            topics.setdefault(topic_partition.topic, []).append(
                ListOffsetsPartition(
                    partition_index=topic_partition.index,
                    current_leader_epoch=-1 if leader is None else leader.leader_epoch,
                    timestamp=timestamp_ms,
                )
            )
        return ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=self._isolation_level,
            topics=tuple(ListOffsetsTopic(name=name, partitions=tuple(parts)) for name, parts in topics.items()),
            timeout_ms=self._config.request_timeout_ms,
        )
