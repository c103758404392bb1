"""What control requests say about the cluster, in the words of the cluster image."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

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


@dataclass(slots=True)
class MergedTopics:
    """What an update makes of the topics known before."""

    changed: list[TopicImage] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)  # Known before, and no more.
    deleted: list[str] = field(default_factory=list)  # Said to be deleted, whether known or not.


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
    known: Mapping[str, TopicImage],
    request: UpdateMetadataRequest,
    configs_of: Callable[[str, TopicId], Mapping[str, str]],
) -> MergedTopics:
    """Put what was told over what was known, some partitions at a time with a look at the world in between."""
    merged = MergedTopics()
    partition_count = 0
    for told in request.topic_states:
        _merge(known.get(told.topic_name), told, configs_of, merged)
        partition_count += len(told.partition_states)
        if partition_count > _PARTITIONS_AT_ONCE:
            partition_count = 0
            await asyncio.sleep(0)
    return merged


def _merge(
    known: TopicImage | None,
    told: UpdateMetadataTopicState,
    configs_of: Callable[[str, TopicId], Mapping[str, str]],
    merged: MergedTopics,
) -> None:
    topic_id, name = told.topic_id, told.topic_name
    is_same = known is not None and topic_id in (None, known.topic_id)
    partitions = dict(known.partitions) if known is not None and is_same else {}
    is_deleted = False
    for state in told.partition_states:
        if state.leader == LEADER_DURING_DELETE:
            partitions.pop(state.partition_index, None)
            is_deleted = True
        elif topic_id is not None:
            before = partitions.get(state.partition_index)
            # Of two tellings that overtook each other on their way, the newer one holds (N08).
            if before is None or before.partition_epoch <= state.zk_version:
                partitions[state.partition_index] = _state(topic_id, state)
    if is_deleted:
        merged.deleted.append(name)
    if partitions and topic_id is not None:
        configs = configs_of(name, topic_id)
        merged.changed.append(TopicImage(name=name, topic_id=topic_id, partitions=partitions, configs=configs))
    elif known is not None and is_same:
        merged.gone.append(name)


def _state(topic_id: TopicId, told: UpdateMetadataPartitionState) -> PartitionState:
    return PartitionState(
        topic_id=topic_id,
        assignment=told.replicas,
        leader=told.leader,
        leader_epoch=told.leader_epoch,
        isr=told.isr,
        partition_epoch=told.zk_version,
    )
