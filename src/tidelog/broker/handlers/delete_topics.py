"""DeleteTopics, versions 1 to 6.

Behaviour: topics by name, or from v6 also by id; answered when they are gone from the metadata and their logs are renamed away.

v1: throttle time.  v4: flexible.  v5: error messages, throttling errors (KIP-599).  v6: topic ids (KIP-516).
"""

from __future__ import annotations

from tidelog.broker.node import Node
from tidelog.model import ApiError, ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

API = ApiKey.DELETE_TOPICS


async def handle(node: Node, context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Resolve every topic, then let the controller delete those that exist."""
    asked = request.topics or tuple(DeleteTopicState(name=name) for name in request.topic_names)
    return DeleteTopicsResponse(responses=tuple([await _delete(node, topic) for topic in asked]))


async def _delete(node: Node, topic: DeleteTopicState) -> DeletableTopicResult:
    try:
        if topic.name is not None and topic.topic_id is not None:
            raise ApiError(ErrorCode.INVALID_REQUEST, "a topic is named by name or by id, not both")
        name = node.metadata.topic_name(topic.name or "", topic.topic_id)
        (result,) = await node.controller.delete_topics([name])
        if result.error is not None:
            raise result.error
    except ApiError as error:
        return DeletableTopicResult(
            name=topic.name, topic_id=topic.topic_id, error_code=error.code, error_message=error.message
        )
    return DeletableTopicResult(name=name, topic_id=result.topic_id, error_code=ErrorCode.NONE)
