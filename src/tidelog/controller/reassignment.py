"""Moving partitions to other brokers (KIP-455). The assignment says it all, so that any controller can go on or go back.

While a partition moves its replicas are the target's first and then the others it has had. Starting, cancelling and completing are one
write each; that a reassignment is complete, `election` finds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidelog.controller.commands import Decision
from tidelog.controller.election import narrowed, reconsidered
from tidelog.controller.image import ClusterImage, PartitionState
from tidelog.controller.leading import NOBODY, Leading
from tidelog.controller.writes import StateChanges
from tidelog.model import ApiError, BrokerId, ErrorCode, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A reassignment that is running."""

    topic_partition: TopicPartition
    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]


def running(image: ClusterImage, partitions: Iterable[TopicPartition] | None = None) -> list[Reassignment]:
    """The reassignments that are running, of these partitions or of all."""
    if partitions is None:
        partitions = (TopicPartition(name, index) for name, topic in image.topics.items() for index in topic.partitions)
    known = ((partition, image.state_of(partition)) for partition in partitions)
    return [
        Reassignment(topic_partition=partition, replicas=state.assignment, adding=state.adding, removing=state.removing)
        for partition, state in known
        if state is not None and state.is_reassigned
    ]


def reassign(leading: Leading, wanted: Mapping[TopicPartition, tuple[BrokerId, ...] | None]) -> Decision:
    """Start and cancel reassignments, each partition for itself; in `errors`, in order, why not."""
    image, presence = leading.image, leading.presence()
    changes = StateChanges(image)
    errors: list[ApiError | None] = []
    for partition, target in wanted.items():
        try:
            state = image.state_of(partition)
            if state is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
            moved = _cancelled(state) if target is None else _started(image, state, target)
        except ApiError as error:
            errors.append(error)
            continue
        errors.append(None)
        here = presence.without(image.offline.get(partition, NOBODY))
        after = reconsidered(moved, here, leading.rules(image.topics[partition.topic]))
        if after is moved and moved != state:
            after = dataclasses.replace(
                moved, leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1
            )
        changes.put(partition, state, state if after == state else after)
    return dataclasses.replace(changes.decision(), errors=tuple(errors))


def _started(image: ClusterImage, state: PartitionState, target: tuple[BrokerId, ...]) -> PartitionState:
    _check_target(image, state, target)
    origin = state.origin
    full = tuple(dict.fromkeys((*target, *origin)))
    return _narrowed(
        dataclasses.replace(
            state,
            assignment=full,
            adding=tuple(broker for broker in full if broker not in origin),
            removing=tuple(broker for broker in origin if broker not in target),
        )
    )


def _cancelled(state: PartitionState) -> PartitionState:
    if not state.is_reassigned:
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No reassignment of the partition is running.")
    return _narrowed(dataclasses.replace(state, assignment=state.origin, adding=(), removing=()))


def _narrowed(state: PartitionState) -> PartitionState:
    """The state without brokers that are no replicas any more, unless only they have what was committed."""
    if not any(broker in state.assignment for broker in state.isr):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"None of the replicas {list(state.assignment)} would be in sync; in sync are {list(state.isr)}.",
        )
    return narrowed(state)


def _check_target(image: ClusterImage, state: PartitionState, target: tuple[BrokerId, ...]) -> None:
    unknown = [broker for broker in target if broker not in image.brokers and broker not in state.origin]
    if not target:
        reason = "Empty replica list specified in partition reassignment."
    elif len(set(target)) != len(target):
        reason = f"Duplicate replica ids in partition reassignment replica list: {list(target)}"
    elif min(target) < 0:
        reason = f"Invalid broker id in replica list: {list(target)}"
    elif unknown:
        reason = (
            f"Replica assignment has brokers that are not alive. Replica list: {list(target)}, "
            f"live broker list: {sorted(image.brokers)}"
        )
    else:
        return
    raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
