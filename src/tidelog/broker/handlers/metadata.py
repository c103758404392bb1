"""Metadata, versions 0 to 13.

Behaviour: the live brokers with the endpoint of the listener the client came in on, and the topics it asked for with their leaders. A
topic that does not exist is created where the client allows it and `auto.create.topics.enable` is on; unlike Kafka, which answers
LEADER_NOT_AVAILABLE and lets the client ask again, the answer waits for the topic. `__consumer_offsets` is made as its own settings say.

v0: an empty list means all topics.  v1: null means all, empty none; controller id.  v2: cluster id.  v4: auto-creation can be refused.
v5: offline replicas.  v7: leader epoch (KIP-320).  v8: authorized operations (KIP-430).  v9: flexible.  v10: topic ids (KIP-516), in
answers only, though the layout of requests has them.  v12: ask by topic id.  v13: top-level error (KIP-1102).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from tidelog.broker.internal_topics import GROUPS_TOPIC, INTERNAL_TOPICS
from tidelog.broker.node import Node
from tidelog.controller import NewTopic, PartitionState, TopicImage, check_name
from tidelog.model import ApiError, ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

API = ApiKey.METADATA
_BY_ID_SINCE: Final = 12


def handle(
    node: Node, context: RequestContext, request: MetadataRequest
) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Answer from the cache; wait only to create topics."""
    wants_all = request.topics is None or (context.version == 0 and not request.topics)
    if wants_all:
        return _response(node, context, [_topic(node, topic) for topic in node.metadata.topics()])
    if context.version < _BY_ID_SINCE and any(topic.name is None or topic.topic_id for topic in _named(request)):
        return _response(node, context, [_refused(topic) for topic in _named(request)])
    missing = _to_create(node, request) if request.allow_auto_topic_creation else []
    if missing:
        return _create_and_answer(node, context, request, missing)
    return _response(node, context, [_asked(node, topic, {}) for topic in _named(request)])


def _named(request: MetadataRequest) -> list[MetadataRequestTopic]:
    """The topics asked for, each once: an answer is not to grow with how often a large topic is named."""
    return list(dict.fromkeys(request.topics or ()))


def _to_create(node: Node, request: MetadataRequest) -> list[str]:
    if not node.config.auto_create_topics_enable:
        return []
    names = [topic.name for topic in request.topics or () if topic.name is not None and topic.topic_id is None]
    return [name for name in dict.fromkeys(names) if node.metadata.topic(name) is None]


async def _create_and_answer(
    node: Node, context: RequestContext, request: MetadataRequest, missing: list[str]
) -> MetadataResponse:
    errors: dict[str, ErrorCode] = {}
    if GROUPS_TOPIC in missing:
        node.internal_topics.want_groups()
        errors[GROUPS_TOPIC] = ErrorCode.LEADER_NOT_AVAILABLE
    wanted = [NewTopic(name=name) for name in missing if name not in INTERNAL_TOPICS]
    if wanted:
        errors |= await node.controller_line.create_topics(wanted)
    for name, code in errors.items():
        # Made just now, by us or by somebody quicker; where the controller has not told us of it yet, the client asks again.
        if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.NOT_CONTROLLER):
            errors[name] = ErrorCode.LEADER_NOT_AVAILABLE
    return _response(node, context, [_asked(node, topic, errors) for topic in _named(request)])


def _asked(node: Node, asked: MetadataRequestTopic, errors: dict[str, ErrorCode]) -> MetadataResponseTopic:
    """One topic by name or id, or the reason why there is none."""
    by_id = asked.topic_id is not None
    topic = (
        node.metadata.topic_by_id(asked.topic_id)
        if asked.topic_id is not None
        else node.metadata.topic(asked.name or "")
    )
    if topic is not None:
        return _topic(node, topic)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else _why_unknown(asked.name or "")
    return MetadataResponseTopic(
        error_code=errors.get(asked.name or "", unknown), name=asked.name, topic_id=asked.topic_id, partitions=()
    )


def _refused(asked: MetadataRequestTopic) -> MetadataResponseTopic:
    """As Kafka answers for every topic of a request that asks for one by its id in a version in which answers must have names."""
    return MetadataResponseTopic(
        error_code=ErrorCode.INVALID_REQUEST, name=asked.name or "", topic_id=asked.topic_id, partitions=()
    )


def _why_unknown(name: str) -> ErrorCode:
    try:
        check_name(name)
    except ApiError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _topic(node: Node, topic: TopicImage) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=tuple(_partition(node, index, state) for index, state in sorted(topic.partitions.items())),
    )


def _partition(node: Node, index: int, state: PartitionState) -> MetadataResponsePartition:
    has_leader = node.metadata.is_live(state.leader)
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=state.leader if has_leader else -1,
        leader_epoch=state.leader_epoch,
        replica_nodes=state.assignment,
        isr_nodes=state.isr,
        offline_replicas=tuple(broker for broker in state.assignment if not node.metadata.is_live(broker)),
    )


def _response(node: Node, context: RequestContext, topics: list[MetadataResponseTopic]) -> MetadataResponse:
    return MetadataResponse(
        brokers=tuple(
            MetadataResponseBroker(node_id=broker.broker_id, host=broker.host, port=broker.port, rack=broker.rack)
            for broker in node.metadata.endpoints(context.listener, dialled=context.local)
        ),
        cluster_id=node.metadata.cluster_id,
        controller_id=node.metadata.controller_id,
        topics=tuple(topics),
    )
