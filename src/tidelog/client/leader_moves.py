"""Letting another replica lead: the replicas of a partition are put into an order that begins with it, and the preferred one is elected."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from tidelog.client.admin import Admin
from tidelog.client.admin_values import ElectionKind
from tidelog.client.errors import ClientError
from tidelog.client.metadata import PartitionMetadata
from tidelog.model import BrokerId, ErrorCode, TopicPartition

_LOOK_AGAIN_S: Final = 0.05


class CannotMove(ClientError):
    """Nobody else can lead, or not the broker that was named."""


async def move_leader(admin: Admin, place: TopicPartition, to: BrokerId | None = None) -> BrokerId:
    """Let another replica in sync lead, or the one that is named; returns which, once a broker names it as the leader.

    The order stays, so that the broker is preferred from then on. For one who waits no longer than so long: it may wait for ever where
    the cluster is not well. Raises CannotMove, RequestRefused, BrokersUnreachable or UnsupportedApi.
    """
    told = await _described(admin, place)
    chosen = _chosen(place, told, to)
    order = [chosen, *(broker for broker in told.replicas if broker != chosen)]
    moved = (await admin.alter_reassignments({place: order}))[place]
    if not moved.is_ok:
        raise CannotMove(f"the replicas of {place} cannot be put into the order {order}: {moved.code.name}")
    await _until(lambda: _is_settled(admin, place))
    elected = (await admin.elect_leaders(ElectionKind.PREFERRED, [place])).get(place)
    if elected is not None and elected.code not in {ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED}:
        raise CannotMove(f"broker {chosen} is not elected for {place}: {elected.code.name}")
    await _until(lambda: _is_led(admin, place, chosen))
    return chosen


async def _until(is_so: Callable[[], Awaitable[bool]]) -> None:
    while True:
        if await is_so():
            return
        await asyncio.sleep(_LOOK_AGAIN_S)


async def _is_settled(admin: Admin, place: TopicPartition) -> bool:
    return not await admin.list_reassignments([place])


async def _is_led(admin: Admin, place: TopicPartition, by: BrokerId) -> bool:
    return (await _described(admin, place)).leader.broker_id == by


async def _described(admin: Admin, place: TopicPartition) -> PartitionMetadata:
    topic = (await admin.describe_topics([place.topic]))[place.topic]
    if isinstance(topic, ErrorCode):
        raise CannotMove(f"there is no topic {place.topic!r}: {topic.name}")
    for partition in topic.partitions:
        if partition.index == place.index:
            return partition
    count = len(topic.partitions)
    raise CannotMove(f"topic {place.topic!r} has no partition {place.index}: it has {count}, numbered from 0")


def _chosen(place: TopicPartition, told: PartitionMetadata, to: BrokerId | None) -> BrokerId:
    others = [broker for broker in told.replicas if broker in told.isr and broker != told.leader.broker_id]
    if to is None and not others:
        leader = told.leader.broker_id if told.has_leader else "nobody"
        raise CannotMove(f"{place} has no other replica in sync: {leader} leads, in sync are {list(told.isr)}")
    chosen = others[0] if to is None else to
    if chosen not in told.isr:
        raise CannotMove(f"broker {chosen} is not in sync in {place}: {sorted(told.isr)} are")
    return chosen
