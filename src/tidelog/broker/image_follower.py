"""Makes the replicas of this broker what the newest cluster image says they are, then shows the image to everybody.

Logs are opened before the image can be seen, so that a client told of a leader finds it leading. Creating thousands of logs takes
longer than the loop may be held; between slices others are served.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Final, TypeVar

from tidelog.broker.live_config import LiveConfig
from tidelog.broker.metadata_cache import MetadataCache
from tidelog.broker.replica_manager import ReplicaManager
from tidelog.controller import ClusterImage, PartitionState, TopicImage
from tidelog.model import TopicPartition
from tidelog.partition import Leadership
from tidelog.runtime import Clock

T = TypeVar("T")

_SLICE_MS: Final = 5.0


class ImageFollower:
    """Applies images one after the other; only what changed since the last costs anything."""

    def __init__(
        self, live_config: LiveConfig, metadata: MetadataCache, replicas: ReplicaManager, clock: Clock
    ) -> None:
        self._live_config = live_config
        self._followed_layers = live_config.layers
        self._metadata = metadata
        self._replicas = replicas
        self._clock = clock

    async def publish(self, image: ClusterImage) -> None:
        """Follow the image, then make it visible."""
        self._live_config.follow(image)
        layers = self._live_config.layers
        async for topic, index, state in self._in_slices(
            self._changed(image, are_settings_new=layers != self._followed_layers)
        ):
            self._lead(topic, index, state)
        before = self._metadata.image
        self._followed_layers = layers
        self._metadata.publish(image)
        async for topic_partition in self._in_slices(_gone(before, image)):
            self._replicas.drop(topic_partition)

    async def _in_slices(self, items: Iterator[T]) -> AsyncIterator[T]:
        """The items, with a look at the world every few milliseconds."""
        slice_end_ms = self._clock.monotonic_ms() + _SLICE_MS
        for item in items:
            yield item
            if self._clock.monotonic_ms() >= slice_end_ms:
                await asyncio.sleep(0)
                slice_end_ms = self._clock.monotonic_ms() + _SLICE_MS

    def _changed(
        self, image: ClusterImage, *, are_settings_new: bool
    ) -> Iterator[tuple[TopicImage, int, PartitionState]]:
        """Partitions we lead that are new or differ from the last image, as do all of a topic, or broker, whose settings changed."""
        known = self._metadata.image.topics
        for name, topic in image.topics.items():
            before = known.get(name)
            if before is topic and not are_settings_new:
                continue
            is_same_topic = (
                before is not None
                and before.topic_id == topic.topic_id
                and before.configs == topic.configs
                and not are_settings_new
            )
            for index, state in topic.partitions.items():
                is_known = is_same_topic and before is not None and before.partitions.get(index) == state
                if state.leader == self._live_config.current.broker_id and not is_known:
                    yield topic, index, state

    def _lead(self, topic: TopicImage, index: int, state: PartitionState) -> None:
        self._replicas.lead(
            TopicPartition(topic.name, index),
            topic.topic_id,
            topic.log_config(self._live_config.current),
            Leadership(
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                isr=state.isr,
                assignment=state.assignment,
            ),
        )


def _gone(before: ClusterImage, after: ClusterImage) -> Iterator[TopicPartition]:
    for name, topic in before.topics.items():
        successor = after.topics.get(name)
        if successor is None or successor.topic_id != topic.topic_id:
            for index in topic.partitions:
                yield TopicPartition(name, index)
