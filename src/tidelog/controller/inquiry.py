"""Asking brokers how far their logs go, all at once, and only as long as it helps."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from tidelog.controller.channels import ClusterChannels, ReplicaEnd
from tidelog.controller.commands import ElectGreatest
from tidelog.controller.election import knowing
from tidelog.controller.image import ClusterImage
from tidelog.model import ApiError, BrokerId, TopicPartition
from tidelog.runtime.logs import fields

logger = logging.getLogger(__name__)


async def ask_for_ends(
    channels: ClusterChannels, image: ClusterImage, partitions: Sequence[TopicPartition]
) -> ElectGreatest | None:
    """What the logs of partitions say, of those all of whose brokers with standing answered; None if there are none.

    The other live replicas are asked too: one of them may have more than is left where it should be.
    """
    asked: dict[BrokerId, list[TopicPartition]] = {}
    members: dict[TopicPartition, frozenset[BrokerId]] = {}
    for partition in partitions:
        state = image.state_of(partition)
        if state is not None:
            members[partition] = knowing(state)
            for broker_id in sorted(members[partition].union(state.assignment).intersection(image.brokers)):
                asked.setdefault(broker_id, []).append(partition)
    answers = await asyncio.gather(*(_ends(channels, broker_id, some) for broker_id, some in asked.items()))
    by_broker = dict(zip(asked, answers, strict=True))
    told = {
        partition: {broker: found[partition] for broker, found in by_broker.items() if partition in found}
        for partition in members
    }
    ends = {partition: found for partition, found in told.items() if members[partition].issubset(found)}
    epochs = {broker: image.brokers[broker].broker_epoch for broker in asked if broker in image.brokers}
    return ElectGreatest(ends=ends, broker_epochs=epochs) if ends else None


async def _ends(
    channels: ClusterChannels, broker_id: BrokerId, partitions: Sequence[TopicPartition]
) -> Mapping[TopicPartition, ReplicaEnd]:
    try:
        return await channels.replica_ends(broker_id, partitions)
    except ApiError as error:
        logger.info("log ends not to be had", extra=fields(broker_id=broker_id, reason=error))
        return {}
