"""DeleteTopics: remove topics with all they hold."""

from __future__ import annotations

from uuid import UUID

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message, needed


@message
class DeletableTopicResult:
    """What became of one topic; the name is null where an unknown id was asked for."""

    name: str | None
    topic_id: UUID | None = None
    error_code: ErrorCode
    error_message: str | None = None


@message
class DeleteTopicsResponse(Response):
    """One result per topic asked for."""

    throttle_time_ms: int = 0
    responses: tuple[DeletableTopicResult, ...]


@message
class DeleteTopicState:
    """A topic by name or by id."""

    name: str | None = None
    topic_id: UUID | None = None


@message
class DeleteTopicsRequest(Request[DeleteTopicsResponse]):
    """Topics are `topic_names` up to version 5 and `topics` from version 6; the other is empty."""

    topics: tuple[DeleteTopicState, ...] = needed(())
    topic_names: tuple[str, ...] = needed(())
    timeout_ms: int


API = Api(
    key=ApiKey.DELETE_TOPICS,
    served=VersionRange(1, 6),
    flexible_from=4,
    request=DeleteTopicsRequest,
    response=DeleteTopicsResponse,
    changes={
        1: "throttle time (KIP-124)",
        2: "throttled after the response is sent (KIP-219)",
        3: "TOPIC_DELETION_DISABLED (KIP-322)",
        4: "flexible (KIP-482)",
        5: "error message, THROTTLING_QUOTA_EXCEEDED (KIP-599)",
        6: "topic ids (KIP-516)",
    },
)
