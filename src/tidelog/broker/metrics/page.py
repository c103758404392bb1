"""The page of a broker's metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Final

from tidelog.broker.metrics.cluster import tell_cluster, tell_sockets
from tidelog.broker.metrics.exposition import Exposition
from tidelog.broker.metrics.groups import tell_groups
from tidelog.broker.metrics.replicas import tell_replicas
from tidelog.broker.node import Node
from tidelog.broker.peers import reachable
from tidelog.config import BrokerConfig
from tidelog.config import Listener as HttpListener
from tidelog.runtime import Address, Runtime
from tidelog.server import Listener
from tidelog.server.pages import Lines, Page, Pages, in_slices

METRICS_PATH: Final = "/metrics"
PROMETHEUS_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


def metrics_url(listener: HttpListener) -> str:
    """Where a page that is shown at a listener is found; one on every interface is reached here through loopback."""
    return f"http://{reachable(Address(listener.host, listener.port))}{METRICS_PATH}"


class MetricsPage:
    """Shown from before the broker has a node until after it has none: what the process counts is always told."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._node: Node | None = None
        self._listeners: Sequence[Listener] = ()

    @asynccontextmanager
    async def shown(self, config: BrokerConfig) -> AsyncIterator[BrokerConfig]:
        """Show the page where `metrics.listeners` says; the settings with the ports that were picked. Raises NetworkFailure."""
        pages = Pages({METRICS_PATH: Page(PROMETHEUS_TEXT, self._lines)})
        async with AsyncExitStack() as shown:
            bound = []
            for listener in config.metrics_listeners:
                address = Address(listener.host, listener.port)
                found = await shown.enter_async_context(pages.shown(self._runtime.network, address))
                bound.append(replace(listener, port=found.port))
            yield replace(config, metrics_listeners=tuple(bound))

    def begin(self, node: Node, listeners: Sequence[Listener]) -> None:
        """There is a broker to look at."""
        self._node = node
        self._listeners = listeners

    def end(self) -> None:
        """Its parts are being stopped."""
        self._node = None

    async def _lines(self) -> Lines:
        node = self._node
        if node is not None:
            seen = Exposition()
            tell_cluster(node, seen)
            tell_sockets(self._listeners, seen)
            await tell_replicas(node, seen)
            await tell_groups(node, seen)
            async for line in in_slices(seen.lines()):
                yield line
        async for line in in_slices(self._runtime.metrics.lines()):
            yield line
