"""The worlds in which every promise of a registry is asked for. One more registry is one more function in `REGISTRY_WORLDS`."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from tests.tcp_link import TcpLink
from tests.zookeeper_ensemble import end_session_as_another, shared_server, wait_until
from tidelog.registry import Registry, SessionId
from tidelog.registry.sqlite import SqliteRegistry
from tidelog.registry.sqlite_file import SqliteFile
from tidelog.registry.zookeeper import ZooKeeperRegistry
from tidelog.simulation.loop import SimulatedLoop
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.registry import SimulatedRegistryStore

T = TypeVar("T")

DEADLINE_S: Final = 15
_chroots: Final = itertools.count(1)


class RegistryWorld:
    """Handles on one tree, a loop to use them in, and the power to end a session against its owner's will."""

    def __init__(
        self,
        make: Callable[[], Registry],
        expire: Callable[[SessionId], object],
        loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    ) -> None:
        self._make = make
        self._expire = expire
        self._runner = asyncio.Runner(loop_factory=loop_factory)
        self._handles: list[Registry] = []

    def handle(self) -> Registry:
        """A handle without a session, closed with the world."""
        self._handles.append(self._make())
        return self._handles[-1]

    def opened(self) -> Registry:
        """A handle with a session."""
        handle = self.handle()
        self.run(handle.open_session())
        return handle

    def expire(self, handle: Registry) -> None:
        """The registry, or somebody else, declares the handle's session to be over. The handle is not told by this call."""
        assert handle.session_id is not None
        self._expire(handle.session_id)

    def run(self, awaitable: Awaitable[T]) -> T:
        """Await in the world's loop, within a bound."""

        async def bounded() -> T:
            async with asyncio.timeout(DEADLINE_S):
                return await awaitable

        return self._runner.run(bounded())

    def close(self) -> None:
        """Close every handle."""
        for handle in self._handles:
            self.run(handle.close())
        self._runner.close()


@contextmanager
def sqlite_world(directory: Path) -> Iterator[RegistryWorld]:
    """One file, as several brokers of one machine have it open."""
    path = str(directory / "registry.sqlite")

    def expire(session_id: SessionId) -> None:
        survivor = SqliteFile(path, lock_timeout_ms=1_000, size_bytes_max=1 << 30)
        survivor.expire_session(session_id)
        survivor.close()

    world = RegistryWorld(lambda: SqliteRegistry(path), expire)
    yield world
    world.close()


@contextmanager
def simulated_world(_: Path) -> Iterator[RegistryWorld]:
    """The twin."""
    store = SimulatedRegistryStore(SimulatedRandomness(7))
    world = RegistryWorld(store.handle, store.expire, SimulatedLoop)
    yield world
    world.close()


@contextmanager
def zookeeper_world(_: Path) -> Iterator[RegistryWorld]:
    """A chroot of its own on one real server, reached over a link."""
    server = shared_server().connect_string
    handles: list[ZooKeeperRegistry] = []
    with TcpLink(int(server.rpartition(":")[2])) as link:

        def make() -> Registry:
            handles.append(ZooKeeperRegistry(connect, session_timeout_ms=30_000))
            return handles[-1]

        def expire(session_id: SessionId) -> None:
            [session] = [each.session for each in handles if each.session_id == session_id]
            assert session is not None
            end_session_as_another(server, session.client_id)
            link.reset()  # whoever connects again is told at once
            wait_until(lambda: session.is_over, "word of the expiry")

        connect = f"{link.address}/conformance/{next(_chroots)}"
        world = RegistryWorld(make, expire)
        yield world
        world.close()


OpenWorld: TypeAlias = Callable[[Path], AbstractContextManager[RegistryWorld]]

REGISTRY_WORLDS: Final[dict[str, OpenWorld]] = {
    "sqlite": sqlite_world,
    "simulated": simulated_world,
    "zookeeper": zookeeper_world,
}
