"""One broker's membership: its session, its registration, and the epoch it was registered under."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from tidelog.config import BrokerConfig, Listener
from tidelog.controller import layout
from tidelog.controller.image import BrokerEpoch
from tidelog.model import BrokerId
from tidelog.registry import Create, Delete, Node, NodeExists, NoNode, Registry, SessionExpired, SessionId, Set
from tidelog.runtime import Clock, Randomness
from tidelog.runtime.logs import fields

logger = logging.getLogger(__name__)

ATTEMPTS_MAX: Final = 10  # of laying out a tree that others lay out too
SESSIONS_MAX: Final = 5  # that may lapse during one start
LOOK_AGAIN_MS: Final = 500  # at a registration that stands in our way

T = TypeVar("T")

OnRegistered = Callable[[BrokerEpoch], Awaitable[None]]


class BrokerIdTaken(Exception):
    """Another live process has registered under our broker id."""

    def __init__(self, broker_id: BrokerId) -> None:
        super().__init__(f"broker id {broker_id} is registered by another live broker")
        self.broker_id = broker_id


class Membership:
    """Lays out the tree, registers, and registers again when a session is over. `on_registered` is awaited after every registration."""

    def __init__(
        self,
        config: BrokerConfig,
        registry: Registry,
        randomness: Randomness,
        clock: Clock,
        on_registered: OnRegistered,
    ) -> None:
        self._config = config
        self._registry = registry
        self._randomness = randomness
        self._clock = clock
        self._on_registered = on_registered
        self._endpoints: tuple[Listener, ...] = ()
        self._registered_session: SessionId | None = None
        self.cluster_id: str | None = None
        self.broker_epoch: BrokerEpoch = -1

    async def prepare(self) -> str:
        """Open the session, lay out the tree where it is new, and return the cluster id."""
        if self.cluster_id is None:
            await self._open_if_needed()
            await self._lay_out()
            self.cluster_id = layout.decode_cluster_id(await self._registry.get(layout.CLUSTER_ID))
        return self.cluster_id

    async def generate_broker_id(self) -> BrokerId:
        """A broker id nobody has, above those an operator may choose."""
        await self.prepare()
        return self._config.reserved_broker_id_max + await self._registry.set(layout.BROKER_ID_SEQUENCE, b"")

    async def last_registered_epoch(self) -> BrokerEpoch | None:
        """The epoch under which this broker id was last registered, if ever."""
        await self.prepare()
        path = layout.incarnation_path(self._config.broker_id)
        [node] = await self._in_a_session(lambda: self._registry.get_many([path]))
        return None if node is None else layout.decode_incarnation(self._config.broker_id, node).broker_epoch

    async def register(self, endpoints: tuple[Listener, ...], *, is_intact: bool) -> None:
        """Register at these endpoints, now and whenever a session has to be replaced. Raises BrokerIdTaken."""
        self._endpoints = endpoints
        await self._in_a_session(lambda: self._register(is_intact=is_intact))

    async def renew(self) -> None:
        """Open another session and register again; a process that lived on has forgotten nothing. Raises BrokerIdTaken."""
        self.broker_epoch = -1
        await self._registry.open_session()
        await self._register(is_intact=True)

    async def _in_a_session(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do what a start needs, in another session if ours lapsed: logs are recovered meanwhile, and processes are stopped and continued."""
        for _ in range(SESSIONS_MAX):
            try:
                return await work()
            except SessionExpired:
                await self._registry.open_session()
        return await work()

    async def _open_if_needed(self) -> None:
        if self._registry.session_id is None:
            await self._registry.open_session()

    async def _register(self, *, is_intact: bool) -> None:
        is_intact = is_intact and not await self._is_loss_unheeded()
        create = Create(
            layout.broker_path(self._config.broker_id), self._registration(is_intact=is_intact), ephemeral=True
        )
        node = await self._created(create)
        self._registered_session = self._registry.session_id
        await self._remember(layout.LastRegistration(node.czxid, is_intact))
        self.broker_epoch = node.czxid
        logger.info(
            "broker registered",
            extra=fields(broker_id=self._config.broker_id, broker_epoch=node.czxid, is_intact=is_intact),
        )
        await self._on_registered(node.czxid)

    async def _is_loss_unheeded(self) -> bool:
        """Whether we registered without all we knew and no controller has dealt with that yet: then we must say so again.

        Our log directories are in order since, but the ISRs we were in may still count on what we have forgotten.
        """
        path = layout.incarnation_path(self._config.broker_id)
        last, known = await self._registry.get_many([path, layout.KNOWN_EPOCHS])
        if last is None or known is None:
            return False
        broker_epoch, was_intact = layout.decode_incarnation(self._config.broker_id, last)
        return not was_intact and layout.decode_known_epochs(known).get(self._config.broker_id) != broker_epoch

    def _registration(self, *, is_intact: bool) -> bytes:
        protocols = dict(self._config.listener_security_protocol_map)
        return layout.encode_broker(
            layout.Registration(
                broker_id=self._config.broker_id,
                endpoints=self._endpoints,
                security_protocols={one.name: protocols.get(one.name, "PLAINTEXT") for one in self._endpoints},
                rack=self._config.broker_rack,
                registered_ms=self._clock.wall_ms(),
                is_intact=is_intact,
                min_isr=self._config.min_insync_replicas,
            )
        )

    async def _created(self, create: Create) -> Node:
        """The node of our registration; one that a dead session of ours left is waited for as long as a session can last."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.session_timeout_ms / 1000
        changed = asyncio.Event()
        watch = None
        try:
            while True:
                changed.clear()
                try:
                    [outcome] = await self._registry.multi([create])
                except NodeExists:
                    if await self._is_removed(create.path):
                        continue
                    if loop.time() >= deadline:
                        raise BrokerIdTaken(self._config.broker_id) from None
                else:
                    return outcome.node or await self._registry.get(create.path)
                watch = watch or await self._registry.watch(create.path, changed.set)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(LOOK_AGAIN_MS / 1000, deadline - loop.time())):
                        await changed.wait()
        finally:
            if watch is not None:
                watch.cancel()

    async def _is_removed(self, path: str) -> bool:
        """Whether the registration in our way is gone, or was our own and now is. Raises BrokerIdTaken if it is no remnant."""
        [node] = await self._registry.get_many([path])
        if node is None:
            return True
        if node.owner == self._registry.session_id:
            # A former attempt of ours came as far as this before it failed.
            with contextlib.suppress(NoNode):
                await self._registry.multi([Delete(path)])
            return True
        known = layout.decode_broker(self._config.broker_id, node)
        # Whoever listens where we listen now can only be dead: its session has not ended yet.
        if node.owner != self._registered_session and not set(known.endpoints.values()) & set(self._endpoints):
            raise BrokerIdTaken(self._config.broker_id)
        logger.info(
            "waiting for the end of a former registration",
            extra=fields(broker_id=self._config.broker_id, broker_epoch=node.czxid),
        )
        return False

    async def _remember(self, last: layout.LastRegistration) -> None:
        path = layout.incarnation_path(self._config.broker_id)
        content = layout.encode_incarnation(last)
        try:
            await self._registry.multi([Set(path, content)])
        except NoNode:
            await self._registry.multi([Create(path, content)])

    @property
    def session_timeout_ms(self) -> int:
        """How long a broker that hears nothing from the registry can still be registered there."""
        if self._config.zookeeper_connect:
            return self._config.zookeeper_session_timeout_ms
        return self._config.registry_session_timeout_ms

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
