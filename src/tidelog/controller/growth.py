"""More partitions for a topic: what may be asked for, and where they go. Kafka's errors with Kafka's messages."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tidelog.controller.image import BrokerImage, TopicImage
from tidelog.controller.placement import Assignment, place_replicas
from tidelog.model import ApiError, BrokerId, ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class MorePartitions:
    """A topic that shall have `count` partitions in all; without assignments of its own, the new ones are placed like the old."""

    name: str
    count: int
    assignments: tuple[Assignment, ...] | None = None


def added_assignments(
    topic: TopicImage, wanted: MorePartitions, brokers: Mapping[BrokerId, BrokerImage]
) -> list[Assignment]:
    """The replicas of the new partitions, in order. Raises ApiError."""
    known_count = len(topic.partitions)
    if wanted.count == known_count:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {known_count} partition(s).")
    if wanted.count < known_count:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {known_count} partition(s); {wanted.count} would not be an increase.",
        )
    added_count = wanted.count - known_count
    if wanted.assignments is None:
        return _placed(topic, added_count, brokers)
    if len(wanted.assignments) != added_count:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added_count} additional partition(s), but only {len(wanted.assignments)} assignment(s) "
            "were specified.",
        )
    for assignment in wanted.assignments:
        _check_assignment(assignment, topic.replication_factor, brokers)
    return list(wanted.assignments)


def _placed(topic: TopicImage, added_count: int, brokers: Mapping[BrokerId, BrokerImage]) -> list[Assignment]:
    """Go on where the topic's own placement stopped: its first replica says where that began."""
    first = topic.partitions[0].preferred_leader
    start = next((position for position, broker in enumerate(sorted(brokers)) if broker >= first), 0)
    return place_replicas(
        {broker_id: broker.rack for broker_id, broker in brokers.items()},
        partition_count=added_count,
        replication_factor=topic.replication_factor,
        start=start,
        shift=start,
        first_partition=len(topic.partitions),
    )


def _check_assignment(assignment: Assignment, replication_factor: int, brokers: Collection[BrokerId]) -> None:
    unknown = [broker for broker in assignment if broker not in brokers]
    twice = [broker for broker in assignment if assignment.count(broker) > 1]
    if not assignment:
        reason = "an empty replica list."
    elif unknown:
        reason = f"broker {unknown[0]}, but no such broker is registered."
    elif twice:
        reason = f"the broker {twice[0]} more than once."
    elif len(assignment) != replication_factor:
        reason = (
            f"a partition with {len(assignment)} replica(s), but this is not consistent with previous partitions, "
            f"which have {replication_factor} replica(s)."
        )
    else:
        return
    raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {reason}")
