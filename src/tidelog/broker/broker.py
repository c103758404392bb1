"""One node: what exists, who is given whom, and the order of start and stop.

The order matters. Logs are recovered before the broker registers, so that nobody is sent to it in vain. Sockets are bound before it
registers, so that the port it announces is real, but answer only afterwards. Stopping is the reverse: the registration goes, requests
under way are finished, then everything is flushed, checkpointed and closed, and last the mark of a clean shutdown is left.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack

from tidelog.broker.fetch_sessions import FetchSessionCache
from tidelog.broker.handlers import bind_handlers
from tidelog.broker.housekeeping import Housekeeping
from tidelog.broker.image_follower import ImageFollower
from tidelog.broker.live_config import LiveConfig
from tidelog.broker.log_cleaner import LogCleaner
from tidelog.broker.log_directories import known_broker_id
from tidelog.broker.metadata_cache import MetadataCache
from tidelog.broker.node import Node
from tidelog.broker.producer_ids import ProducerIds
from tidelog.broker.replica_manager import ReplicaManager
from tidelog.config import GENERATED_BROKER_ID, BrokerConfig
from tidelog.config import Listener as ListenerSetting
from tidelog.controller.service import ControllerService
from tidelog.registry import Registry
from tidelog.runtime import Address, Runtime, StorageFailure
from tidelog.runtime.logs import fields
from tidelog.server import ConnectionLimits, Dispatcher, Guard, GuardLimits, Listener
from tidelog.wire.api import ApiKey
from tidelog.wire.codec import prepare

logger = logging.getLogger(__name__)


class Broker:
    """Owns no partition state; owns the lifetime of the parts that do."""

    def __init__(self, config: BrokerConfig, runtime: Runtime, registry: Registry) -> None:
        self._config = config
        self._runtime = runtime
        self._registry = registry
        self._stop_requested = asyncio.Event()

    def stop(self) -> None:
        """Ask the broker to leave; `run` returns when it has."""
        self._stop_requested.set()

    async def run(self, *, on_ready: Callable[[Mapping[str, Address]], None]) -> None:
        """Serve until `stop`; `on_ready` gets the bound address of each listener.

        Raises NetworkFailure, StorageFailure, WrongDirectory, RegistryUnavailable or BrokerIdTaken when it cannot serve, and StorageFailure
        when the last log directory has failed.
        """
        config = await with_broker_id(self._config, self._runtime, self._registry)
        node = assemble(config, self._runtime, self._registry)
        guard = Guard(guard_limits(config), self._runtime)
        listeners = [self._listener(node, setting, guard) for setting in config.listeners]
        async with AsyncExitStack() as parts:
            cluster_id = await node.controller.prepare()
            await parts.enter_async_context(node.replicas.running(cluster_id))
            for listener in listeners:
                await parts.enter_async_context(listener.running())
            parts.callback(node.replicas.fetch_waiters.dismiss)
            parts.push_async_callback(node.controller.stop)
            await node.controller.start(config.advertised([bound(listener) for listener in listeners]))
            node.replicas.placement.set_aside_strays(
                {partition.topic_partition for partition, _ in node.replicas.partitions()},
                node.metadata.image.finished_deletions,
                node.replicas.on_directory_failed,
            )
            await parts.enter_async_context(Housekeeping(config, self._runtime, node.replicas).running())
            await parts.enter_async_context(LogCleaner(node.live_config, self._runtime, node.replicas).running())
            for listener in listeners:
                listener.serve()
            logger.info("broker ready", extra=fields(broker_id=config.broker_id, cluster_id=cluster_id))
            on_ready({listener.name: listener.address for listener in listeners})
            failure = await self._until_stopped(node.replicas)
            logger.info("broker stopping", extra=fields(broker_id=config.broker_id))
        if failure is not None:
            raise failure

    def _listener(self, node: Node, setting: ListenerSetting, guard: Guard) -> Listener:
        limits = ConnectionLimits(
            request_bytes_max=node.config.socket_request_max_bytes,
            recordless_request_bytes_max=node.config.control_request_max_bytes,
            idle_ms_max=node.config.connections_max_idle_ms,
        )
        dispatcher = Dispatcher(bind_handlers(node), self._runtime.metrics)
        return Listener(setting.name, Address(setting.host, setting.port), dispatcher, limits, self._runtime, guard)

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


def assemble(config: BrokerConfig, runtime: Runtime, registry: Registry) -> Node:
    """Say who is given whom."""
    # The first codec imports kio, which takes longer than the loop may be held; each of the others is made on first use in a few milliseconds.
    prepare([ApiKey.API_VERSIONS])
    metadata = MetadataCache()
    replicas = ReplicaManager(config, runtime)
    live_config = LiveConfig(config)
    images = ImageFollower(live_config, metadata, replicas, runtime.clock)
    controller = ControllerService(config, registry, runtime.randomness, runtime.clock, images.publish)
    return Node(
        live_config=live_config,
        runtime=runtime,
        metadata=metadata,
        replicas=replicas,
        controller=controller,
        producer_ids=ProducerIds(controller.allocate_producer_ids),
        fetch_sessions=FetchSessionCache(slots_max=config.fetch_session_slots),
    )


def guard_limits(config: BrokerConfig) -> GuardLimits:
    """What the settings allow all clients together."""
    return GuardLimits(
        connections_max=config.connections_max,
        connections_max_per_address=config.connections_max_per_ip,
        request_bytes_max=config.queued_request_max_bytes,
        requests_max=config.queued_requests_max,
    )


async def with_broker_id(config: BrokerConfig, runtime: Runtime, registry: Registry) -> BrokerConfig:
    """The settings with a real broker id: the given one, the one the log directories remember, or a fresh one."""
    if config.broker_id != GENERATED_BROKER_ID:
        return config
    broker_id = known_broker_id(config, runtime)
    if broker_id is None:
        nameless = ControllerService(config, registry, runtime.randomness, runtime.clock, lambda _: None)
        broker_id = await nameless.generate_broker_id()
    return dataclasses.replace(config, broker_id=broker_id)


def bound(listener: Listener) -> ListenerSetting:
    """A listener as it is really bound; a wildcard keeps its host, and clients are then told the address they dialled."""
    return ListenerSetting(listener.name, listener.bind.host, listener.address.port)
