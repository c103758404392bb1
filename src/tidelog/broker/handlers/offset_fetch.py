"""OffsetFetch, versions 1 to 10.

Behaviour: what groups committed; -1 without an error where nothing was. The coordinator of each group is always given one group with names
of topics. By id, a topic nobody knows is UNKNOWN_TOPIC_ID on each partition, and one that is gone is left out where all were asked for. The
empty group id is a group like any other, as in Kafka.

v1: what is wrong with the group is said on each partition.  v2: and from here on top-level; null asks for all.  v3: throttle time.
v5: leader epoch (KIP-320).  v6: flexible.  v7: wait for open transactions (KIP-447).  v8: several groups, with an error each (KIP-709).
v9: member epochs (KIP-848).  v10: topic ids.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

from tidelog.broker.handlers.group_requests import ask_each, settled
from tidelog.broker.node import Node
from tidelog.model import NO_LEADER_EPOCH, NO_OFFSET, ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

API = ApiKey.OFFSET_FETCH

_TOP_LEVEL_ERROR_SINCE: Final = 2
_GROUPS_SINCE: Final = 8
_IDS_SINCE: Final = 10

INDEXES_PER_SLICE: Final = 5_000
"""How many partitions of a group are looked at before others have their turn."""

Topics: TypeAlias = tuple[OffsetFetchRequestTopics, ...]


async def handle(node: Node, context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Ask the coordinator of every group by itself."""
    if context.version >= _GROUPS_SINCE:
        # Each once: an answer is not to grow with how often a large group is named.
        groups = list({(group.group_id, group.topics): group for group in request.groups}.values())
        fetched = await ask_each(groups, partial(_fetch, node, context, require_stable=request.require_stable))
        return OffsetFetchResponse(groups=fetched)
    group = OffsetFetchRequestGroup(group_id=request.group_id, topics=request.topics)
    found = await _fetch(node, context, group, require_stable=request.require_stable)
    if context.version < _TOP_LEVEL_ERROR_SINCE and found.error_code:
        return OffsetFetchResponse(
            topics=tuple(_refused(topic, found.error_code) for topic in request.topics or ()),
        )
    return OffsetFetchResponse(topics=found.topics, error_code=found.error_code)


async def _fetch(
    node: Node, context: RequestContext, group: OffsetFetchRequestGroup, *, require_stable: bool
) -> OffsetFetchResponseGroup:
    is_by_id = context.version >= _IDS_SINCE
    asked = group.topics
    unknown: list[OffsetFetchResponseTopics] = []
    if is_by_id and asked is not None:
        named = [(topic, _name(node, topic)) for topic in asked]
        unknown = [_refused(topic, ErrorCode.UNKNOWN_TOPIC_ID) for topic, name in named if name is None]
        asked = tuple(replace(topic, name=name) for topic, name in named if name is not None)
    found = OffsetFetchResponseGroup(group_id=group.group_id, topics=())
    topics: list[OffsetFetchResponseTopics] = []
    for some in _portions(asked):
        request = OffsetFetchRequest(groups=(replace(group, topics=some),), require_stable=require_stable)
        (found,) = (await settled(node.groups.ask(group.group_id, request, context))).groups
        if found.error_code:
            return replace(found, topics=())
        _add(topics, found.topics)
        await asyncio.sleep(0)
    return replace(found, topics=(*unknown, *_with_ids(node, topics)) if is_by_id else tuple(topics))


def _portions(topics: Topics | None) -> Iterator[Topics | None]:
    """The same in portions that nobody has to wait for. What consumers ask for is one; all there is to know is one question."""
    if topics is None:
        yield None
        return
    some: list[OffsetFetchRequestTopics] = []
    room = INDEXES_PER_SLICE
    for topic in topics:
        rest = topic.partition_indexes
        while len(rest) > room:
            yield (*some, replace(topic, partition_indexes=rest[:room]))
            some, rest, room = [], rest[room:], INDEXES_PER_SLICE
        some.append(replace(topic, partition_indexes=rest))
        room -= max(len(rest), 1)
        if room <= 0:
            yield tuple(some)
            some, room = [], INDEXES_PER_SLICE
    if some or not topics:
        yield tuple(some)


def _add(topics: list[OffsetFetchResponseTopics], more: tuple[OffsetFetchResponseTopics, ...]) -> None:
    """One after the other; of a topic that was divided, one piece."""
    if topics and more and topics[-1].name == more[0].name:
        topics[-1] = replace(topics[-1], partitions=(*topics[-1].partitions, *more[0].partitions))
        more = more[1:]
    topics += more


def _name(node: Node, topic: OffsetFetchRequestTopics) -> str | None:
    found = None if topic.topic_id is None else node.metadata.topic_by_id(topic.topic_id)
    return None if found is None else found.name


def _with_ids(node: Node, topics: Iterable[OffsetFetchResponseTopics]) -> Iterator[OffsetFetchResponseTopics]:
    for topic in topics:
        found = node.metadata.topic(topic.name)
        if found is not None:
            yield replace(topic, topic_id=found.topic_id)


def _refused(topic: OffsetFetchRequestTopics, code: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=tuple(
            OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=NO_OFFSET,
                committed_leader_epoch=NO_LEADER_EPOCH,
                metadata="",
                error_code=code,
            )
            for index in topic.partition_indexes
        ),
    )
