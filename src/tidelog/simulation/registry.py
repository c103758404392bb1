"""The registry's simulated twin: one tree in memory that all nodes of a simulation share, answered after a seeded delay.

A write takes effect at one moment between call and answer. A node that dies in between does not know whether it happened; what was answered
before stays for ever, whoever loses power: the promise of an fsync'ed commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tidelog.registry.errors import NoNode, RegistryUnavailable, SessionExpired
from tidelog.registry.memory import MemoryTree
from tidelog.registry.protocol import ANY, Create, Delete, Node, Operation, Outcome, SessionId, Set
from tidelog.runtime import Randomness


class SimulatedRegistryStore:
    """What outlives the nodes: the tree, and which sessions belong to the dead."""

    def __init__(self, randomness: Randomness, *, latency_ms_max: float = 2.0) -> None:
        self.tree = MemoryTree()
        self.is_available = True  # a fault turns this off: every call then raises RegistryUnavailable
        self._randomness = randomness
        self._latency_ms_max = latency_ms_max
        self._orphans: list[SessionId] = []
        self._writes_until_cut: int | None = None
        self._is_last_write_done = False

    def cut_after_writes(self, count: int, *, next_write_happens: bool = False) -> None:
        """A fault to come: after `count` more writes the registry is gone. The next one may still happen, unanswered."""
        self._writes_until_cut = count
        self._is_last_write_done = next_write_happens

    def heal(self) -> None:
        """The registry can be reached again."""
        self.is_available = True
        self._writes_until_cut = None

    def handle(self) -> SimulatedRegistry:
        """A handle for one node."""
        return SimulatedRegistry(self)

    def orphan(self, session_id: SessionId) -> None:
        """The session's process is dead; it is expired when the next one begins, as with a file on a disk."""
        self._orphans.append(session_id)

    def open_session(self) -> SessionId:
        """Expire the sessions of the dead and begin a new one."""
        for session_id in self._orphans:
            self.tree.expire_session(session_id)
        self._orphans.clear()
        return self.tree.open_session()

    async def write(self, operations: Sequence[Operation], *, session_id: SessionId) -> list[Outcome]:
        """A round trip with a multi at its far end."""
        await self.travel()
        if self._writes_until_cut == 0:
            if self._is_last_write_done:
                self.tree.multi(operations, session_id=session_id)
            self.is_available = False
        elif self._writes_until_cut is not None:
            self._writes_until_cut -= 1
        outcomes = self.tree.multi(operations, session_id=session_id) if self.is_available else []
        await self.travel()
        return outcomes

    async def travel(self) -> None:
        """Half of a round trip."""
        await asyncio.sleep(self._randomness.fraction() * self._latency_ms_max / 2_000)
        if not self.is_available:
            raise RegistryUnavailable("simulated", "a fault was injected", may_pass=True)


class SimulatedRegistry:
    """One node's handle."""

    def __init__(self, store: SimulatedRegistryStore) -> None:
        self._store = store
        self._session_id: SessionId | None = None
        self._is_closed = False

    @property
    def session_id(self) -> SessionId | None:
        """The session in force, if any."""
        return self._session_id

    def crash(self) -> None:
        """The node dies: nothing more is answered, and nobody ended the session."""
        self._is_closed = True
        if self._session_id is not None:
            self._store.orphan(self._session_id)
            self._session_id = None

    async def open_session(self) -> SessionId:
        """Begin a session, ending the handle's former one."""
        await self._store.travel()
        if self._is_closed:
            raise SessionExpired("/", "the registry is closed")
        self._end_session()
        self._session_id = self._store.open_session()
        return self._session_id

    async def get(self, path: str) -> Node:
        """The node at `path`. Raises NoNode."""
        await self._store.travel()
        node = self._store.tree.get(path, session_id=self._session(path))
        await self._store.travel()
        return node

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """The nodes at several paths, None where there is none."""
        await self._store.travel()
        self._session(paths[0] if paths else "/")
        nodes = [self._find(path) for path in paths]
        await self._store.travel()
        return nodes

    async def children(self, path: str) -> list[str]:
        """The names of the node's children, sorted. Raises NoNode."""
        await self._store.travel()
        names = self._store.tree.children(path, session_id=self._session(path))
        await self._store.travel()
        return names

    async def exists(self, path: str) -> bool:
        """Whether there is a node."""
        return await self.get_many([path]) != [None]

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        """Create a node and return its path. Raises NodeExists, NoNode."""
        [outcome] = await self.multi([Create(path, data, ephemeral, sequential)])
        return outcome.path

    async def set(self, path: str, data: bytes, version: int = ANY) -> int:
        """Replace the data and return the new version. Raises NoNode, BadVersion."""
        [outcome] = await self.multi([Set(path, data, version)])
        return ANY if outcome.node is None else outcome.node.version

    async def delete(self, path: str, version: int = ANY) -> None:
        """Remove the node. Raises NoNode, BadVersion, NotEmpty."""
        await self.multi([Delete(path, version)])

    async def multi(self, operations: Sequence[Operation]) -> list[Outcome]:
        """All operations or none, in order."""
        session_id = self._session(operations[0].path if operations else "/")
        return await self._store.write(operations, session_id=session_id)

    async def close(self) -> None:
        """End the session."""
        if not self._is_closed:
            self._is_closed = True
            self._end_session()

    def _find(self, path: str) -> Node | None:
        try:
            return self._store.tree.get(path, session_id=self._session(path))
        except NoNode:
            return None

    def _session(self, path: str) -> SessionId:
        if self._session_id is None:
            raise SessionExpired(path, "no session is open")
        return self._session_id

    def _end_session(self) -> None:
        if self._session_id is not None:
            self._store.tree.expire_session(self._session_id)
            self._session_id = None
