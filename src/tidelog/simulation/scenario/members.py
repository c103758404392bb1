"""The members of groups in a scenario: consumers on machines of their own, which do something only when the story says so.

They keep their places in the group meanwhile, as a program does that takes long over its records; one that has crashed says nothing more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Final

from tidelog.client import Admin, ClientConfig, ClientError, CommitFailed, ConsumedRecord, Consumer, ConsumerConfig
from tidelog.model import ErrorCode
from tidelog.runtime import Runtime
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.simulation.world import Node

_JOINED_WITHIN_S: Final = 60.0
_POLL_MS: Final = 2_000
_SETTINGS: Final = {"enable.auto.commit": "false", "auto.offset.reset": "earliest", "fetch.max.wait.ms": "100"}


class ScenarioMember:
    """One consumer. What it was handed while it waited for its partitions is read by the first `poll`."""

    def __init__(self, node: Node, config: ConsumerConfig, topic: str) -> None:
        self.node = node
        self._config = config
        self._topic = topic
        self._consumer: Consumer | None = None
        self._read: list[ConsumedRecord] = []
        self._leaving = asyncio.Event()
        self._ready = asyncio.Event()

    async def main(self, runtime: Runtime) -> None:
        """Stay until told to leave."""
        async with Consumer.connect(self._config, runtime) as consumer:
            self._consumer = consumer
            consumer.group.subscribe([self._topic])
            self._ready.set()
            await self._leaving.wait()

    async def join(self) -> list[str]:
        """Wait until the group has given it something."""
        await self._ready.wait()
        consumer = self._present()
        try:
            async with asyncio.timeout(_JOINED_WITHIN_S):
                while not consumer.assignment:
                    self._read += await consumer.poll(timeout_ms=100)
        except TimeoutError:
            return ["owns nothing"]
        return ["owns " + " ".join(map(str, consumer.assignment))]

    async def poll(self) -> list[str]:
        """Whatever there is within two seconds."""
        try:
            found, self._read = self._read or await self._present().poll(timeout_ms=_POLL_MS), []
        except ClientError as error:
            return [f"read nothing: {type(error).__name__}"]
        return ["read " + (" ".join((record.value or b"").decode(errors="replace") for record in found) or "nothing")]

    async def commit(self) -> list[str]:
        """Everything it was handed counts as done."""
        consumer = self._present()
        try:
            await consumer.group.commit()
        except CommitFailed as failed:
            codes = sorted({code.name for code in failed.codes.values()})
            return [f"did not commit: {' '.join(codes) or 'no answer'}"]
        return ["committed " + " ".join([f"{one} {await consumer.position(one)}" for one in consumer.assignment])]

    def leave(self) -> None:
        """Say goodbye to the group."""
        self._leaving.set()

    def _present(self) -> Consumer:
        if self._consumer is None:
            raise ClientError("the member has not started")
        return self._consumer


class Members:
    """All members of a scenario, by name."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._members: dict[str, ScenarioMember] = {}

    def has(self, name: str) -> bool:
        """Whether there is one of that name that lives."""
        return name in self._members and self._members[name].node.is_running

    def join(self, name: str, group: str, topic: str, settings: Mapping[str, str]) -> list[str]:
        """A new process joins a group; what it owns then."""
        properties = {"bootstrap.servers": self._cluster.bootstrap, "group.id": group, **_SETTINGS, **settings}
        node = self._cluster.world.node(f"member-{name}")
        if node.is_running and name in self._members:
            node.kill()
        member = self._members[name] = ScenarioMember(node, ConsumerConfig.from_properties(properties), topic)
        if node.is_running:
            node.start(lambda runtime: self._members[name].main(runtime))
        else:
            node.restart()
        return self.ask(name, member.join)

    def ask(self, name: str, work: Callable[[], Coroutine[object, object, list[str]]]) -> list[str]:
        """Have it do something, and say what came of it."""
        task = self._members[name].node.spawn(work())

        async def done() -> list[str]:
            return await task

        return [f"{name} {line}" for line in self._cluster.world.run(done())]

    def member(self, name: str) -> ScenarioMember:
        """One of them."""
        return self._members[name]

    def offsets(self, group: str) -> list[str]:
        """What a group has committed, as an administrator is told."""

        async def ask(runtime: Runtime) -> list[str]:
            config = ClientConfig.from_properties({"bootstrap.servers": self._cluster.bootstrap})
            async with Admin.connect(config, runtime) as admin:
                found = (await admin.groups.committed_offsets([group]))[group]
            if isinstance(found, ErrorCode):
                return [f"{group}: {found.name}"]
            committed = " ".join(f"{one} {each.offset}" for one, each in sorted(found.items()))
            return [f"{group} has committed {committed or 'nothing'}"]

        return self._cluster.tell(ask)
