"""ConsumerGroupHeartbeat: join, stay in and leave a group of the consumer protocol (KIP-848), and learn what one owns."""

from __future__ import annotations

from uuid import UUID

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message, needed


@message
class TopicPartitions:
    """Partitions of one topic."""

    topic_id: UUID | None
    partitions: tuple[int, ...] = ()


@message
class Assignment:
    """What a member may own from now on."""

    topic_partitions: tuple[TopicPartitions, ...]


@message
class ConsumerGroupHeartbeatResponse(Response):
    """The member's epoch and when to come again; the assignment is null where it did not change."""

    throttle_time_ms: int = 0
    error_code: ErrorCode
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None


@message
class ConsumerGroupHeartbeatRequest(Request[ConsumerGroupHeartbeatResponse]):
    """Epoch 0 joins, -1 leaves, -2 leaves a static member's place free for it. Null or -1: unchanged since it was last said."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = needed(None)
    server_assignor: str | None = None
    topic_partitions: tuple[TopicPartitions, ...] | None = None


API = Api(
    key=ApiKey.CONSUMER_GROUP_HEARTBEAT,
    served=VersionRange(0, 1),
    flexible_from=0,
    request=ConsumerGroupHeartbeatRequest,
    response=ConsumerGroupHeartbeatResponse,
    changes={
        0: "the consumer protocol (KIP-848)",
        1: "member ids made by clients (KIP-1082), subscription by regular expression",
    },
)
