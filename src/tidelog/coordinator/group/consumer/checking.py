"""What a ConsumerGroupHeartbeat must say, and from whom it is accepted; in Kafka's order."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.coordinator.group.consumer.assignors import Assignment
from tidelog.coordinator.group.consumer.group import ConsumerGroup
from tidelog.coordinator.group.consumer.member import (
    JOINS,
    LEAVES,
    LEAVES_FOR_A_WHILE,
    Member,
    is_subset,
)
from tidelog.coordinator.group.settings import GroupSettings
from tidelog.model import ApiError, ErrorCode
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

CLIENTS_MAKE_MEMBER_IDS_SINCE = 1
"""The version of the request from which on a member brings its id along (KIP-1082)."""

KEY_BYTES_MAX = 32_767
"""What a string in the key of a record can have."""


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, settings: GroupSettings) -> None:
    """Whether it makes sense, whatever there is. Raises ApiError."""
    epoch = request.member_epoch
    if version >= CLIENTS_MAKE_MEMBER_IDS_SINCE or epoch > JOINS or epoch == LEAVES:
        _check_text(request.member_id, "MemberId")
    _check_text(request.group_id, "GroupId")
    for name in (request.group_id, request.member_id):
        if len(name.encode()) > KEY_BYTES_MAX:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Ids can't have more than {KEY_BYTES_MAX} bytes.")
    _check_text(request.instance_id, "InstanceId")
    _check_text(request.rack_id, "RackId")
    if epoch == JOINS:
        _check_first_request(request)
    elif epoch == LEAVES_FOR_A_WHILE:
        _check_text(request.member_id, "MemberId")
        if request.instance_id is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, "InstanceId can't be null.")
    elif epoch < LEAVES_FOR_A_WHILE:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"MemberEpoch {epoch} is invalid.")
    if request.server_assignor is not None and request.server_assignor not in settings.consumer_assignors:
        supported = ", ".join(settings.consumer_assignors)
        message = f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {supported}."
        raise ApiError(ErrorCode.UNSUPPORTED_ASSIGNOR, message)


def _check_first_request(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise ApiError(ErrorCode.INVALID_REQUEST, "RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise ApiError(ErrorCode.INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        message = "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        raise ApiError(ErrorCode.INVALID_REQUEST, message)


def _check_text(text: str | None, name: str) -> None:
    if text is not None and not text.strip():
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{name} can't be empty.")


def check_size(group: ConsumerGroup, member_id: str, settings: GroupSettings) -> None:
    """Whether there is room for it. Raises ApiError."""
    if len(group.members) >= settings.consumer_max_size and member_id not in group.members:
        message = f"The consumer group has reached its maximum capacity of {settings.consumer_max_size} members."
        raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def check_epoch(member: Member, epoch: int, owned: Assignment | None) -> None:
    """Whether a member is where it should be. Raises ApiError.

    It may be one epoch behind, for the answer with the new one may have been lost, if it has nothing that it may not have. And it may begin
    anew with nothing: that is what whoever is fenced shall do, and it shall not have to wait until its former self has died.
    """
    if epoch in (JOINS, member.epoch):
        return
    if (
        epoch < member.epoch
        and epoch == member.previous_epoch
        and owned is not None
        and is_subset(owned, member.assigned)
    ):
        return
    side = "greater" if epoch > member.epoch else "smaller"
    message = (
        f"The consumer group member has a {side} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.epoch}). The member must abandon all its partitions and rejoin."
    )
    raise ApiError(ErrorCode.FENCED_MEMBER_EPOCH, message)


def check_place(static: Member | None, member_id: str, instance_id: str) -> Member:
    """Whether it is this member that has this place; whose place it is. Raises ApiError."""
    if static is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if static.member_id != member_id:
        message = f"Static member {member_id} with instance id {instance_id} was fenced by member {static.member_id}."
        raise ApiError(ErrorCode.FENCED_INSTANCE_ID, message)
    return static


def check_free_place(static: Member, member_id: str) -> None:
    """Whether whoever had this place has left it for a while. Raises ApiError."""
    if static.epoch != LEAVES_FOR_A_WHILE:
        message = (
            f"Static member {member_id} with instance id {static.instance_id} cannot join the group because the instance id "
            f"is owned by {static.member_id} member."
        )
        raise ApiError(ErrorCode.UNRELEASED_INSTANCE_ID, message)


def owned_partitions(said: Iterable[TopicPartitions] | None) -> Assignment | None:
    """What a member says it has; None if it does not say. A topic may be named more than once."""
    if said is None:
        return None
    owned: dict[object, frozenset[int]] = {}
    for topic in said:
        owned[topic.topic_id] = owned.get(topic.topic_id, frozenset()) | frozenset(topic.partitions)
    return {topic_id: partitions for topic_id, partitions in owned.items() if partitions}  # type: ignore[misc]
