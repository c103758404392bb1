"""A story with every kind of event in it, to be told twice and compared; and the small parts it is made of."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from tidelog.runtime import Address, NetworkFailure, Runtime
from tidelog.runtime.logs import fields
from tidelog.simulation import World

RESET_SEEDS = range(5)
logger = logging.getLogger("tidelog.story")


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Client(Echo):
    def __init__(self) -> None:
        self.received = bytearray()
        self.is_lost = False
        self.error: Exception | None = None
        self._changed = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.received += data
        self._changed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost, self.error = True, exc
        self._changed.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(600):
            while not holds():
                self._changed.clear()
                await self._changed.wait()


async def passed(seconds: float) -> None:
    """Let virtual time pass."""
    done = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, done.set)
    await done.wait()


async def serve_echo(runtime: Runtime) -> None:
    """Echoes, and flushes a growing file in the thread of its directory."""
    await runtime.network.listen(Echo, Address("0.0.0.0", 9092))  # noqa: S104
    runtime.disk.mkdir("/data")
    runtime.disk.fsync_dir("/")
    file = runtime.disk.open("/data/f", create=True)
    runtime.disk.fsync_dir("/data")
    logger.info("file found", extra=fields(size=file.size(), names={"b", "a", "c"}, id=runtime.randomness.uuid()))
    while True:
        file.pwrite(file.size(), [runtime.randomness.bytes(100)])
        await asyncio.get_running_loop().run_in_executor(runtime.disk.threads("/data"), file.fsync)
        await passed(0.05)


async def chat(runtime: Runtime, names: list[str]) -> None:
    """Talks to everybody in turn, whatever happens to the connections."""
    while True:
        for name in names:
            await passed(0.3 * runtime.randomness.fraction())
            try:
                async with asyncio.timeout(2):
                    client = await runtime.network.connect(Client, Address(name, 9092))
                    message = runtime.randomness.bytes(1 + runtime.randomness.below(100_000))
                    client.transport.write(message)
                    await client.until(lambda c=client, m=message: c.is_lost or len(c.received) == len(m))  # type: ignore[misc]
                    client.transport.close()
                    logger.info("talked", extra=fields(node=name, is_lost=client.is_lost))
            except (NetworkFailure, TimeoutError) as error:
                logger.info("nobody answers", extra=fields(node=name, error=error))


def story_digest(seed: int) -> str:
    """Three brokers, two clients, thirty seconds of seeded trouble."""
    brokers = ["broker-1", "broker-2", "broker-3"]
    with World(seed) as world:
        for name in brokers:
            world.node(name).start(serve_echo)
        for name in ("client-1", "client-2"):
            world.node(name).start(lambda runtime: chat(runtime, brokers))
        for _ in range(15):
            world.run_for_ms(2_000 * world.faults.fraction())
            _trouble(world, world.node(brokers[world.faults.below(3)]).name)
        return world.digest()


def _trouble(world: World, name: str) -> None:
    node = world.node(name)
    match world.faults.below(6):
        case 0:
            node.restart()
        case 1:
            if node.is_running:
                node.power_cut()
            node.restart()
        case 2:
            world.fabric.isolate(name)
        case 3:
            world.fabric.heal()
        case 4:
            node.pause()
            world.run_for_ms(1_000)
            node.resume()
        case _:
            world.fabric.reset("client-1", name)
