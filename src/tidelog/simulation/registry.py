"""The registry's simulated twin: one tree in memory that all nodes of a simulation share, answered after a seeded delay.

A write takes effect at one moment between call and answer. A node that dies in between does not know whether it happened; what was answered
before stays for ever, whoever loses power: the promise of an fsync'ed commit.

A session lives as long as its owner beats. One that is paused, without power or cut off misses its beats and is expired after the timeout;
one that was killed is found out soon, as a dropped file lock tells. Watches arrive after a seeded delay, in no promised order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from typing import Final, TypeVar

from tidelog.registry.calls import RegistryCalls
from tidelog.registry.errors import RegistryUnavailable, SessionExpired
from tidelog.registry.memory import MemoryTree
from tidelog.registry.protocol import Node, Operation, Outcome, SessionId, Watch
from tidelog.registry.tree import check_path
from tidelog.runtime import Randomness
from tidelog.simulation.registry_reach import RegistryReach
from tidelog.simulation.registry_session import (
    SESSION_TIMEOUT_MS,
    RegistryTiming,
    SimulatedSession,
    SimulatedWatch,
)

T = TypeVar("T")

_BEATS_PER_TIMEOUT: Final = 4


class SimulatedRegistryStore(RegistryReach):
    """What outlives the nodes: the tree and the sessions. Its methods that are no coroutines are the faults to inject."""

    def __init__(
        self,
        randomness: Randomness,
        *,
        latency_ms_max: float = 2.0,
        session_timeout_ms: float = SESSION_TIMEOUT_MS,
        timing: RegistryTiming | None = None,
    ) -> None:
        super().__init__()
        self.tree = MemoryTree(self._on_touched)
        self.timing = timing or RegistryTiming(latency_ms_max=latency_ms_max, session_timeout_ms=session_timeout_ms)
        self._randomness = randomness
        self._context = copy_context()  # the world's own: no node's death or pause touches what is scheduled in it
        self._sessions: dict[SessionId, SimulatedSession] = {}
        self._orphans: list[SessionId] = []
        self._held_back: list[tuple[SimulatedSession, Callable[[], None]]] = []  # until their owners can be reached
        self.on_touched: Callable[[Sequence[str]], None] | None = None  # an onlooker, told of every write as it happens

    # Faults.

    def expire(self, session_id: SessionId) -> None:
        """End a session against its owner's will; one that is over already is left alone."""
        session = self._forget(session_id)
        self.tree.expire_session(session_id)
        if session is not None:
            self._tell(session, session.end)

    def expire_node(self, node_name: str) -> int:
        """End every session of a node against its will; how many there were."""
        sessions = [session for session in self._sessions.values() if session.node_name == node_name]
        for session in sessions:
            self.expire(session.id)
        return len(sessions)

    # For the handles.

    def handle(self, node_name: str = "") -> SimulatedRegistry:
        """A handle for one node."""
        return SimulatedRegistry(self, node_name)

    def open_session(self, node_name: str) -> SimulatedSession:
        """Begin a session, for as long as its owner beats."""
        for session_id in self._orphans:
            self.expire(session_id)
        self._orphans.clear()
        session = SimulatedSession(
            id=self.tree.open_session(),
            node_name=node_name,
            context=copy_context(),
            loop=asyncio.get_running_loop(),
        )
        self._sessions[session.id] = session
        self._beat(session)
        return session

    def end_session(self, session: SimulatedSession) -> None:
        """The owner lets go of its session; if nobody hears it, the session lapses."""
        session.fall_silent()
        if self._is_reachable(session.node_name):
            self._forget(session.id)
            self.tree.expire_session(session.id)

    def abandon_session(self, session: SimulatedSession, *, lost_power: bool) -> None:
        """The owner died. Of a killed process its neighbours learn soon, and the next one that opens a session at once;
        a machine without power says nothing and misses its beats."""
        session.fall_silent()
        if not lost_power:
            self._orphans.append(session.id)
            delay_ms = (0.5 + self._randomness.fraction()) * self.timing.kill_detection_ms
            self._later(session, delay_ms, lambda: self._find_dead(session))

    async def watch(self, path: str, on_change: Callable[[], None], session: SimulatedSession) -> SimulatedWatch:
        """A round trip that leaves a watch at its far end."""
        await self.travel(session.node_name)
        self.tree.check_session(path, session.id)
        check_path(path)
        watch = SimulatedWatch(on_change)
        listening = [other for other in session.watches.get(path, ()) if not other.is_cancelled]
        session.watches[path] = [*listening, watch]
        try:
            await self.travel(session.node_name)
        except BaseException:
            watch.cancel()
            raise
        return watch

    async def write(self, operations: Sequence[Operation], session: SimulatedSession) -> list[Outcome]:
        """A round trip with a multi at its far end."""
        await self.travel(session.node_name)
        cut = self._cut_to_come
        if cut is not None and cut.comes_with_this_write():
            if cut.is_last_write_done:
                self.tree.multi(operations, session_id=session.id)
            self._cut_to_come = None
            self.is_available = False
        outcomes = self.tree.multi(operations, session_id=session.id) if self.is_available else []
        await self.travel(session.node_name)
        return outcomes

    async def travel(self, node_name: str) -> None:
        """Half of a round trip."""
        await asyncio.sleep(self._randomness.fraction() * self.timing.latency_ms_max / 2_000)
        if not self._is_available:
            raise RegistryUnavailable("simulated", "a fault was injected", may_pass=True)
        if node_name in self._cut:
            await asyncio.sleep(self._randomness.fraction() * self.timing.unreachable_ms_max / 1_000)
            raise RegistryUnavailable("simulated", f"{node_name} is cut off", may_pass=True)

    # Sessions and their owners.

    def _beat(self, session: SimulatedSession) -> None:
        """Runs in the owner's process, so a paused or dead one beats no more."""
        if session.is_silent or session.id not in self._sessions:
            return
        if session.beat is not None:
            session.beat.cancel()
        if self._is_reachable(session.node_name):
            self._count_down(session)
        delay_s = self.timing.session_timeout_ms / _BEATS_PER_TIMEOUT / 1000
        session.beat = session.loop.call_later(delay_s, self._beat, session, context=session.context)

    def _count_down(self, session: SimulatedSession) -> None:
        if session.deadline is not None:
            session.deadline.cancel()
        session.deadline = self._later(session, self.timing.session_timeout_ms, lambda: self._lapse(session))

    def _lapse(self, session: SimulatedSession) -> None:
        if self._is_available:
            self.expire(session.id)
        else:  # Nobody is there to count: everyone gets another chance, as after a change of the leader of an ensemble.
            self._count_down(session)

    def _find_dead(self, session: SimulatedSession) -> None:
        if self._is_available:
            self.expire(session.id)
        else:
            self._later(session, self.timing.kill_detection_ms, lambda: self._find_dead(session))

    def _forget(self, session_id: SessionId) -> SimulatedSession | None:
        session = self._sessions.pop(session_id, None)
        if session is not None and session.deadline is not None:
            session.deadline.cancel()
        return session

    def _on_touched(self, paths: Sequence[str]) -> None:
        if self.on_touched is not None:
            self.on_touched(paths)
        for session in self._sessions.values():
            for watch in [watch for path in paths for watch in session.watches.get(path, ())]:
                if not watch.is_on_its_way and not watch.is_cancelled:
                    watch.is_on_its_way = True
                    self._tell(session, watch.arrive)

    def _tell(self, session: SimulatedSession, word: Callable[[], None]) -> None:
        if not session.loop.is_closed():
            delay_s = self._randomness.fraction() * self.timing.watch_delay_ms_max / 1000
            session.loop.call_later(delay_s, self._arrive, session, word, context=session.context)

    def _arrive(self, session: SimulatedSession, word: Callable[[], None]) -> None:
        if self._is_reachable(session.node_name) and not self._is_deaf(session.node_name):
            word()
        else:
            self._held_back.append((session, word))

    def _let_through(self) -> None:
        """Whoever can be reached again beats at once and hears what was held back."""
        for session in self._sessions.values():
            if not session.loop.is_closed():
                session.loop.call_soon(self._beat, session, context=session.context)
        held_back, self._held_back = self._held_back, []
        for session, word in held_back:
            self._tell(session, word)

    def _later(
        self, session: SimulatedSession, delay_ms: float, action: Callable[[], None]
    ) -> asyncio.TimerHandle | None:
        """In the world's name: no node's death or pause stops it."""
        if session.loop.is_closed():
            return None
        return session.loop.call_later(delay_ms / 1000, action, context=self._context)


