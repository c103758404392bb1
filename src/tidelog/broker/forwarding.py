"""The way to the controller, for what only it may decide."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TypeVar

from tidelog.broker import controller_requests
from tidelog.broker.metadata_cache import MetadataCache
from tidelog.broker.peers import Peers
from tidelog.client.errors import ConnectionLost, UnsupportedApi
from tidelog.controller import NO_BROKER, NewTopic
from tidelog.controller.service import ControllerService
from tidelog.model import ApiError, BrokerId, ErrorCode
from tidelog.runtime.logs import fields
from tidelog.wire.api import Request, Response
from tidelog.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from tidelog.wire.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from tidelog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

logger = logging.getLogger(__name__)

R = TypeVar("R", bound=Response)


class ControllerLine:
    """Asks the controller, whoever that is at present, also if it is this very broker."""

    def __init__(self, controller: ControllerService, peers: Peers, metadata: MetadataCache) -> None:
        self._controller = controller
        self._peers = peers
        self._metadata = metadata

    @property
    def controller_id(self) -> BrokerId:
        """Who decides, as far as we know."""
        known = self._controller.controller_id
        return self._metadata.controller_id if known == NO_BROKER else known

    async def ask(self, request: Request[R], *, version: int | None = None, timeout_ms: float | None = None) -> R:
        """Ask a controller that is another broker. Raises ConnectionLost, UnsupportedApi; ApiError while nobody knows one."""
        controller_id = self.controller_id
        if controller_id == NO_BROKER or self._controller.is_active:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "no other broker is known to be the controller")
        return await self._peers.request(controller_id, request, version=version, timeout_ms=timeout_ms)

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Propose other in-sync replicas. Raises as `ask` does."""
        if self._controller.is_active:
            return await controller_requests.alter_partition(self._controller, request)
        return await self.ask(request)

    async def controlled_shutdown(
        self, request: ControlledShutdownRequest, *, timeout_ms: float
    ) -> ControlledShutdownResponse:
        """Ask to be relieved of all leaderships. Raises as `ask` does."""
        if self._controller.is_active:
            return await controller_requests.controlled_shutdown(self._controller, request)
        return await self.ask(request, timeout_ms=timeout_ms)

    async def create_topics(self, topics: Sequence[NewTopic]) -> dict[str, ErrorCode]:
        """Make topics, with counts as the controller's settings have them where none are given; what became of each."""
        if self._controller.is_active:
            results = await self._controller.create_topics(list(topics))
            return {one.name: ErrorCode.NONE if one.error is None else one.error.code for one in results}
        try:
            response = await self.ask(CreateTopicsRequest(topics=tuple(_creatable(topic) for topic in topics)))
        except (ConnectionLost, UnsupportedApi, ApiError) as error:
            logger.warning("topics not created", extra=fields(topics=[topic.name for topic in topics], reason=error))
            return {topic.name: ErrorCode.LEADER_NOT_AVAILABLE for topic in topics}
        return {topic.name: topic.error_code for topic in response.topics}

    async def create_topic(self, topic: NewTopic) -> ErrorCode:
        """Make one topic; what became of it."""
        return (await self.create_topics([topic]))[topic.name]


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=(),
        configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()),
    )
