"""CreateTopics: new topics, with partitions placed by the broker or by hand."""

from __future__ import annotations

from uuid import UUID

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message


@message
class CreatableTopicConfigs:
    """One setting of the new topic, as it holds."""

    name: str
    value: str | None
    read_only: bool
    config_source: int = -1
    is_sensitive: bool


@message
class CreatableTopicResult:
    """What became of one topic; its configs are null where they may not be shown."""

    name: str
    topic_id: UUID | None = None
    error_code: ErrorCode
    error_message: str | None
    topic_config_error_code: int = 0
    num_partitions: int = -1
    replication_factor: int = -1
    configs: tuple[CreatableTopicConfigs, ...] | None = ()


@message
class CreateTopicsResponse(Response):
    """One result per topic asked for."""

    throttle_time_ms: int = 0
    topics: tuple[CreatableTopicResult, ...]


@message
class CreatableReplicaAssignment:
    """The brokers of one partition, its preferred leader first."""

    partition_index: int
    broker_ids: tuple[int, ...] = ()


@message
class CreatableTopicConfig:
    """One setting of the new topic, as asked for."""

    name: str
    value: str | None


@message
class CreatableTopic:
    """-1 partitions or replicas: the broker's default, or as the assignments say."""

    name: str
    num_partitions: int
    replication_factor: int
    assignments: tuple[CreatableReplicaAssignment, ...] = ()
    configs: tuple[CreatableTopicConfig, ...] = ()


@message
class CreateTopicsRequest(Request[CreateTopicsResponse]):
    """Topics to create, or only to check."""

    topics: tuple[CreatableTopic, ...]
    timeout_ms: int = 60_000
    validate_only: bool = False


API = Api(
    key=ApiKey.CREATE_TOPICS,
    served=VersionRange(2, 7),
    flexible_from=5,
    request=CreateTopicsRequest,
    response=CreateTopicsResponse,
    changes={
        2: "throttle time (KIP-124)",
        3: "throttled after the response is sent (KIP-219)",
        4: "the broker's default partitions and replicas, -1 (KIP-464)",
        5: "flexible (KIP-482); the response has partitions, replicas and configs (KIP-525)",
        6: "THROTTLING_QUOTA_EXCEEDED (KIP-599)",
        7: "topic id (KIP-516)",
    },
)