class SimulatedRegistry(RegistryCalls):
    """One node's handle."""

    def __init__(self, store: SimulatedRegistryStore, node_name: str = "") -> None:
        self._store = store
        self._node_name = node_name
        self._session: SimulatedSession | None = None
        self._is_closed = False

    @property
    def session_id(self) -> SessionId | None:
        """The session in force, if any."""
        return None if self._session is None or self._session.is_over.is_set() else self._session.id

    def crash(self, *, lost_power: bool = False) -> None:
        """The node dies: nothing more is answered, and nobody ended the session."""
        self._is_closed = True
        if self._session is not None:
            self._store.abandon_session(self._session, lost_power=lost_power)
            self._session = None

    async def open_session(self) -> SessionId:
        """Begin a session, ending the handle's former one."""
        await self._store.travel(self._node_name)
        if self._is_closed:
            raise SessionExpired("/", "the registry is closed")
        self._end_session()
        self._session = session = self._store.open_session(self._node_name)
        await self._store.travel(self._node_name)
        return session.id

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """The nodes at several paths, None where there is none."""
        first = paths[0] if paths else "/"
        return await self._read(first, lambda session: self._store.tree.get_many(paths, session_id=session.id))

    async def children(self, path: str) -> list[str]:
        """The names of the node's children, sorted. Raises NoNode."""
        return await self._read(path, lambda session: self._store.tree.children(path, session_id=session.id))

    async def multi(self, operations: Sequence[Operation]) -> list[Outcome]:
        """All operations or none, in order."""
        with self._heard(operations[0].path if operations else "/") as session:
            return await self._store.write(operations, session)

    async def watch(self, path: str, on_change: Callable[[], None]) -> Watch:
        """Have `on_change` called some time after the node or its set of children changed."""
        with self._heard(path) as session:
            return await self._store.watch(path, on_change, session)

    async def ended(self) -> None:
        """Wait until the session in force is over and the word of it has come here; at once without one."""
        if self._session is not None:
            await self._session.is_over.wait()

    async def close(self) -> None:
        """End the session."""
        self._is_closed = True
        self._end_session()

    async def _read(self, path: str, read: Callable[[SimulatedSession], T]) -> T:
        with self._heard(path) as session:
            await self._store.travel(self._node_name)
            found = read(session)
            await self._store.travel(self._node_name)
            return found

    @contextmanager
    def _heard(self, path: str) -> Iterator[SimulatedSession]:
        """The session in force; an answer that it is over is how its owner learns it, if not otherwise."""
        session = self._session
        if session is None or session.is_over.is_set():
            raise SessionExpired(path, "no session is open")
        try:
            yield session
        except SessionExpired:
            session.end()
            raise

    def _end_session(self) -> None:
        if self._session is not None:
            self._store.end_session(self._session)
            self._session = None
