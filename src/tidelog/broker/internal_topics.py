"""The topics in which brokers remember what they coordinate: made when they are first needed, and written by brokers only.

How many replicas such a topic has is a setting, never how many brokers happen to live: a topic made with one replica because the others
were still starting would lose everything with that one broker. Until enough live, it is not made.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from tidelog.broker.live_config import LiveConfig
from tidelog.broker.metadata_cache import MetadataCache
from tidelog.config import BrokerConfig
from tidelog.controller import NewTopic
from tidelog.model import ApiError, ErrorCode
from tidelog.runtime import Clock
from tidelog.runtime.logs import fields

logger = logging.getLogger(__name__)

GROUPS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({GROUPS_TOPIC, TRANSACTIONS_TOPIC})

_PAUSE_MS: Final = 500.0
"""After an attempt: clients ask again and again, and the controller need not hear of each time."""
_MADE: Final = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


def groups_topic(config: BrokerConfig) -> NewTopic:
    """`__consumer_offsets` as the settings have it."""
    configs = {
        "cleanup.policy": "compact",
        "segment.bytes": str(config.offsets_topic_segment_bytes),
        "compression.type": "producer",
    }
    if config.offsets_topic_min_insync_replicas is not None:
        configs["min.insync.replicas"] = str(config.offsets_topic_min_insync_replicas)
    return NewTopic(
        name=GROUPS_TOPIC,
        num_partitions=config.offsets_topic_num_partitions,
        replication_factor=config.offsets_topic_replication_factor,
        configs=configs,
    )


def transactions_topic(config: BrokerConfig) -> NewTopic:
    """`__transaction_state` as the settings have it. A replica that missed a step must never lead: it would decide anew what is decided."""
    replication_factor = config.transaction_topic_replication_factor
    return NewTopic(
        name=TRANSACTIONS_TOPIC,
        num_partitions=config.transaction_topic_num_partitions,
        replication_factor=replication_factor,
        configs={
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(min(config.transaction_topic_min_insync_replicas, replication_factor)),
            "segment.bytes": str(config.transaction_topic_segment_bytes),
            "unclean.leader.election.enable": "false",
        },
    )


def check_internal(topic: NewTopic) -> None:
    """Raise ApiError for a topic with the name of an internal one that would forget what it must remember."""
    if topic.name in INTERNAL_TOPICS and topic.configs.get("cleanup.policy") != "compact":
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"{topic.name} is an internal topic and made when it is first needed; whoever makes it must say cleanup.policy=compact",
        )


class InternalTopics:
    """Has them made. One attempt at a time for each, and a pause after it."""

    def __init__(
        self,
        live_config: LiveConfig,
        clock: Clock,
        metadata: MetadataCache,
        create: Callable[[NewTopic], Awaitable[ErrorCode]],
    ) -> None:
        self._live_config = live_config
        self._clock = clock
        self._metadata = metadata
        self._create = create
        self._not_before_ms: dict[str, float] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._attempts: dict[str, asyncio.Task[None]] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Make them on demand until the block is left; an attempt under way is given up then."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                self._tasks = None
                for attempt in self._attempts.values():
                    attempt.cancel()

    def want_groups(self) -> str:
        """Have `__consumer_offsets` made; returns at once why it is not there yet."""
        return self._want(groups_topic(self._live_config.current), "offsets.topic.replication.factor")

    def want_transactions(self) -> str:
        """Have `__transaction_state` made; returns at once why it is not there yet."""
        return self._want(transactions_topic(self._live_config.current), "transaction.state.log.replication.factor")

    def _want(self, topic: NewTopic, factor_setting: str) -> str:
        live_count = len(self._metadata.image.brokers)
        if live_count < topic.replication_factor:
            return (
                f"{topic.name} is not made yet: {factor_setting} is {topic.replication_factor}, "
                f"and {live_count} brokers live"
            )
        now_ms = self._clock.monotonic_ms()
        if self._tasks is not None and now_ms >= self._not_before_ms.get(topic.name, 0.0):
            self._not_before_ms[topic.name] = float("inf")
            self._attempts[topic.name] = self._tasks.create_task(self._make(topic))
        return f"{topic.name} is being made"

    async def _make(self, topic: NewTopic) -> None:
        try:
            code = await self._create(topic)
        finally:
            self._not_before_ms[topic.name] = self._clock.monotonic_ms() + _PAUSE_MS
        if code not in _MADE:
            logger.warning("internal topic not made", extra=fields(topic=topic.name, reason=code.name))
