"""One node: what exists, and the order of start and stop.

The order matters. Logs are recovered before the broker registers, so that nobody is sent to it in vain. Sockets are bound before it
registers, so that the ports it announces are real, but answer only afterwards: brokers first, and clients once the controller has told this
broker what it is. Stopping is the reverse: others take over what it leads, requests under way are finished, then everything is flushed,
checkpointed and closed, the mark of a clean shutdown is left, and last the registration goes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Final

from tidelog.broker import controlled_shutdown
from tidelog.broker.assembly import Assembly, assemble, with_broker_id
from tidelog.broker.damage_repair import DamageRepair
from tidelog.broker.faults import Faults, FillableDisk, troubled
from tidelog.broker.handlers import bind_handlers, write_txn_markers
from tidelog.broker.housekeeping import Housekeeping
from tidelog.broker.inter_broker import endpoints_to_register, listeners_to_bind
from tidelog.broker.log_cleaner import LogCleaner
from tidelog.broker.metrics import MetricsPage, metrics_url
from tidelog.broker.node import Node
from tidelog.broker.replica_manager import ReplicaManager
from tidelog.config import BrokerConfig
from tidelog.config import Listener as ListenerSetting
from tidelog.model import BrokerEpoch
from tidelog.partition import Partition
from tidelog.registry import Registry
from tidelog.runtime import Address, Runtime, StorageFailure
from tidelog.runtime.logs import fields
from tidelog.server import ConnectionLimits, Dispatcher, Guard, GuardLimits, Listener

logger = logging.getLogger(__name__)

TOLD_WITHIN_S: Final = 10.0
"""How long a start waits for the controller's first word; clients who come earlier ask again."""
_BROKERS_DRAIN_S: Final = 0.3
"""What other brokers wait for when we stop, they soon ask somebody else."""


