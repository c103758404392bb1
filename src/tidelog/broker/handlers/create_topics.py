"""CreateTopics, versions 2 to 7.

Behaviour: each topic succeeds or fails by itself; a name asked for twice fails, and so does an internal topic that is not
compacted. `validate_only` checks everything and creates nothing.

v2: throttle time.  v4: -1 partitions or replicas take the broker's defaults (KIP-464).  v5: flexible, returns the topic's settings (KIP-525).
v6: throttling errors (KIP-599).  v7: topic id (KIP-516).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from tidelog.broker.internal_topics import check_internal
from tidelog.broker.node import Node
from tidelog.config import topic_settings
from tidelog.controller import NewTopic, TopicResult
from tidelog.model import ApiError, ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

API = ApiKey.CREATE_TOPICS
_NAMED_TWICE: Final = ApiError(ErrorCode.INVALID_REQUEST, "a topic is named twice in one request")


async def handle(node: Node, context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Let the controller decide about every topic named once."""
    counts = Counter(topic.name for topic in request.topics)
    refused = {topic.name: error for topic in request.topics if (error := _internal_error(topic)) is not None}
    unique = [topic for topic in request.topics if counts[topic.name] == 1 and topic.name not in refused]
    results = await node.controller.create_topics(
        [_new_topic(topic) for topic in unique], validate_only=request.validate_only
    )
    answers = [_answer(node, result, topic) for result, topic in zip(results, unique, strict=True)]
    answers += [_refused(name, error) for name, error in refused.items() if counts[name] == 1]
    answers += [_refused(name, _NAMED_TWICE) for name, count in counts.items() if count > 1]
    return CreateTopicsResponse(topics=tuple(answers))


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments={row.partition_index: row.broker_ids for row in topic.assignments},
        configs={row.name: row.value for row in topic.configs},
    )


def _answer(node: Node, result: TopicResult, topic: CreatableTopic) -> CreatableTopicResult:
    if result.error is not None:
        return _refused(result.name, result.error)
    overrides = {row.name: row.value for row in topic.configs if row.value is not None}
    return CreatableTopicResult(
        name=result.name,
        topic_id=result.topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=result.partition_count,
        replication_factor=result.replication_factor,
        configs=tuple(
            CreatableTopicConfigs(
                name=setting.name,
                value=setting.value,
                read_only=setting.is_read_only,
                config_source=setting.source,
                is_sensitive=setting.is_sensitive,
            )
            for setting in topic_settings(overrides, node.live_config.layers)
        ),
    )


def _internal_error(topic: CreatableTopic) -> ApiError | None:
    try:
        check_internal(_new_topic(topic))
    except ApiError as error:
        return error
    return None


def _refused(name: str, error: ApiError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message, configs=None)
