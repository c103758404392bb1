"""Accepts connections on one address and owns their lifetime."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tidelog.model import invariant
from tidelog.runtime import Address, Clock, Listening, Runtime
from tidelog.server.connection import Connection
from tidelog.server.dispatcher import Dispatcher
from tidelog.server.guard import Guard
from tidelog.server.intake import ConnectionLimits

_LOOK_S = 1.0
_LOOKS_PER_SWEEP = 5


@dataclass(slots=True)
class Listener:
    """One bound address. Requests under way when it stops get a moment to finish; then every connection is closed."""

    name: str
    bind: Address
    dispatcher: Dispatcher
    limits: ConnectionLimits
    runtime: Runtime
    guard: Guard
    drain_s: float = 1.0
    """How long requests under way get to finish when it stops."""
    _connections: dict[Connection, None] = field(default_factory=dict)  # Insertion ordered, for repeatable sweeps.
    _listening: Listening | None = None
    _tasks: asyncio.TaskGroup | None = None
    is_serving: bool = False

    @property
    def address(self) -> Address:
        """The bound address, with its real port."""
        invariant(self._listening is not None, "a listener has an address only while it runs")
        return self._listening.address if self._listening is not None else self.bind

    @property
    def connection_count(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Bind and accept until the block is left. Requests wait for `serve`, since a broker must know its port before it registers."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            self._listening = await self.runtime.network.listen(self._accept, self.bind)
            sweeper = tasks.create_task(self._sweep())
            try:
                yield
            finally:
                await self._listening.close()
                sweeper.cancel()
                await self._drain()

    @property
    def clock(self) -> Clock:
        """Time, for idle connections."""
        return self.runtime.clock

    def serve(self) -> None:
        """Begin to answer, those first who came too early."""
        self.is_serving = True
        for connection in list(self._connections):
            connection.begin()

    def spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run a request that has to wait."""
        invariant(self._tasks is not None, "requests are served only while the listener runs")
        tasks: asyncio.TaskGroup = self._tasks  # type: ignore[assignment]  # the invariant above
        return tasks.create_task(work)

    def forget(self, connection: Connection) -> None:
        """The connection is over."""
        self._connections.pop(connection, None)

    def _accept(self) -> Connection:
        connection = Connection(self.dispatcher, self.limits, self)
        self._connections[connection] = None
        return connection

    async def _sweep(self) -> None:
        """Close connections that outstayed their welcome; one timer for all of them."""
        looks = 0
        while True:
            await asyncio.sleep(_LOOK_S)
            self.guard.look_after()
            looks = (looks + 1) % _LOOKS_PER_SWEEP
            if looks == 0:
                now_ms = self.runtime.clock.monotonic_ms()
                for connection in list(self._connections):
                    connection.close_if_overdue(now_ms)

    async def _drain(self) -> None:
        """No more requests; those that wait get a moment; then everybody is sent away."""
        self.is_serving = False
        waiting = [task for connection in self._connections for task in connection.waiting]
        if waiting:
            await asyncio.wait(waiting, timeout=self.drain_s)
        for connection in list(self._connections):
            connection.abort() if connection.waiting else connection.close()
