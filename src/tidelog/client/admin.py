"""Looking after a cluster: topics, partitions, records, settings, directories, producers.

Replicas are in `admin_replicas`, groups in `admin_groups`, transactions in `admin_transactions`, faults for tests in `admin_faults`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Final, TypeVar

from tidelog.client.admin_faults import FaultAdmin
from tidelog.client.admin_groups import GroupAdmin
from tidelog.client.admin_messages import by_topic, config_entry, creatable_topic, growing_topic, log_dir
from tidelog.client.admin_replicas import ReplicaAdmin
from tidelog.client.admin_transactions import TransactionAdmin
from tidelog.client.admin_values import (
    ClusterDescription,
    ConfigChange,
    ConfigResource,
    LogDirDescription,
    MorePartitions,
    NewTopic,
    ProducerDescription,
    ResourceResult,
    TopicResult,
)
from tidelog.client.brought import Settings, brought
from tidelog.client.cluster import ClientRuntime, Cluster
from tidelog.client.config import ClientConfig
from tidelog.client.connection import Connection
from tidelog.client.errors import BrokersUnreachable, ConnectionLost, UnsupportedApi
from tidelog.client.leaders import LeaderQuestions
from tidelog.client.metadata import MetadataCache, TopicMetadata
from tidelog.model import BrokerEndpoint, BrokerId, ErrorCode, Offset, TopicPartition
from tidelog.wire.api import ApiKey, Request, Response
from tidelog.wire.messages import describe_configs, incremental_alter_configs
from tidelog.wire.messages.create_partitions import CreatePartitionsRequest
from tidelog.wire.messages.create_topics import CreateTopicsRequest
from tidelog.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from tidelog.wire.messages.describe_cluster import DescribeClusterRequest
from tidelog.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

R = TypeVar("R", bound=Response)

_TOPIC_STATES_FROM: Final = 6


class Admin(ReplicaAdmin):
    """Talks to the controller where it must, to any broker where it can; groups are looked after by `groups`, transactions by `transactions`.

    `async with Admin("127.0.0.1:9092") as admin` brings its own cluster; given one, it owns nothing and needs no block.
    """

    def __init__(
        self,
        cluster: Cluster | str,
        config: ClientConfig | Settings | None = None,
        runtime: ClientRuntime | None = None,
    ) -> None:
        ground = brought(cluster, config, runtime, ClientConfig, Cluster)
        self._own_cluster = ground.own
        cluster, config, runtime = ground.cluster, ground.config, ground.runtime
        super().__init__(cluster, config, runtime)
        self.groups = GroupAdmin(cluster, config, runtime)
        self.transactions = TransactionAdmin(cluster, config, runtime)
        self.faults = FaultAdmin(cluster)
        self._leaders = LeaderQuestions(cluster, config, runtime)

    @classmethod
    @asynccontextmanager
    async def connect(cls, config: ClientConfig, runtime: ClientRuntime) -> AsyncIterator[Admin]:
        """An admin with a cluster of its own, gone when the block ends."""
        async with Cluster(config, runtime) as cluster:
            yield cls(cluster, config, runtime)

    async def __aenter__(self) -> Admin:
        if self._own_cluster is not None:
            await self._own_cluster.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._own_cluster is not None:
            await self._own_cluster.__aexit__(kind, error, traceback)

    @property
    def last_failure(self) -> str:
        """What the last attempt to learn about the cluster ran into, for one who waited in vain."""
        return str(self._cluster.why_unreachable())

    async def create_topics(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> list[TopicResult]:
        """Create topics, and wait until every broker can tell who leads them; one result per topic, none raised."""
        request = CreateTopicsRequest(
            topics=tuple(creatable_topic(topic) for topic in topics),
            timeout_ms=self._config.request_timeout_ms,
            validate_only=validate_only,
        )

        response = await self._controller.request(request, lambda answer: [topic.error_code for topic in answer.topics])
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

        response = await self._controller.ask(ask, lambda answer: [topic.error_code for topic in answer.responses])
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

    async def create_partitions(
        self, topics: Iterable[MorePartitions], *, validate_only: bool = False
    ) -> list[TopicResult]:
        """Give topics more partitions, and wait until every broker can tell who leads them; one result per topic, none raised."""
        wanted = {topic.name: topic for topic in topics}
        request = CreatePartitionsRequest(
            topics=tuple(growing_topic(topic) for topic in wanted.values()),
            timeout_ms=self._config.request_timeout_ms,
            validate_only=validate_only,
        )

        response = await self._controller.request(
            request, lambda answer: [topic.error_code for topic in answer.results]
        )
        results = [TopicResult(name=t.name, code=t.error_code, message=t.error_message) for t in response.results]
        grown = [result.name for result in results if result.is_ok]
        if grown and not validate_only:
            await self._until_everywhere(
                lambda known: all(_is_ready(known.get(name), wanted[name].total_count) for name in grown), grown
            )
        return results

    async def delete_records(self, before: Mapping[TopicPartition, Offset]) -> dict[TopicPartition, Offset | ErrorCode]:
        """Make records below these offsets unreadable (TO_HIGH_WATERMARK: all there are); where each partition begins then, or why not."""

        async def ask(node: BrokerId, led: Sequence[TopicPartition]) -> dict[TopicPartition, Offset | ErrorCode]:
            topics = tuple(
                DeleteRecordsTopic(
                    name=name,
                    partitions=tuple(
                        DeleteRecordsPartition(partition_index=key.index, offset=before[key]) for key in keys
                    ),
                )
                for name, keys in by_topic(led).items()
            )
            request = DeleteRecordsRequest(topics=topics, timeout_ms=self._config.request_timeout_ms)
            answered = (await self._cluster.request(node, request)).topics
            return {
                TopicPartition(topic.name, row.partition_index): (
                    row.low_watermark if row.error_code is ErrorCode.NONE else row.error_code
                )
                for topic in answered
                for row in topic.partitions
            }

        return await self._leaders.ask(before, ask)

    async def describe_configs(
        self, resources: Iterable[ConfigResource], *, names: Iterable[str] | None = None
    ) -> list[ResourceResult]:
        """All settings of each resource, or those named, with where they come from and what they mean; none raised."""
        keys = None if names is None else tuple(names)
        results = []
        for resource in dict.fromkeys(resources):
            wanted = describe_configs.DescribeConfigsResource(
                resource_type=resource.kind, resource_name=resource.name, configuration_keys=keys
            )
            request = describe_configs.DescribeConfigsRequest(
                resources=(wanted,), include_synonyms=True, include_documentation=True
            )
            (found,) = (await self._ask_broker_of(resource, request)).results
            entries = {row.name: config_entry(row) for row in found.configs}
            results.append(
                ResourceResult(resource=resource, code=found.error_code, message=found.error_message, configs=entries)
            )
        return results

    async def alter_configs(
        self, changes: Mapping[ConfigResource, Sequence[ConfigChange]], *, validate_only: bool = False
    ) -> list[ResourceResult]:
        """Change settings, all of a resource or none; the others stay. One result per resource, none raised."""
        results = []
        for resource, wanted in changes.items():
            row = incremental_alter_configs.AlterConfigsResource(
                resource_type=resource.kind,
                resource_name=resource.name,
                configs=tuple(
                    incremental_alter_configs.AlterableConfig(
                        name=one.name, config_operation=one.operation, value=one.value
                    )
                    for one in wanted
                ),
            )
            request = incremental_alter_configs.IncrementalAlterConfigsRequest(
                resources=(row,), validate_only=validate_only
            )
            (answered,) = (await self._alter(resource, request)).responses
            results.append(ResourceResult(resource=resource, code=answered.error_code, message=answered.error_message))
        return results

    async def describe_log_dirs(
        self, brokers: Iterable[BrokerId] | None = None
    ) -> dict[BrokerId, tuple[LogDirDescription, ...]]:
        """The log directories of these brokers, or of all. Raises ConnectionLost or BrokersUnreachable for one that is not there."""
        await self._cluster.refresh_in_time()
        wanted = sorted(self._cluster.metadata.brokers if brokers is None else brokers)
        answers = {node: await self._cluster.request(node, DescribeLogDirsRequest(topics=None)) for node in wanted}
        return {node: tuple(log_dir(row) for row in answer.results) for node, answer in answers.items()}

    async def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[ProducerDescription, ...] | ErrorCode]:
        """The producers each partition remembers, or why it cannot say."""
        return await self.transactions.describe_producers(partitions)

    async def describe_cluster(self) -> ClusterDescription:
        """The cluster's id, its controller and its live brokers."""
        try:
            answer = await self._cluster.request(None, DescribeClusterRequest())
        except UnsupportedApi:  # before Kafka 2.8
            known = await self._ask_metadata(None, [])
            brokers = tuple(sorted(known.brokers.values()))
            return ClusterDescription(cluster_id=known.cluster_id, controller_id=known.controller_id, brokers=brokers)
        return ClusterDescription(
            cluster_id=answer.cluster_id,
            controller_id=answer.controller_id,
            brokers=tuple(
                sorted(BrokerEndpoint(row.broker_id, row.host, row.port, row.rack) for row in answer.brokers)
            ),
        )

    async def _alter(
        self, resource: ConfigResource, request: incremental_alter_configs.IncrementalAlterConfigsRequest
    ) -> incremental_alter_configs.IncrementalAlterConfigsResponse:
        """A broker must hear of its own settings first, since only it can tell whether they fit; the rest is the controller's."""
        if resource.broker_id is not None:
            return await self._ask_broker_of(resource, request)
        return await self._controller.request(request, lambda answer: [row.error_code for row in answer.responses])

    async def _ask_broker_of(self, resource: ConfigResource, request: Request[R]) -> R:
        """A broker knows its own settings; of topics any can tell. Raises ConnectionLost or BrokersUnreachable."""
        node = resource.broker_id
        if node is not None and node not in self._cluster.metadata.brokers:
            await self._cluster.refresh_in_time()
        return await self._cluster.request(node, request)

    async def _ask_metadata(self, node: BrokerId | None, names: list[str] | None) -> MetadataCache:
        """One broker's view of some topics, or with None of all, free of what we thought before."""
        topics = None if names is None else tuple(MetadataRequestTopic(name=name) for name in names)
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        view = MetadataCache()
        view.update(await self._cluster.request(node, request), self._runtime.clock.monotonic_ms())
        return view

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


def _is_ready(topic: TopicMetadata | None, partition_count_min: int = 1) -> bool:
    return topic is not None and topic.has_all_leaders and len(topic.partitions) >= partition_count_min
