"""Offsets of topics named by ids: the coordinator hears name and id, so that it can tell a topic from a former one of the same name."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import UUID

from tidelog.broker.handlers import offset_commit, offset_fetch
from tidelog.broker.metadata_cache import MetadataCache
from tidelog.broker.node import Node
from tidelog.controller import PartitionState, TopicImage
from tidelog.server import RequestContext
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

ID = UUID(int=7)


@dataclass
class Groups:
    """Answers with nothing, and remembers what it was asked."""

    asked: list[Any] = field(default_factory=list)

    def ask(self, group_id: str, request: object, _: object) -> object:
        self.asked.append(request)
        if isinstance(request, OffsetCommitRequest):
            return OffsetCommitResponse(topics=())
        return OffsetFetchResponse(groups=(OffsetFetchResponseGroup(group_id=group_id, topics=()),))


@dataclass
class Asked:
    """As much of a node as is looked at."""

    metadata: MetadataCache = field(default_factory=MetadataCache)
    groups: Groups = field(default_factory=Groups)

    def __post_init__(self) -> None:
        state = PartitionState(topic_id=ID, assignment=(1,), leader=1, leader_epoch=0, isr=(1,), partition_epoch=0)
        self.metadata.take_topics([TopicImage(name="t", topic_id=ID, partitions={0: state})])


@dataclass
class Version:
    """As much of a request's context as is looked at."""

    version: int


def heard(handle: Any, request: object, version: int) -> Any:
    node = Asked()
    asyncio.run(handle(cast("Node", node), cast("RequestContext", Version(version)), request))
    return node.groups.asked[0]


def test_the_coordinator_hears_the_name_always_and_the_id_where_the_client_said_it() -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    for version, name, topic_id in ((9, "t", None), (10, "", ID)):
        topic = OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=(partition,))
        request = OffsetCommitRequest(group_id="g", member_id="", topics=(topic,))
        (asked,) = heard(offset_commit.handle, request, version).topics
        assert (asked.name, asked.topic_id) == ("t", topic_id)


def test_a_fetch_by_id_asks_for_the_topic_of_this_id() -> None:
    topic = OffsetFetchRequestTopics(name="", topic_id=ID, partition_indexes=(0,))
    group = OffsetFetchRequestGroup(group_id="g", topics=(topic,))
    (asked,) = heard(offset_fetch.handle, OffsetFetchRequest(groups=(group,)), 10).groups[0].topics
    assert (asked.name, asked.topic_id) == ("t", ID)
