"""The shell around the controller: it wins the election, loads the registry, performs decisions, and publishes images.

Commands are decided one at a time. While the writes of one are under way there is no controller in memory: if they end in an error, or the
caller goes away, the next command loads the registry again and completes what was left half written, as a restart would.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from tidelog.config import BrokerConfig, Listener
from tidelog.controller import layout
from tidelog.controller.alteration import ConfigAlteration
from tidelog.controller.controller import (
    AlterConfigs,
    Command,
    Controller,
    CreatePartitions,
    CreateTopics,
    Decision,
    DeleteTopics,
    ElectLeaders,
)
from tidelog.controller.growth import MorePartitions
from tidelog.controller.image import ClusterImage
from tidelog.controller.notifications import Notifications
from tidelog.controller.reign import ControllerElsewhere, Fenced, Reign, elect_controller
from tidelog.controller.topics import NewTopic, TopicResult, check_request
from tidelog.model import ApiError, BrokerId, ErrorCode
from tidelog.registry import (
    BadVersion,
    Create,
    Delete,
    NodeExists,
    NoNode,
    Registry,
    RegistryError,
    RegistryUnavailable,
    SessionExpired,
)
from tidelog.runtime import Clock, Randomness
from tidelog.runtime.logs import fields

logger = logging.getLogger(__name__)

T = TypeVar("T")

Publish: TypeAlias = Callable[[ClusterImage], Awaitable[None] | None]

ATTEMPTS_MAX: Final = 10  # of a compare-and-set that others keep winning
ITEMS_PER_SLICE: Final = 20  # decided without letting others run


class BrokerIdTaken(Exception):
    """Another live process has registered under our broker id."""

    def __init__(self, broker_id: BrokerId) -> None:
        super().__init__(f"broker id {broker_id} is registered by another live broker")
        self.broker_id = broker_id


class ControllerService:
    """The controller's side of one broker. `publish` hears of every image, and is waited for, before the call that made it returns."""

    def __init__(
        self,
        config: BrokerConfig,
        registry: Registry,
        randomness: Randomness,
        clock: Clock,
        publish: Publish,
    ) -> None:
        self._config = config
        self._registry = registry
        self._randomness = randomness
        self._clock = clock
        self._publish = publish
        self._queue = asyncio.Lock()
        self._commands: set[asyncio.Task[Any]] = set()  # Under way; the loop itself holds tasks only weakly.
        self._cluster_id: str | None = None
        self._reign: Reign | None = None
        self._controller: Controller | None = None
        self._notifications = Notifications((), 0)
        self._restarted: frozenset[BrokerId] = frozenset()
        self._is_started = False

    async def prepare(self) -> str:
        """Open the session, lay out the tree where it is new, and return the cluster id; needed before logs can be opened."""
        if self._cluster_id is None:
            if self._registry.session_id is None:
                await self._registry.open_session()
            await self._lay_out()
            self._cluster_id = layout.decode_cluster_id(await self._registry.get(layout.CLUSTER_ID))
        return self._cluster_id

    async def generate_broker_id(self) -> BrokerId:
        """A broker id nobody has, above those an operator may choose."""
        await self.prepare()
        return self._config.reserved_broker_id_max + await self._registry.set(layout.BROKER_ID_SEQUENCE, b"")

    async def start(self, endpoints: Iterable[Listener] | None = None) -> None:
        """Register the broker at its advertised endpoints, become controller, repair, elect leaders, publish.

        Raises BrokerIdTaken, ControllerElsewhere, MalformedNode, RegistryUnavailable.
        """
        await self.prepare()
        await self._register(self._config.advertised(self._config.listeners) if endpoints is None else tuple(endpoints))
        self._restarted = frozenset({self._config.broker_id})
        self._is_started = True
        async with self._queue:
            await self._load_if_needed()

    async def create_topics(self, topics: Sequence[NewTopic], *, validate_only: bool = False) -> list[TopicResult]:
        """Make topics, each for itself; a result per topic, in order. They have leaders when this returns.

        With `validate_only` the answer is the same, but for the topic ids, and nothing is made.
        """
        try:
            return await self._to_the_end(self._validate(topics) if validate_only else self._create(topics))
        except ApiError as error:
            return [TopicResult(name=topic.name, error=error) for topic in topics]

    async def delete_topics(self, names: Sequence[str]) -> list[TopicResult]:
        """Delete topics, each for itself; a result per name, in order. They are gone from the image when this returns."""
        try:
            return await self._to_the_end(self._delete(names))
        except ApiError as error:
            return [TopicResult(name=name, error=error) for name in names]

    async def create_partitions(
        self, topics: Sequence[MorePartitions], *, validate_only: bool = False
    ) -> list[ApiError | None]:
        """Give topics more partitions, each for itself; per topic, in order, why not. They have leaders when this returns."""
        return await self._change([CreatePartitions(topics=topics)], len(topics), validate_only=validate_only)

    async def alter_configs(
        self, alterations: Sequence[ConfigAlteration], *, validate_only: bool = False
    ) -> list[ApiError | None]:
        """Change settings of topics and brokers, each resource for itself; per resource, in order, why not. They hold when this returns."""
        commands = [AlterConfigs(alterations=some) for some in _slices(alterations)]
        return await self._change(commands, len(alterations), validate_only=validate_only)

    async def allocate_producer_ids(self) -> range:
        """A block of producer ids that nobody else ever gets. Raises ApiError when none can be had now."""
        try:
            for _ in range(ATTEMPTS_MAX):
                node = await self._registry.get(layout.PRODUCER_ID_BLOCK)
                start = layout.next_producer_id(node)
                block = range(start, start + layout.PRODUCER_ID_BLOCK_SIZE)
                if block.stop > layout.PRODUCER_ID_MAX:
                    raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids have been handed out")
                content = layout.encode_producer_id_block(self._config.broker_id, block)
                try:
                    await self._registry.set(layout.PRODUCER_ID_BLOCK, content, version=node.version)
                except BadVersion:
                    continue
                return block
        except (RegistryError, RegistryUnavailable) as error:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from error
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "other brokers were quicker")

    async def stop(self) -> None:
        """End the session: the broker is no longer registered and no longer controller."""
        async with self._queue:
            self._is_started = False
            self._controller = self._reign = None
            await self._registry.close()

    async def _validate(self, topics: Sequence[NewTopic]) -> list[TopicResult]:
        _, controller = await self._load_if_needed()
        check_request(topics, controller.config)
        trial = Controller(self._config, controller.image, self._randomness)
        results: list[TopicResult] = []
        for some in _slices(topics):
            decision = trial.decide(CreateTopics(topics=some))
            trial.image = decision.image
            results += [dataclasses.replace(result, topic_id=None) for result in decision.results]
            await asyncio.sleep(0)
        return results

    async def _create(self, topics: Sequence[NewTopic]) -> list[TopicResult]:
        reign, controller = await self._load_if_needed()
        check_request(topics, controller.config)
        before, self._controller = controller.image, None
        results: list[TopicResult] = []
        for some in _slices(topics):
            results += (await self._perform(reign, controller, CreateTopics(topics=some))).results
        if controller.image is not before:
            await self._publish_image(controller.image)
        self._controller = controller
        for result in results:
            if result.error is None:
                logger.info("topic created", extra=fields(topic=result.name, partition_count=result.partition_count))
        return results

    async def _delete(self, names: Sequence[str]) -> list[TopicResult]:
        reign, controller = await self._load_if_needed()
        self._controller = None
        results = (await self._perform(reign, controller, DeleteTopics(names=names))).results
        gone = [result.name for result in results if result.error is None]
        if gone:
            await self._publish_image(controller.image)
            await self._finish_deletions(reign, list(dict.fromkeys(gone)))
        self._controller = controller
        return list(results)

    async def _change(
        self, commands: Sequence[CreatePartitions | AlterConfigs], count: int, *, validate_only: bool
    ) -> list[ApiError | None]:
        try:
            return await self._to_the_end(self._try(commands) if validate_only else self._carry_out(commands))
        except ApiError as error:
            return [error] * count

    async def _try(self, commands: Sequence[Command]) -> list[ApiError | None]:
        _, controller = await self._load_if_needed()
        trial = Controller(self._config, controller.image, self._randomness)
        errors: list[ApiError | None] = []
        for command in commands:
            decision = trial.decide(command)
            trial.image = decision.image
            errors += decision.errors
            await asyncio.sleep(0)
        return errors

    async def _carry_out(self, commands: Sequence[Command]) -> list[ApiError | None]:
        reign, controller = await self._load_if_needed()
        before, self._controller = controller.image, None
        errors: list[ApiError | None] = []
        for command in commands:
            errors += (await self._perform(reign, controller, command)).errors
        if controller.image is not before:
            await self._publish_image(controller.image)
            await self._expire_notifications(reign)
        self._controller = controller
        return errors

    async def _to_the_end(self, command: Coroutine[Any, Any, T]) -> T:
        """Carry out a command in its turn. Once begun it comes to its end, also when its caller goes away. Raises ApiError."""
        task = asyncio.ensure_future(self._in_turn(command))
        self._commands.add(task)
        task.add_done_callback(self._on_command_ended)
        return await asyncio.shield(task)

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

    async def _perform(self, reign: Reign, controller: Controller, command: Command) -> Decision:
        decision = controller.decide(command)
        for write in decision.writes:
            for path in await reign.write(write):
                if path.startswith(layout.CHANGE_NOTIFICATION):
                    self._notifications.add(path, self._clock.wall_ms())
        controller.image = decision.image
        return decision

    async def _expire_notifications(self, reign: Reign) -> None:
        for path in self._notifications.take_expired(self._clock.wall_ms()):
            with contextlib.suppress(NoNode):
                await reign.write((Delete(path),))

    @contextlib.asynccontextmanager
    async def _translated(self) -> AsyncIterator[None]:
        """Say in the protocol's words what the registry said; what to do about it was done by forgetting the controller."""
        try:
            yield
        except RegistryUnavailable as error:
            logger.warning("registry unavailable", extra=fields(reason=error.reason))
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, str(error)) from error
        except (Fenced, ControllerElsewhere, SessionExpired) as error:
            self._reign = None
            logger.warning("no longer controller", extra=fields(reason=error))
            raise ApiError(ErrorCode.NOT_CONTROLLER, str(error)) from error
        except layout.MalformedNode as error:
            logger.warning("registry cannot be read", extra=fields(reason=error))
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
        except RegistryError as error:
            # Somebody wrote what only the controller writes; the next command reads it.
            logger.warning("registry changed under the controller", extra=fields(reason=error))
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, str(error)) from error

    async def _finish_deletions(self, reign: Reign, names: Sequence[str]) -> None:
        try:
            for name in names:
                await reign.delete_marked_topic(name)
                logger.info("topic deleted", extra=fields(topic=name))
        except RegistryUnavailable as error:
            # The marks are durable and the topics gone for everybody, so this is no failure to answer with.
            self._reign = None
            logger.warning("topic deletion to be finished later", extra=fields(topics=names, reason=error.reason))

    async def _load_if_needed(self) -> tuple[Reign, Controller]:
        if not self._is_started or self._cluster_id is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "the controller has not started")
        if self._reign is not None and self._controller is not None:
            return self._reign, self._controller
        self._controller = None
        if self._reign is None:
            self._reign = await elect_controller(self._registry, self._config.broker_id, self._clock.wall_ms())
            logger.info("controller elected", extra=fields(controller_epoch=self._reign.epoch))
        image = await self._reign.load(self._cluster_id, self._randomness)
        self._notifications = Notifications(await self._reign.notifications(), self._clock.wall_ms())
        controller = Controller(self._config, image, self._randomness)
        await self._perform(self._reign, controller, ElectLeaders(restarted=self._restarted))
        self._restarted = frozenset()
        await self._publish_image(controller.image)
        self._controller = controller
        return self._reign, controller

    async def _publish_image(self, image: ClusterImage) -> None:
        published = self._publish(image)
        if published is not None:
            await published

    async def _register(self, endpoints: tuple[Listener, ...]) -> None:
        protocols = dict(self._config.listener_security_protocol_map)
        registration = layout.Registration(
            broker_id=self._config.broker_id,
            endpoints=endpoints,
            security_protocols={endpoint.name: protocols[endpoint.name] for endpoint in endpoints},
            rack=self._config.broker_rack,
            registered_ms=self._clock.wall_ms(),
        )
        create = Create(layout.broker_path(registration.broker_id), layout.encode_broker(registration), ephemeral=True)
        try:
            [outcome] = await self._registry.multi([create])
        except NodeExists:
            # A former start of ours may have come as far as this before it failed.
            if (await self._registry.get(create.path)).owner != self._registry.session_id:
                raise BrokerIdTaken(registration.broker_id) from None
            _, outcome = await self._registry.multi([Delete(create.path), create])
        broker_epoch = -1 if outcome.node is None else outcome.node.czxid
        logger.info("broker registered", extra=fields(broker_id=registration.broker_id, broker_epoch=broker_epoch))

    async def _lay_out(self) -> None:
        """Create what is missing of the tree's fixed part, and the cluster id with it."""
        fresh_id = layout.encode_cluster_id(layout.encode_uuid(self._randomness.uuid()))
        wanted = [*map(Create, layout.PERSISTENT_PATHS), Create(layout.CLUSTER_ID, fresh_id)]
        for _ in range(ATTEMPTS_MAX):
            found = await self._registry.get_many([create.path for create in wanted])
            missing = [create for create, node in zip(wanted, found, strict=True) if node is None]
            if not missing:
                return
            with contextlib.suppress(NodeExists):  # somebody else is at it too: look again
                await self._registry.multi(missing)


def _slices(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + ITEMS_PER_SLICE] for start in range(0, len(items), ITEMS_PER_SLICE))
