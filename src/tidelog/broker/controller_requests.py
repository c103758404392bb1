"""What brokers ask of the controller, between the words of the protocol and those of the controller's service."""

from __future__ import annotations

from tidelog.controller import PartitionState
from tidelog.controller.commands import ANY_EPOCH, IsrChange
from tidelog.controller.service import ControllerService
from tidelog.model import ApiError, ErrorCode, TopicId
from tidelog.wire.messages.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionData,
)
from tidelog.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)


async def alter_partition(controller: ControllerService, request: AlterPartitionRequest) -> AlterPartitionResponse:
    """Have the ISRs decided that a leader proposes."""
    asked = [(topic.topic_id, partition) for topic in request.topics for partition in topic.partitions]
    try:
        states = await controller.alter_partition(
            request.broker_id, request.broker_epoch, [_change(topic_id, one) for topic_id, one in asked]
        )
    except ApiError as error:
        return AlterPartitionResponse(error_code=error.code)
    answers = iter(zip(asked, states, strict=True))
    return AlterPartitionResponse(
        error_code=ErrorCode.NONE,
        topics=tuple(
            AlteredTopic(
                topic_id=topic.topic_id,
                partitions=tuple(
                    _altered(partition.partition_index, next(answers)[1]) for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _change(topic_id: TopicId | None, asked: PartitionData) -> IsrChange:
    with_epochs = tuple((one.broker_id, one.broker_epoch) for one in asked.new_isr_with_epochs)
    return IsrChange(
        topic_id=topic_id,
        index=asked.partition_index,
        leader_epoch=asked.leader_epoch,
        partition_epoch=asked.partition_epoch,
        isr=with_epochs or tuple((broker_id, ANY_EPOCH) for broker_id in asked.new_isr),
        is_recovering=asked.leader_recovery_state == 1,
    )


def _altered(index: int, state: PartitionState | ApiError) -> AlteredPartition:
    if isinstance(state, ApiError):
        return AlteredPartition(partition_index=index, error_code=state.code)
    return AlteredPartition(
        partition_index=index,
        error_code=ErrorCode.NONE,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        leader_recovery_state=int(state.is_recovering),
        partition_epoch=state.partition_epoch,
    )


async def controlled_shutdown(
    controller: ControllerService, request: ControlledShutdownRequest
) -> ControlledShutdownResponse:
    """Have the leaderships of a broker moved away that is about to stop."""
    try:
        remaining = await controller.controlled_shutdown(request.broker_id, request.broker_epoch)
    except ApiError as error:
        return ControlledShutdownResponse(error_code=error.code)
    return ControlledShutdownResponse(
        error_code=ErrorCode.NONE,
        remaining_partitions=tuple(
            RemainingPartition(topic_name=one.topic, partition_index=one.index) for one in remaining
        ),
    )
