"""ConsumerGroupDescribe: the state, the epochs and the members of groups of the consumer protocol (KIP-848)."""

from __future__ import annotations

from uuid import UUID

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message
from tidelog.wire.messages.metadata import AUTHORIZED_OPERATIONS_NOT_ASKED


@message
class TopicPartitions:
    """Partitions of one topic."""

    topic_id: UUID | None
    topic_name: str
    partitions: tuple[int, ...] = ()


@message
class Assignment:
    """What a member owns, or is to own."""

    topic_partitions: tuple[TopicPartitions, ...] = ()


@message
class Member:
    """A member, what it owns and what it is meant to own. Type 0 speaks the classic protocol, 1 the consumer protocol."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None
    assignment: Assignment
    target_assignment: Assignment
    member_type: int = -1


@message
class DescribedGroup:
    """One group, or why it cannot be shown."""

    error_code: ErrorCode
    error_message: str | None = None
    group_id: str
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: tuple[Member, ...] = ()
    authorized_operations: int = AUTHORIZED_OPERATIONS_NOT_ASKED


@message
class ConsumerGroupDescribeResponse(Response):
    """One group per id asked for."""

    throttle_time_ms: int = 0
    groups: tuple[DescribedGroup, ...]


@message
class ConsumerGroupDescribeRequest(Request[ConsumerGroupDescribeResponse]):
    """Groups by id."""

    group_ids: tuple[str, ...] = ()
    include_authorized_operations: bool = False


API = Api(
    key=ApiKey.CONSUMER_GROUP_DESCRIBE,
    served=VersionRange(0, 1),
    flexible_from=0,
    request=ConsumerGroupDescribeRequest,
    response=ConsumerGroupDescribeResponse,
    changes={
        0: "the consumer protocol (KIP-848)",
        1: "the type of each member (KIP-1099)",
    },
)
