"""What control requests say about the cluster, in the words of the cluster image."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from tidelog.config import Listener
from tidelog.controller import BrokerImage, PartitionState, TopicImage
from tidelog.model import BrokerId, TopicId
from tidelog.runtime import Address
from tidelog.wire.messages.leader_and_isr import LeaderAndIsrRequest
from tidelog.wire.messages.update_metadata import (
    LEADER_DURING_DELETE,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

UNKNOWN_EPOCH: Final = -1  # UpdateMetadata does not name the epochs of brokers.
_PARTITIONS_AT_ONCE: Final = 500

ConfigsOf: TypeAlias = Callable[[str, TopicId], Mapping[str, str]]


class MergedTopics:
    """What an update makes of the topics known before."""

    def __init__(self, known: Mapping[str, TopicImage], configs_of: ConfigsOf) -> None:
        self._known = known
        self._configs_of = configs_of
        self._after: dict[str, TopicImage | None] = {}
        self.deleted: dict[str, None] = {}
        """Topics said to be deleted, whether they were known or not."""

    @property
    def changed(self) -> list[TopicImage]:
        """Topics that are there, and differ."""
        return [topic for topic in self._after.values() if topic is not None]

    @property
    def gone(self) -> list[str]:
        """Topics that are there no more."""
        return [name for name, topic in self._after.items() if topic is None]

    def merge(self, told: UpdateMetadataTopicState) -> None:
        """Put what is told of a topic over what is known of it."""
        name = told.topic_name
        known = self._after[name] if name in self._after else self._known.get(name)
        topic_id = told.topic_id if told.topic_id is not None or known is None else known.topic_id
        is_same = known is not None and topic_id == known.topic_id
        partitions = dict(known.partitions) if known is not None and is_same else {}
        for state in told.partition_states:
            if state.leader == LEADER_DURING_DELETE:
                partitions.pop(state.partition_index, None)
                self.deleted[name] = None
            elif topic_id is not None:
                _put(partitions, topic_id, state)
        if partitions and topic_id is not None:
            configs = self._configs_of(name, topic_id)
            self._after[name] = TopicImage(name=name, topic_id=topic_id, partitions=partitions, configs=configs)
        elif is_same:
            self._after[name] = None


def leaders_of(request: LeaderAndIsrRequest) -> dict[BrokerId, Address]:
    """Where the leaders named in a request are reached by other brokers."""
    return {leader.broker_id: Address(leader.host_name, leader.port) for leader in request.live_leaders}


def brokers_of(request: UpdateMetadataRequest) -> dict[BrokerId, BrokerImage]:
    """The brokers that live."""
    return {
        broker.id: BrokerImage(
            broker_id=broker.id,
            broker_epoch=UNKNOWN_EPOCH,
            endpoints={one.listener: Listener(one.listener, one.host, one.port) for one in broker.endpoints},
            rack=broker.rack,
        )
        for broker in request.live_brokers
    }


async def merge_topics(
    known: Mapping[str, TopicImage], request: UpdateMetadataRequest, configs_of: ConfigsOf
) -> MergedTopics:
    """Put what was told over what was known, some partitions at a time with a look at the world in between."""
    merged = MergedTopics(known, configs_of)
    partition_count = 0
    for told in request.topic_states:
        merged.merge(told)
        partition_count += len(told.partition_states)
        if partition_count > _PARTITIONS_AT_ONCE:
            partition_count = 0
            await asyncio.sleep(0)
    return merged


def _put(partitions: dict[int, PartitionState], topic_id: TopicId, told: UpdateMetadataPartitionState) -> None:
    """Of two tellings that overtook each other on their way, the newer one holds (N08)."""
    before = partitions.get(told.partition_index)
    if before is None or before.partition_epoch <= told.zk_version:
        partitions[told.partition_index] = _state(topic_id, told)


def _state(topic_id: TopicId, told: UpdateMetadataPartitionState) -> PartitionState:
    return PartitionState(
        topic_id=topic_id,
        assignment=told.replicas,
        leader=told.leader,
        leader_epoch=told.leader_epoch,
        isr=told.isr,
        partition_epoch=told.zk_version,
    )
