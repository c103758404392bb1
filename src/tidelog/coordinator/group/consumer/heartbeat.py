"""ConsumerGroupHeartbeat of somebody who joins or stays."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import replace

from tidelog.coordinator.group.consumer.assignors import Assignment
from tidelog.coordinator.group.consumer.checking import (
    check_epoch,
    check_free_place,
    check_place,
    check_size,
    owned_partitions,
)
from tidelog.coordinator.group.consumer.group import ConsumerGroup
from tidelog.coordinator.group.consumer.joining import REGEX_REFRESH_MIN_INTERVAL_MS, Step
from tidelog.coordinator.group.consumer.member import JOINS, NOTHING, Member, written
from tidelog.coordinator.group.consumer.turn import Surroundings, Turn
from tidelog.coordinator.machine import Client, Moment
from tidelog.model import ErrorCode
from tidelog.runtime import Randomness
from tidelog.wire.messages.consumer_group_heartbeat import (
    Assignment as AssignmentMessage,
)
from tidelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)


def says_nothing_new(
    request: ConsumerGroupHeartbeatRequest, client: Client, group: ConsumerGroup, around: Surroundings, now: Moment
) -> bool:
    """Whether nothing follows from it but that the member is there. By far the most are such."""
    member = group.members.get(request.member_id)
    return (
        member is not None
        and member.epoch == request.member_epoch > JOINS
        and request.topic_partitions is None
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.rebalance_timeout_ms == -1
        and request.server_assignor is None
        and request.instance_id == member.instance_id
        and request.rack_id in (None, member.rack_id)
        and member.classic is None
        and group.epoch == group.assignment_epoch
        and member.is_reconciled_to(group.assignment_epoch)
        and group.seen.topics_version == around.topics.version
        and client.client_id == member.client_id
        and client.host == member.client_host
        and not (group.regexes and _may_regexes_be_stale(group, around, now))
    )


def _may_regexes_be_stale(group: ConsumerGroup, around: Surroundings, now: Moment) -> bool:
    if not group.is_resolved_in(around.topics.version) or len(group.regexes) != len(group.resolutions):
        return True
    last_ms = min(resolution.timestamp_ms for resolution in group.resolutions.values())
    return now.wall_ms - last_ms > max(
        around.settings.consumer_regex_refresh_interval_ms, REGEX_REFRESH_MIN_INTERVAL_MS
    )


def beat(
    turn: Turn, request: ConsumerGroupHeartbeatRequest, client: Client, randomness: Randomness
) -> ConsumerGroupHeartbeatResponse:
    """Take in what a member says, and say what follows for it. Raises ApiError."""
    group, settings = turn.group, turn.around.settings
    check_size(group, request.member_id, settings)
    member_id = request.member_id or _new_id(randomness)
    owned = owned_partitions(request.topic_partitions)
    if request.instance_id is None:
        former, replaced = _dynamic(group, member_id, request.member_epoch, owned), None
    else:
        former, replaced = _static(turn, member_id, request, owned)
    step = Step(turn, former, _updated(former, request, client), replaced)
    member = step.take(owned)
    turn.restart_session(member)
    is_full = request.rebalance_timeout_ms != -1 and owned is not None and _names_topics(request)
    is_shown = request.member_epoch == JOINS or is_full or member.assigned != former.assigned
    return ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=settings.consumer_heartbeat_interval_ms,
        assignment=_message(member.assigned) if is_shown else None,
    )


def _new_id(randomness: Randomness) -> str:
    """As Kafka writes ids."""
    return urlsafe_b64encode(randomness.uuid().bytes).rstrip(b"=").decode()


def _dynamic(group: ConsumerGroup, member_id: str, epoch: int, owned: Assignment | None) -> Member:
    if epoch == JOINS and member_id not in group.members:
        return Member(member_id=member_id)
    member = group.member(member_id)
    check_epoch(member, epoch, owned)
    return member


def _static(
    turn: Turn, member_id: str, request: ConsumerGroupHeartbeatRequest, owned: Assignment | None
) -> tuple[Member, Member | None]:
    """The member, and whom it replaces: whoever had its place and has left it for a while, or spoke the other protocol."""
    group, instance_id = turn.group, request.instance_id or ""
    static = group.static_member(instance_id)
    if request.member_epoch != JOINS:
        member = check_place(static, member_id, instance_id)
        check_epoch(member, request.member_epoch, owned)
        return member, None
    if static is None:
        return group.members.get(member_id) or Member(member_id=member_id), None
    if static.classic is None:
        if static.member_id == member_id and static.epoch > JOINS:
            return static, None  # It is the same process, which was fenced, or did not hear that it has joined.
        check_free_place(static, member_id)
    return take_place(turn, static, member_id), static


def take_place(turn: Turn, static: Member, member_id: str) -> Member:
    """Have somebody go on where a static member stopped, as if it had always been there."""
    member = replace(static, member_id=member_id, epoch=JOINS, previous_epoch=JOINS)
    turn.forget_member(static.member_id)
    turn.stop_timers(static.member_id)
    turn.write_member(member)
    turn.write_target(member_id, turn.group.targets.get(static.member_id, NOTHING))
    turn.write_assignment(member)
    return member


def _updated(member: Member, request: ConsumerGroupHeartbeatRequest, client: Client) -> Member:
    """What is not said has not changed."""
    names = request.subscribed_topic_names
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topics=member.topics if names is None else frozenset(names),
        regex=member.regex if request.subscribed_topic_regex is None else request.subscribed_topic_regex,
        assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        client_id=client.client_id,
        client_host=client.host,
        classic=None,
    )


def _names_topics(request: ConsumerGroupHeartbeatRequest) -> bool:
    return request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None


def _message(assignment: Assignment) -> AssignmentMessage:
    topics = written(assignment)
    return AssignmentMessage(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic.topic_id, partitions=topic.partitions) for topic in topics
        )
    )
