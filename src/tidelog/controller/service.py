"""The shell around the controller, one per broker: membership, the contest for the office, and, in office, everybody's wishes.

`start` registers and contends once. `run` lives on: a session that ended is replaced and the broker registered again, an office that became
vacant is contended for, brokers that come and go are seen. A registry that is away changes nothing: all stays as it was last known.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from tidelog.config import BrokerConfig, Listener
from tidelog.controller.alteration import ConfigAlteration
from tidelog.controller.channels import ClusterChannels
from tidelog.controller.commands import (
    AlterConfigs,
    AlterPartition,
    BeginShutdown,
    Command,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectionType,
    ElectLeaders,
    IsrChange,
    LoseReplicas,
    Reassign,
)
from tidelog.controller.controller import Controller
from tidelog.controller.growth import MorePartitions
from tidelog.controller.image import BrokerEpoch, ClusterImage, PartitionState, partitions_of
from tidelog.controller.membership.service import BrokerIdTaken as BrokerIdTaken
from tidelog.controller.membership.service import Membership, OnRegistered
from tidelog.controller.office.service import Office
from tidelog.controller.presiding.service import Presiding
from tidelog.controller.producer_ids import allocate_block
from tidelog.controller.reassignment import Reassignment, running
from tidelog.controller.topics import NewTopic, TopicResult, check_request
from tidelog.model import ApiError, BrokerId, ErrorCode, TopicPartition
from tidelog.registry import Registry, RegistryError, RegistryUnavailable
from tidelog.runtime import Clock, Randomness
from tidelog.runtime.logs import fields

logger = logging.getLogger(__name__)

T = TypeVar("T")

ITEMS_PER_SLICE: Final = 20  # decided without letting others run
PARTITIONS_PER_SLICE: Final = 200
TOLD_WITHIN_MS: Final = 5_000  # how long the answer to a change waits for brokers to hear of it


class ControllerService:
    """The controller's side of one broker."""

    def __init__(
        self,
        config: BrokerConfig,
        registry: Registry,
        randomness: Randomness,
        clock: Clock,
        channels: ClusterChannels,
        *,
        on_registered: OnRegistered,
    ) -> None:
        self._config = config
        self._registry = registry
        self._randomness = randomness
        self._channels = channels
        self._membership = Membership(config, registry, randomness, clock, on_registered)
        self._office = Office(config, registry, randomness, clock, channels)
        self._presiding = Presiding(config, registry, self._membership, self._office, channels, clock)
        self._is_started = False

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._office.is_held

    @property
    def controller_id(self) -> BrokerId:
        """Who was the controller when we last heard; NO_BROKER while nobody is known."""
        return self._office.controller_id

    @property
    def broker_epoch(self) -> BrokerEpoch:
        """The epoch of our registration; -1 while there is none."""
        return self._membership.broker_epoch

    async def prepare(self) -> str:
        """Open the session, lay out the tree where it is new, and return the cluster id; needed before logs can be opened."""
        return await self._membership.prepare()

    async def generate_broker_id(self) -> BrokerId:
        """A broker id nobody has, above those an operator may choose."""
        return await self._membership.generate_broker_id()

    async def last_registered_epoch(self) -> BrokerEpoch | None:
        """The epoch under which this broker id was last registered, if ever; read before `start`."""
        return await self._membership.last_registered_epoch()

    async def start(self, endpoints: Iterable[Listener] | None = None, *, is_intact: bool = True) -> None:
        """Register the broker at its advertised endpoints and contend for the office; whoever wins has loaded everything and published.

        Raises BrokerIdTaken, MalformedNode, RegistryUnavailable.
        """
        await self.prepare()
        told = self._config.advertised(self._config.listeners) if endpoints is None else tuple(endpoints)
        await self._membership.register(told, is_intact=is_intact)
        self._is_started = True
        await self._presiding.begin()

    async def run(self) -> None:
        """Stay a member, and the controller if that falls to us, until cancelled. Raises BrokerIdTaken if somebody took our place."""
        await self._presiding.run()

    async def stop(self) -> None:
        """End the session: the broker is no longer registered and no longer controller. `run` must have been cancelled."""
        async with self._office.exclusive():
            self._is_started = False
            self._office.resign("the broker stops")
            await self._registry.close()

    async def create_topics(self, topics: Sequence[NewTopic], *, validate_only: bool = False) -> list[TopicResult]:
        """Make topics, each for itself; a result per topic, in order. They have leaders, and brokers have heard of it, when this returns.

        With `validate_only` the answer is the same, but for the topic ids, and nothing is made.
        """
        try:
            if validate_only:
                return await self._office.turn(self._validate(topics))
            results, image = await self._office.turn(self._create(topics))
        except ApiError as error:
            return [TopicResult(name=topic.name, error=error) for topic in topics]
        await self._tell(image)
        return results

    async def delete_topics(self, names: Sequence[str]) -> list[TopicResult]:
        """Delete topics, each for itself; a result per name, in order. They are gone from the image when this returns."""
        try:
            results, image = await self._office.turn(self._delete(names))
        except ApiError as error:
            return [TopicResult(name=name, error=error) for name in names]
        await self._tell(image)
        return results

    async def create_partitions(
        self, topics: Sequence[MorePartitions], *, validate_only: bool = False
    ) -> list[ApiError | None]:
        """Give topics more partitions, each for itself; per topic, in order, why not. They have leaders when this returns."""
        return await self._change([CreatePartitions(topics=topics)], len(topics), validate_only=validate_only)

    async def alter_configs(
        self, alterations: Sequence[ConfigAlteration], *, validate_only: bool = False
    ) -> list[ApiError | None]:
        """Change settings of topics and brokers, each resource for itself; per resource, in order, why not.

        They are in the registry, with a notification, when this returns; brokers heed them as they hear of them.
        """
        commands = [AlterConfigs(alterations=some) for some in _slices(alterations, ITEMS_PER_SLICE)]
        return await self._change(commands, len(alterations), validate_only=validate_only)

    async def allocate_producer_ids(self) -> range:
        """A block of producer ids that nobody else ever gets. Any broker may ask. Raises ApiError when none can be had now."""
        try:
            return await allocate_block(self._registry, self._config.broker_id)
        except (RegistryError, RegistryUnavailable) as error:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from error

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

    async def on_replica_offline(self, broker_id: BrokerId, partitions: Sequence[TopicPartition]) -> None:
        """A broker told that it cannot serve these replicas, since their disk failed. Raises ApiError."""
        await self._office.turn(self._lose_replicas(broker_id, partitions))

    async def _controller(self) -> Controller:
        if not self._is_started or self._membership.cluster_id is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "the controller has not started")
        return await self._office.load(self._membership.cluster_id)

    async def _tell(self, image: ClusterImage | None, timeout_ms: float = TOLD_WITHIN_MS) -> None:
        if image is not None and not await self._channels.told(image, timeout_ms=min(timeout_ms, TOLD_WITHIN_MS)):
            logger.info("not every broker has heard of a change in time", extra=fields(timeout_ms=timeout_ms))

    async def _validate(self, topics: Sequence[NewTopic]) -> list[TopicResult]:
        controller = await self._controller()
        check_request(topics, controller.config)
        trial = Controller(self._config, controller.image, self._randomness)
        results: list[TopicResult] = []
        for some in _slices(topics, ITEMS_PER_SLICE):
            decision = trial.decide(CreateTopics(topics=some))
            trial.image = decision.image
            results += [dataclasses.replace(result, topic_id=None) for result in decision.results]
            await asyncio.sleep(0)
        return results

    async def _create(self, topics: Sequence[NewTopic]) -> tuple[list[TopicResult], ClusterImage | None]:
        controller = await self._controller()
        check_request(topics, controller.config)
        before = controller.image
        results: list[TopicResult] = []
        for some in _slices(topics, ITEMS_PER_SLICE):
            results += (await self._office.perform(controller, CreateTopics(topics=some))).results
        image = self._office.done(controller)
        for result in results:
            if result.error is None:
                logger.info("topic created", extra=fields(topic=result.name, partition_count=result.partition_count))
        return results, None if image is before else image

    async def _delete(self, names: Sequence[str]) -> tuple[list[TopicResult], ClusterImage | None]:
        controller = await self._controller()
        results = (await self._office.perform(controller, DeleteTopics(names=names))).results
        gone = dict.fromkeys(result.name for result in results if result.error is None)
        image = self._office.done(controller)
        if gone:
            await self._office.delete_marked(gone)
        return list(results), image if gone else None

    async def _change(
        self, commands: Sequence[CreatePartitions | AlterConfigs], count: int, *, validate_only: bool
    ) -> list[ApiError | None]:
        try:
            if validate_only:
                return await self._office.turn(self._try(commands))
            errors, image = await self._office.turn(self._carry_out(commands))
        except ApiError as error:
            return [error] * count
        await self._tell(image)
        return errors

    async def _try(self, commands: Sequence[Command]) -> list[ApiError | None]:
        controller = await self._controller()
        trial = Controller(self._config, controller.image, self._randomness)
        errors: list[ApiError | None] = []
        for command in commands:
            decision = trial.decide(command)
            trial.image = decision.image
            errors += decision.errors
            await asyncio.sleep(0)
        return errors

    async def _carry_out(self, commands: Sequence[Command]) -> tuple[list[ApiError | None], ClusterImage | None]:
        controller = await self._controller()
        before = controller.image
        errors: list[ApiError | None] = []
        for command in commands:
            decision = await self._office.perform(controller, command)
            await self._office.reconsider(controller, decision.reconsider)
            errors += decision.errors
        if controller.image is not before:
            await self._office.expire_notifications()
        image = self._office.done(controller)
        return errors, None if image is before else image

    async def _alter_partition(
        self, broker_id: BrokerId, broker_epoch: BrokerEpoch, changes: Sequence[IsrChange]
    ) -> list[PartitionState | ApiError]:
        controller = await self._controller()
        states: list[PartitionState | ApiError] = []
        for some in _slices(changes, PARTITIONS_PER_SLICE):
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
        for some in _slices(wanted, PARTITIONS_PER_SLICE):
            decision = await self._office.perform(controller, ElectLeaders(kind=kind, partitions=some))
            results += zip(some, decision.errors, strict=True)
        return results, self._office.done(controller)

    async def _reassign(
        self, wanted: Mapping[TopicPartition, tuple[BrokerId, ...] | None]
    ) -> dict[TopicPartition, ApiError | None]:
        controller = await self._controller()
        results: dict[TopicPartition, ApiError | None] = {}
        for some in _slices(list(wanted), PARTITIONS_PER_SLICE):
            decision = await self._office.perform(controller, Reassign(wanted={one: wanted[one] for one in some}))
            results |= zip(some, decision.errors, strict=True)
        self._office.done(controller)
        return results

    async def _lose_replicas(self, broker_id: BrokerId, partitions: Sequence[TopicPartition]) -> None:
        controller = await self._controller()
        decision = await self._office.perform(controller, LoseReplicas(broker_id=broker_id, partitions=partitions))
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


def _slices(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))
