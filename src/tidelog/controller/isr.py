"""A leader's proposal for the ISR of a partition: Kafka's answers, in Kafka's order (KIP-497, KIP-841, KIP-903)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tidelog.controller.commands import ANY_EPOCH, AlterPartition, Decision, IsrChange
from tidelog.controller.election import with_isr_of_leader
from tidelog.controller.image import ClusterImage, PartitionState
from tidelog.controller.leading import Leading
from tidelog.controller.writes import StateChanges
from tidelog.model import ApiError, BrokerId, ErrorCode, TopicId, TopicPartition


def alter_partition(leading: Leading, command: AlterPartition, name_of: Callable[[TopicId], str | None]) -> Decision:
    """Take or refuse the proposals, each for itself. Raises ApiError for a broker that is not who it says."""
    image = leading.image
    broker = image.brokers.get(command.broker_id)
    if broker is None or broker.broker_epoch != command.broker_epoch:
        raise ApiError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Broker {command.broker_id} is not registered under epoch {command.broker_epoch}.",
        )
    changes = StateChanges(image)
    answers: list[PartitionState | ApiError] = []
    altered: set[TopicPartition] = set()
    for change in command.changes:
        try:
            partition, before = _partition(image, change, name_of)
            if partition in altered:
                raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, "The partition is in the request twice.")
            after = _altered(leading, command.broker_id, partition, before, change)
        except ApiError as error:
            answers.append(error)
            continue
        if changes.put(partition, before, after):
            altered.add(partition)
        answers.append(after)
    decision = changes.decision()
    moving = tuple(one.topic_partition for one in decision.changes if one.after.is_reassigned)
    return dataclasses.replace(decision, states=tuple(answers), reconsider=moving)


def _partition(
    image: ClusterImage, change: IsrChange, name_of: Callable[[TopicId], str | None]
) -> tuple[TopicPartition, PartitionState]:
    name = change.topic if change.topic_id is None else name_of(change.topic_id)
    if name is None or name not in image.topics:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if change.topic_id is None else ErrorCode.UNKNOWN_TOPIC_ID
        raise ApiError(code)
    state = image.topics[name].partitions.get(change.index)
    if state is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return TopicPartition(name, change.index), state


def _altered(
    leading: Leading,
    broker_id: BrokerId,
    partition: TopicPartition,
    state: PartitionState,
    change: IsrChange,
) -> PartitionState:
    """The state after the proposal; the same object if it holds already. Raises ApiError."""
    if change.leader_epoch > state.leader_epoch or change.partition_epoch > state.partition_epoch:
        raise ApiError(ErrorCode.NOT_CONTROLLER, "The proposal knows more than this controller.")
    if change.leader_epoch < state.leader_epoch:
        raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
    if broker_id != state.leader:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Broker {state.leader} leads, not {broker_id}.")
    isr = tuple(broker for broker, _ in change.isr)
    if sorted(isr) == sorted(state.isr) and change.is_recovering == state.is_recovering:
        return state
    if change.partition_epoch < state.partition_epoch:
        raise ApiError(ErrorCode.INVALID_UPDATE_VERSION)
    _check_isr(state, isr, is_recovering=change.is_recovering)
    _check_members(leading.image, partition, change)
    rules = leading.rules(leading.image.topics[partition.topic])
    return with_isr_of_leader(state, isr, rules, is_recovering=change.is_recovering)


def _check_isr(state: PartitionState, isr: tuple[BrokerId, ...], *, is_recovering: bool) -> None:
    if len(set(isr)) != len(isr) or not set(isr) <= set(state.assignment) or state.leader not in isr:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{list(isr)} is no ISR of replicas {list(state.assignment)}.")
    if is_recovering and len(isr) > 1:
        raise ApiError(ErrorCode.INVALID_REQUEST, "While it recovers, a leader is alone in its ISR.")
    if is_recovering and not state.is_recovering:
        raise ApiError(ErrorCode.INVALID_REQUEST, "A leader that has recovered does not recover again.")


def _check_members(image: ClusterImage, partition: TopicPartition, change: IsrChange) -> None:
    offline = image.offline.get(partition, frozenset())
    for broker_id, epoch in change.isr:
        broker = image.brokers.get(broker_id)
        if (
            broker is None
            or broker_id in image.shutting_down
            or broker_id in offline
            or epoch not in (ANY_EPOCH, broker.broker_epoch)
        ):
            raise ApiError(ErrorCode.INELIGIBLE_REPLICA, f"Broker {broker_id} cannot be in sync now.")