class Broker:
    """Owns no partition state; owns the lifetime of the parts that do."""

    def __init__(self, config: BrokerConfig, runtime: Runtime, registry: Registry) -> None:
        self._config = config
        self._faults = Faults()
        self._runtime = _breakable(runtime, self._faults) if config.faults_enable else runtime
        self._registry = registry
        self._stop_requested = asyncio.Event()
        self._goes_alone = True
        self._node: Node | None = None
        self.metrics_urls: list[str] = []
        """Where the metrics are shown, once they are."""

    def stop(self, *, with_everybody: bool = False) -> None:
        """Ask the broker to leave; `run` returns when it has. Where all brokers leave, there is nobody to hand over to."""
        self._goes_alone = not with_everybody
        self._stop_requested.set()

    @property
    def is_controller(self) -> bool:
        """Whether it believes to be the controller."""
        return self._node is not None and self._node.controller.is_active

    @property
    def broker_epoch(self) -> BrokerEpoch:
        """The registration it acts under, which may be over; -1 before the first."""
        return -1 if self._node is None else self._node.broker_epoch()

    def partitions(self) -> Iterator[Partition]:
        """Its replicas, for those who look on."""
        if self._node is not None:
            yield from (partition for partition, _ in self._node.replicas.partitions())

    async def run(self, *, on_ready: Callable[[Mapping[str, Address]], None]) -> None:
        """Serve until `stop`; `on_ready` gets the bound address of each listener for clients.

        Raises NetworkFailure, StorageFailure, WrongDirectory, RegistryUnavailable or BrokerIdTaken when it cannot serve, and StorageFailure
        when the last log directory has failed.
        """
        try:
            await self._run(on_ready)
        except BaseExceptionGroup as group:
            causes = list(_causes(group))
            if len(causes) > 1:
                raise
            raise causes[0] from group

    async def _run(self, on_ready: Callable[[Mapping[str, Address]], None]) -> None:
        metrics = MetricsPage(self._runtime)
        async with metrics.shown(self._config) as config:
            if config.faults_enable:
                logger.warning(
                    "anybody may let this broker fail: it was started for tests",
                    extra=fields(broker_id=config.broker_id),
                )
            self.metrics_urls = [metrics_url(listener) for listener in config.metrics_listeners]
            await self._serve(await with_broker_id(config, self._runtime, self._registry), metrics, on_ready)

    async def _serve(
        self, config: BrokerConfig, metrics: MetricsPage, on_ready: Callable[[Mapping[str, Address]], None]
    ) -> None:
        assembly = assemble(config, self._runtime, self._registry, self._faults)
        self._node = node = assembly.node
        guard = Guard(guard_limits(config), self._runtime)
        listeners = [self._listener(node, setting, guard) for setting in listeners_to_bind(config)]
        async with AsyncExitStack() as parts:
            await self._open(assembly, listeners, parts)
            metrics.begin(node, listeners)
            parts.callback(metrics.end)
            await self._join(assembly, listeners, parts)
            for listener in listeners:
                listener.serve()
            logger.info("broker ready", extra=fields(broker_id=config.broker_id, cluster_id=node.metadata.cluster_id))
            named = {setting.name for setting in config.listeners}
            on_ready({listener.name: listener.address for listener in listeners if listener.name in named})
            failure = await self._until_stopped(node.replicas)
            logger.info("broker stopping", extra=fields(broker_id=config.broker_id))
            if self._goes_alone:
                await controlled_shutdown.leave(node)
        if failure is not None:
            raise failure

    async def _open(self, assembly: Assembly, listeners: list[Listener], parts: AsyncExitStack) -> None:
        """Everything that needs nobody else: the session, the logs, the sockets."""
        node = assembly.node
        parts.push_async_callback(node.controller.stop)
        cluster_id = await node.controller.prepare()
        node.metadata.begin(cluster_id)
        await parts.enter_async_context(node.replicas.running(cluster_id))
        await parts.enter_async_context(node.configs.running())
        await parts.enter_async_context(node.peers.running())
        await parts.enter_async_context(assembly.channels.running())
        await parts.enter_async_context(assembly.isr_changes.running())
        await parts.enter_async_context(assembly.fetchers.running())
        # Brokers are served for longer than clients: what producers wait for comes from them.
        for listener in sorted(listeners, key=lambda one: not node.is_inter_broker(one.name)):
            await parts.enter_async_context(listener.running())
        parts.callback(node.replicas.dismiss)
        await parts.enter_async_context(node.internal_topics.running())
        await parts.enter_async_context(node.producer_ids.running())
        # Left before the listeners: members and producers are told to look elsewhere.
        await parts.enter_async_context(node.groups.running())
        await parts.enter_async_context(node.transactions.serving(partial(write_txn_markers.write, node)))

    async def _join(self, assembly: Assembly, listeners: list[Listener], parts: AsyncExitStack) -> None:
        """Register, and wait for the controller's word, be it our own."""
        node, config = assembly.node, assembly.node.config
        remembered = await node.controller.last_registered_epoch()
        is_intact = assembly.incarnations.is_intact(node.replicas.directories, remembered)
        endpoints = endpoints_to_register(config, [bound(listener) for listener in listeners])
        await node.controller.start(endpoints, is_intact=is_intact)
        for listener in listeners:
            if node.is_inter_broker(listener.name):
                listener.serve()
        await parts.enter_async_context(assembly.directory_reports.running())
        controlling = await parts.enter_async_context(asyncio.TaskGroup())
        parts.callback(controlling.create_task(node.controller.run()).cancel)
        await self._until_told(node)
        repair = DamageRepair(
            config.broker_id, self._runtime, self._registry, node.replicas, assembly.directory_reports
        )
        await parts.enter_async_context(repair.running())
        await parts.enter_async_context(Housekeeping(config, self._runtime, node.replicas, assembly.roles).running())
        await parts.enter_async_context(LogCleaner(node.live_config, self._runtime, node.replicas).running())

    async def _until_told(self, node: Node) -> None:
        try:
            async with asyncio.timeout(TOLD_WITHIN_S):
                await node.control_plane.was_told_all.wait()
        except TimeoutError:
            logger.warning("no word of a controller yet", extra=fields(broker_id=node.config.broker_id))

    def _listener(self, node: Node, setting: ListenerSetting, guard: Guard) -> Listener:
        config = node.config
        is_inter_broker = node.is_inter_broker(setting.name)
        limits = ConnectionLimits(
            request_bytes_max=config.socket_request_max_bytes,
            recordless_request_bytes_max=(
                config.socket_request_max_bytes if is_inter_broker else config.control_request_max_bytes
            ),
            idle_ms_max=config.connections_max_idle_ms,
        )
        handlers = bind_handlers(node, setting.name)
        if config.faults_enable:
            handlers = troubled(handlers, self._faults, are_brokers=is_inter_broker)
        dispatcher = Dispatcher(handlers, self._runtime.metrics, self._runtime.clock)
        listener = Listener(setting.name, Address(setting.host, setting.port), dispatcher, limits, self._runtime, guard)
        if is_inter_broker:
            listener.drain_s = _BROKERS_DRAIN_S
        return listener

    async def _until_stopped(self, replicas: ReplicaManager) -> StorageFailure | None:
        """Wait until somebody asks for the end, or until no log directory is left to serve from."""
        stopped = asyncio.ensure_future(self._stop_requested.wait())
        failed = asyncio.ensure_future(replicas.all_directories_failed.wait())
        try:
            await asyncio.wait((stopped, failed), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            failed.cancel()
        if not replicas.all_directories_failed.is_set():
            return None
        return StorageFailure("use", ",".join(self._config.log_dirs), "every log directory has failed")


def _breakable(runtime: Runtime, faults: Faults) -> Runtime:
    return replace(runtime, disk=FillableDisk(runtime.disk, lambda: faults.is_disk_full))


def _causes(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """What went wrong in the tasks of a broker, without the groups that tell in which."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _causes(error)
        else:
            yield error


def guard_limits(config: BrokerConfig) -> GuardLimits:
    """What the settings allow all clients together."""
    return GuardLimits(
        connections_max=config.connections_max,
        connections_max_per_address=config.connections_max_per_ip,
        request_bytes_max=config.queued_request_max_bytes,
        requests_max=config.queued_requests_max,
    )


def bound(listener: Listener) -> ListenerSetting:
    """A listener as it is really bound; a wildcard keeps its host, and clients are then told the address they dialled."""
    return ListenerSetting(listener.name, listener.bind.host, listener.address.port)
