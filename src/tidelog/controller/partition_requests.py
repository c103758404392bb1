"""What is asked of the controller about leaders, ISRs and replicas."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from tidelog.controller.commands import (
    AlterPartition,
    BeginShutdown,
    Distrust,
    ElectionType,
    ElectLeaders,
    IsrChange,
    LoseReplicas,
    Reassign,
)
from tidelog.controller.image import BrokerEpoch, ClusterImage, PartitionState, partitions_of
from tidelog.controller.office import PARTITIONS_PER_SLICE
from tidelog.controller.reassignment import Reassignment, running
from tidelog.controller.requests import ControllerRequests, slices
from tidelog.model import ApiError, BrokerId, ErrorCode, TopicPartition
from tidelog.runtime.logs import fields

logger = logging.getLogger(__name__)


class PartitionRequests(ControllerRequests):
    """Proposals of leaders, brokers that leave or lose a disk, elections and moves."""

    async def alter_partition(
        self, broker_id: BrokerId, broker_epoch: BrokerEpoch, changes: Sequence[IsrChange]
    ) -> list[PartitionState | ApiError]:
        """A leader's proposals for its ISRs; per proposal, in order, what holds now, or why not. Raises ApiError for all of them."""
        return await self._office.turn(self._alter_partition(broker_id, broker_epoch, changes))

    async def controlled_shutdown(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> list[TopicPartition]:
        """A broker is about to leave: move what it leads elsewhere, and return what it leads still. Raises ApiError."""
        remaining, image = await self._office.turn(self._shut_down(broker_id, broker_epoch))
        await self._tell(image)
        return remaining

    async def elect_leaders(
        self, kind: ElectionType, partitions: Sequence[TopicPartition] | None, timeout_ms: float
    ) -> list[tuple[TopicPartition, ApiError | None]]:
        """Elect preferred leaders, or any where there is none; of these partitions, or of all that need it. Raises ApiError."""
        results, image = await self._office.turn(self._elect(kind, partitions))
        await self._tell(image, timeout_ms)
        return results

    async def alter_reassignments(
        self, wanted: Mapping[TopicPartition, tuple[BrokerId, ...] | None]
    ) -> dict[TopicPartition, ApiError | None]:
        """Start reassignments, or with None cancel them; per partition why not. Raises ApiError."""
        return await self._office.turn(self._reassign(wanted))

    def list_reassignments(self, partitions: Sequence[TopicPartition] | None = None) -> list[Reassignment]:
        """The reassignments that are running. Raises ApiError NOT_CONTROLLER."""
        image = self._office.image
        if image is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this broker is not the controller")
        return running(image, partitions)

    async def on_replica_offline(
        self, broker_id: BrokerId, broker_epoch: BrokerEpoch, partitions: Sequence[TopicPartition]
    ) -> None:
        """A broker told that it cannot serve these replicas, since their disk failed. Raises ApiError."""
        await self._office.turn(self._lose_replicas(broker_id, broker_epoch, partitions))

    async def on_replica_damaged(self, broker_id: BrokerId, partitions: Sequence[TopicPartition]) -> None:
        """A broker has met rot in these replicas, and wants to be counted on no more. Raises ApiError."""
        await self._office.turn(self._distrust(broker_id, partitions))

    async def _distrust(self, broker_id: BrokerId, partitions: Sequence[TopicPartition]) -> None:
        controller = await self._controller()
        await self._office.perform(controller, Distrust(broker_id=broker_id, partitions=partitions))
        logger.warning("replicas damaged", extra=fields(broker_id=broker_id, partition_count=len(partitions)))
        self._office.done(controller)

    async def _alter_partition(
        self, broker_id: BrokerId, broker_epoch: BrokerEpoch, changes: Sequence[IsrChange]
    ) -> list[PartitionState | ApiError]:
        controller = await self._controller()
        states: list[PartitionState | ApiError] = []
        for some in slices(changes, PARTITIONS_PER_SLICE):
            command = AlterPartition(broker_id=broker_id, broker_epoch=broker_epoch, changes=some)
            decision = await self._office.perform(controller, command)
            await self._office.reconsider(controller, decision.reconsider)
            states += decision.states
        self._office.done(controller)
        return states

    async def _shut_down(
        self, broker_id: BrokerId, broker_epoch: BrokerEpoch
    ) -> tuple[list[TopicPartition], ClusterImage]:
        controller = await self._controller()
        decision = await self._office.perform(controller, BeginShutdown(broker_id=broker_id, broker_epoch=broker_epoch))
        await self._office.reconsider(controller, decision.reconsider)
        image = self._office.done(controller)
        remaining = [partition for partition, state in partitions_of(image, broker_id) if state.leader == broker_id]
        logger.info("broker is shutting down", extra=fields(broker_id=broker_id, still_led_count=len(remaining)))
        return remaining, image

    async def _elect(
        self, kind: ElectionType, partitions: Sequence[TopicPartition] | None
    ) -> tuple[list[tuple[TopicPartition, ApiError | None]], ClusterImage]:
        controller = await self._controller()
        wanted = _electable(controller.image, kind) if partitions is None else list(dict.fromkeys(partitions))
        results: list[tuple[TopicPartition, ApiError | None]] = []
        for some in slices(wanted, PARTITIONS_PER_SLICE):
            decision = await self._office.perform(controller, ElectLeaders(kind=kind, partitions=some))
            results += zip(some, decision.errors, strict=True)
        return results, self._office.done(controller)

    async def _reassign(
        self, wanted: Mapping[TopicPartition, tuple[BrokerId, ...] | None]
    ) -> dict[TopicPartition, ApiError | None]:
        controller = await self._controller()
        results: dict[TopicPartition, ApiError | None] = {}
        for some in slices(list(wanted), PARTITIONS_PER_SLICE):
            decision = await self._office.perform(controller, Reassign(wanted={one: wanted[one] for one in some}))
            results |= zip(some, decision.errors, strict=True)
        self._office.done(controller)
        return results

    async def _lose_replicas(
        self, broker_id: BrokerId, broker_epoch: BrokerEpoch, partitions: Sequence[TopicPartition]
    ) -> None:
        controller = await self._controller()
        command = LoseReplicas(broker_id=broker_id, broker_epoch=broker_epoch, partitions=partitions)
        decision = await self._office.perform(controller, command)
        logger.warning("replicas offline", extra=fields(broker_id=broker_id, partition_count=len(partitions)))
        await self._office.reconsider(controller, decision.reconsider)
        self._office.done(controller)


def _electable(image: ClusterImage, kind: ElectionType) -> list[TopicPartition]:
    """All partitions for which an election of this kind is needed."""
    return [
        TopicPartition(name, index)
        for name, topic in image.topics.items()
        for index, state in topic.partitions.items()
        if (state.leader != state.preferred_leader if kind is ElectionType.PREFERRED else not state.has_leader)
    ]
