"""Looking after topics: create, delete, list, describe."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar

from tidelog.client.cluster import ClientRuntime, Cluster, Lane
from tidelog.client.config import ClientConfig
from tidelog.client.connection import Connection
from tidelog.client.errors import BrokersUnreachable, ClientError, ConnectionLost
from tidelog.client.metadata import NO_LEADER, MetadataCache, TopicMetadata
from tidelog.model import BrokerEndpoint, BrokerId, ErrorCode, TopicId
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

T = TypeVar("T")

_TOPIC_STATES_FROM: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create; -1 takes the broker's default, `assignment` says which brokers hold which partition instead."""

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    assignment: Mapping[int, Sequence[BrokerId]] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicResult:
    """What became of one topic."""

    name: str
    code: ErrorCode
    message: str | None = None
    topic_id: TopicId | None = None

    @property
    def is_ok(self) -> bool:
        """Whether it was done."""
        return self.code is ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """Who is there."""

    cluster_id: str | None
    controller_id: BrokerId
    brokers: tuple[BrokerEndpoint, ...]


class Admin:
    """Talks to the controller where it must, to any broker where it can. Owns nothing but what its cluster owns."""

    def __init__(self, cluster: Cluster, config: ClientConfig, runtime: ClientRuntime) -> None:
        self._cluster = cluster
        self._config = config
        self._runtime = runtime

    @classmethod
    @asynccontextmanager
    async def connect(cls, config: ClientConfig, runtime: ClientRuntime) -> AsyncIterator[Admin]:
        """An admin with a cluster of its own, gone when the block ends."""
        async with Cluster(config, runtime) as cluster:
            yield cls(cluster, config, runtime)

    async def create_topics(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> list[TopicResult]:
        """Create topics, and wait until every broker can tell who leads them; one result per topic, none raised."""
        request = CreateTopicsRequest(
            topics=tuple(_creatable(topic) for topic in topics),
            timeout_ms=self._config.request_timeout_ms,
            validate_only=validate_only,
        )

        async def ask(controller: Connection) -> CreateTopicsResponse:
            return await controller.request(request)

        response = await self._ask_controller(ask, lambda answer: [topic.error_code for topic in answer.topics])
        results = [
            TopicResult(name=t.name, code=t.error_code, message=t.error_message, topic_id=t.topic_id)
            for t in response.topics
        ]
        created = [result.name for result in results if result.is_ok]
        if created and not validate_only:
            await self._until_everywhere(lambda known: all(_is_ready(known.get(name)) for name in created), created)
        return results

    async def delete_topics(self, names: Iterable[str]) -> list[TopicResult]:
        """Delete topics, and wait until no broker knows them any more; one result per topic, none raised."""
        wanted = tuple(names)

        async def ask(controller: Connection) -> DeleteTopicsResponse:
            takes_states = controller.version_of(ApiKey.DELETE_TOPICS) >= _TOPIC_STATES_FROM
            return await controller.request(
                DeleteTopicsRequest(
                    topics=tuple(DeleteTopicState(name=name) for name in wanted) if takes_states else (),
                    topic_names=() if takes_states else wanted,
                    timeout_ms=self._config.request_timeout_ms,
                )
            )

        response = await self._ask_controller(ask, lambda answer: [topic.error_code for topic in answer.responses])
        results = [
            TopicResult(name=t.name or "", code=t.error_code, message=t.error_message, topic_id=t.topic_id)
            for t in response.responses
        ]
        gone = [result.name for result in results if result.is_ok]
        if gone:
            await self._until_everywhere(lambda known: not any(name in known for name in gone), gone)
        return results

    async def list_topics(self, *, include_internal: bool = False) -> list[str]:
        """The names of all topics, sorted."""
        known = await self._ask_metadata(None, None)
        return sorted(name for name, topic in known.topics.items() if include_internal or not topic.is_internal)

    async def describe_topics(self, names: Iterable[str]) -> dict[str, TopicMetadata | ErrorCode]:
        """What is known of each topic, or why nothing is."""
        wanted = list(dict.fromkeys(names))
        known = await self._ask_metadata(None, wanted)
        return {
            name: known.topics.get(name) or known.error_of(name) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for name in wanted
        }

    async def describe_cluster(self) -> ClusterDescription:
        """The cluster's id, its controller and its live brokers."""
        known = await self._ask_metadata(None, [])
        return ClusterDescription(
            cluster_id=known.cluster_id,
            controller_id=known.controller_id,
            brokers=tuple(sorted(known.brokers.values())),
        )

    async def _ask_metadata(self, node: BrokerId | None, names: list[str] | None) -> MetadataCache:
        """One broker's view of some topics, or with None of all, free of what we thought before."""
        topics = None if names is None else tuple(MetadataRequestTopic(name=name) for name in names)
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        view = MetadataCache()
        view.update(await self._cluster.request(node, request), self._runtime.clock.monotonic_ms())
        return view

    async def _ask_controller(
        self, ask: Callable[[Connection], Awaitable[T]], codes_of: Callable[[T], list[ErrorCode]]
    ) -> T:
        """Ask until the broker we ask is the controller. Raises BrokersUnreachable after default.api.timeout.ms."""
        failure: ClientError = BrokersUnreachable("the cluster has no controller")
        failures = 0
        try:
            async with asyncio.timeout(self._config.default_api_timeout_ms / 1000):
                while True:
                    if failures or self._cluster.metadata.controller_id == NO_LEADER:
                        await self._cluster.refresh()
                    try:
                        controller = await self._cluster.connect(self._cluster.metadata.controller_id, Lane.CONTROL)
                        answer = await ask(controller)
                        if ErrorCode.NOT_CONTROLLER not in codes_of(answer):
                            return answer
                    except (ConnectionLost, BrokersUnreachable) as error:
                        failure = error
                    failures += 1
                    delay_ms = self._config.retry_backoff.delay_ms(failures, self._runtime.randomness)
                    await asyncio.sleep(delay_ms / 1000)
        except TimeoutError:
            raise BrokersUnreachable(f"the controller did not answer; last: {failure}") from failure

    async def _until_everywhere(self, is_so: Callable[[Mapping[str, TopicMetadata]], bool], names: list[str]) -> None:
        """Wait until every live broker's metadata agrees; gives up quietly, for the change itself is done, after request.timeout.ms."""
        try:
            async with asyncio.timeout(self._config.request_timeout_ms / 1000):
                await self._cluster.refresh()
                failures = 0
                while not await self._is_everywhere(is_so, names):
                    failures += 1
                    delay_ms = self._config.retry_backoff.delay_ms(failures, self._runtime.randomness)
                    await asyncio.sleep(delay_ms / 1000)
        except TimeoutError:
            return

    async def _is_everywhere(self, is_so: Callable[[Mapping[str, TopicMetadata]], bool], names: list[str]) -> bool:
        for node in sorted(self._cluster.metadata.brokers):
            try:
                if not is_so((await self._ask_metadata(node, names)).topics):
                    return False
            except (ConnectionLost, BrokersUnreachable):
                # A broker that is gone need not know; the next refresh says whether it is.
                self._cluster.want_refresh()
        return True


def _is_ready(topic: TopicMetadata | None) -> bool:
    return topic is not None and topic.has_all_leaders


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if topic.assignment else topic.partition_count,
        replication_factor=-1 if topic.assignment else topic.replication_factor,
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=index, broker_ids=tuple(brokers))
            for index, brokers in sorted(topic.assignment.items())
        ),
        configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()),
    )
