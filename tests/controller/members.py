"""Several controller services on one simulated registry: brokers without partitions, which is all a controller needs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tests.controller.channels import RecordedChannels
from tidelog.config import BrokerConfig
from tidelog.controller import ClusterImage, PartitionState
from tidelog.controller.service import ControllerService
from tidelog.registry import Watch
from tidelog.simulation.clock import SimulatedClock
from tidelog.simulation.loop import SimulatedLoop
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.registry import SimulatedRegistry, SimulatedRegistryStore


def play(story: Callable[[Members], Coroutine[Any, Any, None]], **properties: str) -> None:
    """Run a story of simulated time; whatever still runs at its end is ended."""

    async def whole() -> None:
        members = Members(properties)
        try:
            await story(members)
        finally:
            for member in members.everybody:
                member.running.cancel()

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(whole())


class NoWatch:
    """A watch that is never told."""

    def cancel(self) -> None:
        pass


class DeafRegistry(SimulatedRegistry):
    """A handle whose watches are lost (fault C04)."""

    async def watch(self, path: str, on_change: Callable[[], None]) -> Watch:
        return NoWatch()


class Member:
    """One life of one broker."""

    def __init__(self, members: Members, broker_id: int, number: int) -> None:
        handle = DeafRegistry if members.is_deaf else SimulatedRegistry
        self.registry = handle(members.store, f"b{broker_id}")
        self.channels = RecordedChannels()
        self.epochs: list[int] = []
        self.lapses = 0  # how many of its sessions are to end right after it registered
        self._members = members
        loop = asyncio.get_running_loop()
        self.service = ControllerService(
            members.config(broker_id),
            self.registry,
            SimulatedRandomness(f"member {number}"),
            SimulatedClock(lambda: loop.time() * 1000),
            self.channels,
            on_registered=self._on_registered,
        )
        self.running: asyncio.Future[None] = loop.create_future()

    async def _on_registered(self, broker_epoch: int) -> None:
        self.epochs.append(broker_epoch)
        if self.lapses and self.registry.session_id is not None:
            self.lapses -= 1
            self._members.store.expire(self.registry.session_id)

    async def start(self, *, is_intact: bool = True) -> None:
        await self.service.start(is_intact=is_intact)
        self.running = asyncio.ensure_future(self.service.run())

    def kill(self, *, lost_power: bool = False) -> None:
        """It does nothing any more, and nobody was told."""
        self.running.cancel()
        self.registry.crash(lost_power=lost_power)

    async def stop(self) -> None:
        self.running.cancel()
        await self.service.stop()


class Members:
    """Brokers 1, 2, ... of one cluster."""

    def __init__(self, properties: dict[str, str]) -> None:
        self.store = SimulatedRegistryStore(SimulatedRandomness("registry"))
        self.everybody: list[Member] = []
        self.is_deaf = False  # whether no watch of those started from now on is ever told
        self._properties = {name.replace("_", "."): value for name, value in properties.items()}

    def config(self, broker_id: int) -> BrokerConfig:
        listeners = f"PLAINTEXT://localhost:{9000 + broker_id}"
        return BrokerConfig.from_properties(
            {"node.id": str(broker_id), "listeners": listeners, "default.replication.factor": "3", **self._properties}
        )

    async def started(self, broker_id: int, *, is_intact: bool = True) -> Member:
        member = Member(self, broker_id, len(self.everybody))
        self.everybody.append(member)
        await member.start(is_intact=is_intact)
        return member

    async def three(self) -> tuple[Member, Member, Member]:
        """Three brokers, of which the first is the controller and knows the others."""
        one, two, three = [await self.started(broker_id) for broker_id in (1, 2, 3)]
        await self.until(lambda: list(self.image.brokers) == [1, 2, 3])
        return one, two, three

    @property
    def controller(self) -> Member:
        [active] = [member for member in self.everybody if member.service.is_active and not member.running.done()]
        return active

    @property
    def image(self) -> ClusterImage:
        return self.controller.channels.images[-1]

    def state(self, index: int = 0, topic: str = "t") -> PartitionState:
        return self.image.topics[topic].partitions[index]

    async def until(self, holds: Callable[[], bool], *, within_ms: float = 60_000) -> None:
        """Let simulated time pass until something holds."""
        deadline = asyncio.get_running_loop().time() + within_ms / 1000
        while not self._holds(holds):
            assert asyncio.get_running_loop().time() < deadline, "it never came to be"
            await pause(0.005)

    def _holds(self, holds: Callable[[], bool]) -> bool:
        try:
            return holds()
        except (ValueError, IndexError):  # nobody is the controller, or it has not published
            return False


async def pause(seconds: float) -> None:
    """Let simulated time pass."""
    passed = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, passed.set)
    await passed.wait()
