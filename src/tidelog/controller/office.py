"""The office of the controller: winning and losing it, loading the registry, performing decisions, publishing images.

Commands are decided one at a time. While the writes of one are under way there is no controller in memory: if they end in an error, or the
caller goes away, the registry is loaded again, and what was left half written is completed, as the next controller would.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from tidelog.config import BrokerConfig
from tidelog.controller import layout
from tidelog.controller.altering import with_doubted_minimums
from tidelog.controller.channels import ClusterChannels
from tidelog.controller.commands import Change, Command, Decision, Reconsider, SeeBrokers
from tidelog.controller.controller import Controller
from tidelog.controller.image import NO_BROKER, BrokerEpoch, BrokerImage, ClusterImage
from tidelog.controller.leading import seen_brokers
from tidelog.controller.notifications import Notifications
from tidelog.controller.reign import ControllerElsewhere, Fenced, Reign, elect_controller
from tidelog.model import ApiError, BrokerId, ErrorCode, TopicPartition
from tidelog.registry import Delete, NoNode, Registry, RegistryError, RegistryUnavailable, SessionExpired
from tidelog.runtime import Clock, Randomness
from tidelog.runtime.logs import fields

logger = logging.getLogger(__name__)

T = TypeVar("T")

PARTITIONS_PER_SLICE: Final = 200  # decided, and written, in one go
COMMANDS_MAX: Final = 1_000  # that wait for their turn
PARTITIONS_PER_LOOK: Final = 5_000  # looked at in one go
NOBODY: Final[frozenset[BrokerId]] = frozenset()


class Office:
    """Held by one broker at a time. `turn` is how a command gets its turn; all else happens within one."""

    def __init__(
        self,
        config: BrokerConfig,
        registry: Registry,
        randomness: Randomness,
        clock: Clock,
        channels: ClusterChannels,
    ) -> None:
        self._config = config
        self._registry = registry
        self._randomness = randomness
        self._clock = clock
        self._channels = channels
        self._queue = asyncio.Lock()
        self._commands: set[asyncio.Task[Any]] = set()  # Under way; the loop itself holds tasks only weakly.
        self._reign: Reign | None = None
        self._controller: Controller | None = None
        self._last_image: ClusterImage | None = None  # of this reign
        self._known_epochs: dict[BrokerId, BrokerEpoch] = {}
        self._notifications = Notifications((), 0)
        self.unclean_elections = 0
        """How many leaders this broker has elected, in all its reigns, who may not have known all that was committed."""
        self.on_unsettled: Callable[[], None] = lambda: None  # something failed that somebody should look after
        self.controller_id: BrokerId = NO_BROKER
        self.waiting: dict[TopicPartition, None] = {}  # partitions that only the ends of their logs can help
        self.has_waiting = asyncio.Event()

    @property
    def is_held(self) -> bool:
        """Whether we are the controller, as far as we know."""
        return self._reign is not None

    @property
    def image(self) -> ClusterImage | None:
        """What was last published, while we are the controller."""
        return self._last_image

    async def turn(self, command: Coroutine[Any, Any, T]) -> T:
        """Carry out a command in its turn. Once begun it comes to its end, also when its caller goes away. Raises ApiError."""
        if len(self._commands) >= COMMANDS_MAX:
            command.close()
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"{COMMANDS_MAX} commands wait for the controller already")
        task = asyncio.ensure_future(self._in_turn(command))
        self._commands.add(task)
        task.add_done_callback(self._on_command_ended)
        return await asyncio.shield(task)

    @contextlib.asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """A turn for whoever deals with the registry's errors himself."""
        async with self._queue:
            yield

    def resign(self, reason: str) -> None:
        """Be the controller no more, at once: nobody is told anything, and whatever is being written is refused."""
        if self._reign is not None:
            logger.info("controller resigned", extra=fields(controller_epoch=self._reign.epoch, reason=reason))
            self._channels.withdraw()
        self._reign = self._controller = self._last_image = None
        self.waiting.clear()
        self.has_waiting.clear()
        if self.controller_id == self._config.broker_id:
            self.controller_id = NO_BROKER

    async def contend(self) -> bool:
        """See who is the controller; become it where nobody is. Whether we are. Raises RegistryUnavailable, RegistryError."""
        [holder] = await self._registry.get_many([layout.CONTROLLER])
        is_ours = holder is not None and holder.owner == self._registry.session_id
        if self._reign is not None:
            if is_ours:
                return True
            self.resign("the registry names another controller, or none")
        if holder is not None and not is_ours:
            self.controller_id = layout.decode_controller(holder)
            return False
        try:
            reign = await elect_controller(self._registry, self._config.broker_id, self._clock.wall_ms())
        except ControllerElsewhere as elsewhere:
            self.controller_id = elsewhere.broker_id
            return False
        self._reign = reign
        self.controller_id = self._config.broker_id
        logger.info("controller elected", extra=fields(controller_epoch=reign.epoch))
        return True

    async def load(self, cluster_id: str) -> Controller:
        """The controller of our reign, with everything read and in order. Raises ApiError NOT_CONTROLLER, MalformedNode, registry errors."""
        if self._reign is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this broker is not the controller")
        if self._controller is not None:
            return self._controller
        reign, before = self._reign, self._last_image
        known = await reign.known_epochs()
        image = await reign.load(cluster_id, self._randomness)
        notifications = await reign.notifications()
        foreign = {
            path: node for path, node in notifications.items() if before is None or path not in self._notifications
        }
        self._notifications = Notifications(notifications, self._clock.wall_ms())
        if before is not None:
            image = seen_brokers(
                dataclasses.replace(
                    image,
                    brokers=before.brokers,
                    shutting_down=before.shutting_down,
                    offline=before.offline,
                    former_minimums=before.former_minimums,
                ),
                image.brokers,
            )
        image = with_doubted_minimums(image, foreign)
        self._check_held(reign)
        controller = Controller(self._config, image, self._randomness)
        self._known_epochs = known
        restarted = self._restarted(image.brokers)
        gone = NOBODY if before is None else frozenset(before.brokers) - frozenset(image.brokers)
        _log_brokers(gone, [image.brokers[broker] for broker in sorted(restarted)])
        await self._reconsider_all(reign, controller, restarted, changed=None)
        self._publish(controller.image)
        self._controller = controller
        return controller

    async def perform(self, controller: Controller, command: Command) -> Decision:
        """Decide, write, and remember. What the decision gives reason to reconsider is the caller's; so is publishing."""
        reign = self._reign
        if reign is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this broker is not the controller")
        decision = controller.decide(command)
        self._controller = None
        for write in decision.writes:
            for path in await reign.write(write):
                if path.startswith(layout.CHANGE_NOTIFICATION):
                    self._notifications.add(path, self._clock.wall_ms())
            self._check_held(reign)
        controller.image = decision.image
        self.unclean_elections += _log_changes(decision.changes)
        return decision

    def done(self, controller: Controller) -> ClusterImage:
        """A command has come to its end: what it made of the cluster is published."""
        self._publish(controller.image)
        self._controller = controller
        return controller.image

    async def reconsider(self, controller: Controller, partitions: Iterable[TopicPartition]) -> None:
        """Bring partitions in line, slice by slice, and publish each."""
        pending = list(partitions)
        for start in range(0, len(pending), PARTITIONS_PER_SLICE):
            await self._reconsider_slice(
                controller, Reconsider(partitions=pending[start : start + PARTITIONS_PER_SLICE])
            )
            self._publish(controller.image)

    async def compare_brokers(self, controller: Controller) -> None:
        """See who has come and gone since we last looked, and do what follows."""
        reign = self._reign
        if reign is None:
            return
        brokers = await reign.brokers()
        self._check_held(reign)
        known = controller.image.brokers
        restarted = self._restarted(brokers)
        gone = frozenset(known) - frozenset(brokers)
        if brokers == known and not restarted:
            return
        _log_brokers(gone, [brokers[broker] for broker in sorted(restarted)])
        await self.perform(controller, SeeBrokers(brokers=brokers))
        await self._reconsider_all(reign, controller, restarted, changed=gone | restarted)
        self.done(controller)

    async def expire_notifications(self) -> None:
        """Remove notifications that everybody has had the time to heed."""
        for path in self._notifications.take_expired(self._clock.wall_ms()):
            with contextlib.suppress(NoNode):
                if self._reign is not None:
                    await self._reign.write((Delete(path),))

    async def delete_marked(self, names: Iterable[str]) -> None:
        """Remove topics that are gone for everybody. What the registry will not do now, the next load does."""
        reign = self._reign
        try:
            for name in names:
                if reign is not None:
                    await reign.delete_marked_topic(name)
                    logger.info("topic deleted", extra=fields(topic=name))
        except RegistryUnavailable as error:
            # The marks are durable and the topics gone for everybody, so this is no failure to answer with.
            self._controller = None
            logger.warning("topic deletion to be finished later", extra=fields(reason=error.reason))

    def wait_further(self, controller: Controller, partitions: Sequence[TopicPartition]) -> None:
        """See which of these partitions only the ends of their logs can help; the others wait for that no more."""
        for partition in partitions:
            self.waiting.pop(partition, None)
        self.waiting.update(dict.fromkeys(controller.leading.waiting_for_ends(partitions)))
        if self.waiting:
            self.has_waiting.set()
        else:
            self.has_waiting.clear()

    def _restarted(self, brokers: Mapping[BrokerId, BrokerImage]) -> frozenset[BrokerId]:
        """Who has registered since a controller last dealt with it."""
        return frozenset(
            broker_id
            for broker_id, broker in brokers.items()
            if self._known_epochs.get(broker_id) != broker.broker_epoch
        )

    async def _reconsider_all(
        self,
        reign: Reign,
        controller: Controller,
        restarted: frozenset[BrokerId],
        changed: frozenset[BrokerId] | None,
    ) -> None:
        """Bring every partition of the `changed` brokers in line, or every one at all; then that is remembered."""
        brokers = controller.image.brokers
        forgetful = frozenset(broker for broker in restarted if not brokers[broker].is_intact)
        for some in _affected(controller.image, changed):
            if some:
                command = Reconsider(partitions=some, restarted=restarted, forgetful=forgetful)
                await self._reconsider_slice(controller, command)
                if self._last_image is not None:
                    self._publish(controller.image)
            await asyncio.sleep(0)
        if restarted:
            # Those of brokers that are away are kept: when they return, they must learn that their last start was heeded.
            epochs = self._known_epochs | {broker_id: broker.broker_epoch for broker_id, broker in brokers.items()}
            await reign.remember_epochs(epochs)
            self._check_held(reign)
            self._known_epochs = epochs

    async def _reconsider_slice(self, controller: Controller, command: Reconsider) -> None:
        await self.perform(controller, command)
        self.wait_further(controller, command.partitions)

    def _publish(self, image: ClusterImage) -> None:
        if image is not self._last_image:
            self._last_image = image
            self._channels.publish(image)

    def _check_held(self, reign: Reign) -> None:
        """After every wait: a session that ended meanwhile took the office with it."""
        if self._reign is not reign:
            raise Fenced(f"controller epoch {reign.epoch} is over")

    async def _in_turn(self, command: Coroutine[Any, Any, T]) -> T:
        try:
            async with self._translated(), self._queue:
                return await command
        finally:
            command.close()  # One that never had its turn is not left unawaited.

    def _on_command_ended(self, task: asyncio.Task[Any]) -> None:
        self._commands.discard(task)
        if not task.cancelled():
            task.exception()  # Its caller may be gone; what there is to say was logged.

    @contextlib.asynccontextmanager
    async def _translated(self) -> AsyncIterator[None]:
        """Say in the protocol's words what the registry said; what to do about it was done by forgetting the controller."""
        try:
            yield
        except RegistryUnavailable as error:
            logger.warning("registry unavailable", extra=fields(reason=error.reason))
            self.on_unsettled()
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, str(error)) from error
        except (Fenced, SessionExpired) as error:
            self.resign(str(error))
            self.on_unsettled()
            raise ApiError(ErrorCode.NOT_CONTROLLER, str(error)) from error
        except layout.MalformedNode as error:
            logger.warning("registry cannot be read", extra=fields(reason=error))
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
        except RegistryError as error:
            # Somebody wrote what only the controller writes; the next command reads it.
            logger.warning("registry changed under the controller", extra=fields(reason=error))
            self.on_unsettled()
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, str(error)) from error


