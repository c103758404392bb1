"""The consumer groups of this broker: those whose partition of `__consumer_offsets` it leads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from tidelog.broker.coordination import Coordination, CoordinationSurroundings
from tidelog.broker.internal_topics import GROUPS_TOPIC
from tidelog.broker.mail_order import MailOrder
from tidelog.config import BrokerConfig
from tidelog.coordinator import Machine
from tidelog.coordinator.internal_log import TransactionEnd
from tidelog.coordinator.shard import ShardLimits
from tidelog.model import Offset, ProducerIdentity
from tidelog.records import Codec

_TOPICS_PAUSE_S: Final = 0.1
"""Topics that change one after the other are looked at together."""


class GroupCoordination(Coordination):
    """Finds the partition of a group, and asks the machine that looks after it."""

    def __init__(
        self, config: BrokerConfig, surroundings: CoordinationSurroundings, make: Callable[[], Machine]
    ) -> None:
        limits = ShardLimits(commit_timeout_ms=config.offsets_commit_timeout_ms)
        codec = Codec(config.offsets_topic_compression_codec)
        super().__init__(GROUPS_TOPIC, surroundings, make, limits, codec=codec)
        self.mail_order: Final = MailOrder[ProducerIdentity]()
        """By which connections producers commit offsets; not those by which they write."""
        self._is_telling = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Look after groups until the block is left; then whoever waits is refused."""
        async with super().running():
            self._metadata.on_topics_changed = self._on_topics_changed
            yield

    def end_transaction(self, index: int, end: TransactionEnd) -> Offset:
        """Write a marker into a partition of `__consumer_offsets`, so that the offsets count or not; its offset. Raises ApiError."""
        return self._service.end_transaction(index, end)

    def _on_topics_changed(self) -> None:
        if self.is_started and not self._is_telling:
            self._is_telling = True
            asyncio.get_running_loop().call_later(_TOPICS_PAUSE_S, self._tell_of_topics)

    def _tell_of_topics(self) -> None:
        self._is_telling = False
        self._service.on_topics_changed()