def _affected(image: ClusterImage, changed: frozenset[BrokerId] | None) -> Iterator[list[TopicPartition]]:
    """The partitions that have a replica on one of these brokers, or all, in slices; an empty slice says that this took a while."""
    some: list[TopicPartition] = []
    looked = 0
    for name, topic in image.topics.items():
        for index, state in topic.partitions.items():
            looked += 1
            if changed is None or not changed.isdisjoint(state.assignment):
                some.append(TopicPartition(name, index))
            if len(some) == PARTITIONS_PER_SLICE or looked >= PARTITIONS_PER_LOOK:
                yield some
                some, looked = [], 0
    yield some


def _log_brokers(gone: frozenset[BrokerId], started: Iterable[BrokerImage]) -> None:
    for broker_id in sorted(gone):
        logger.warning("broker failed", extra=fields(broker_id=broker_id))
    for broker in started:
        logger.info(
            "broker started",
            extra=fields(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, is_intact=broker.is_intact),
        )


def _log_changes(changes: Iterable[Change]) -> int:
    """Say what has changed; how many leaders were elected uncleanly."""
    unclean = 0
    elected: Counter[BrokerId] = Counter()
    for change in changes:
        before, after = change.before, change.after
        if (before.adding, before.removing) != (after.adding, after.removing):
            _log_reassignment(change)
        if after.leader == before.leader:
            continue
        elected[after.leader] += 1
        logger.debug(
            "leader elected for partition",
            extra=fields(partition=change.topic_partition, leader=after.leader, leader_epoch=after.leader_epoch),
        )
        if after.is_recovering and after.has_leader and after.leader not in (*before.isr, *before.eligible):
            unclean += 1
            logger.warning(
                "unclean leader elected", extra=fields(partition=change.topic_partition, leader=after.leader)
            )
    for leader, count in sorted(elected.items()):
        if leader == NO_BROKER:
            logger.warning("no leader can be elected", extra=fields(partition_count=count))
        else:
            logger.info("leader elected", extra=fields(leader=leader, partition_count=count))
    return unclean


def _log_reassignment(change: Change) -> None:
    before, after = change.before, change.after
    told = fields(partition=change.topic_partition, replicas=after.assignment)
    if after.is_reassigned:
        logger.info("reassignment started", extra=told)
    elif after.assignment == before.target:
        logger.info("reassignment finished", extra=told)
    else:
        logger.info("reassignment cancelled", extra=told)
