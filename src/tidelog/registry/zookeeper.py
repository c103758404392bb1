"""The registry of brokers on several machines: a ZooKeeper ensemble, spoken to through kazoo.

Reads are linearizable as the Protocol promises: a member may lag behind the others, so every read follows a `sync` in the same breath.
What was lost with a connection is told as RegistryUnavailable, and what is asked later is done later: requests of a session keep their
order, so a write that is still on its way happens before anything this handle asks next, or not at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from kazoo.exceptions import BadArgumentsError, BadVersionError, NodeExistsError, NoNodeError, ZookeeperError
from kazoo.protocol.serialization import Create as CreateRequest
from kazoo.protocol.serialization import Exists, GetChildren, Sync
from kazoo.security import OPEN_ACL_UNSAFE

from tidelog.registry import tree
from tidelog.registry.errors import BadRequest, NoNode, RegistryError, RegistryUnavailable, SessionExpired
from tidelog.registry.protocol import ANY, Create, Delete, Node, Operation, Outcome, SessionId, Set
from tidelog.registry.zookeeper_multi import (
    MultiRequest,
    ReadRequest,
    check_operations,
    failure_of,
    only_checked,
    outcomes_of,
    refusal,
)
from tidelog.registry.zookeeper_options import REQUEST_BYTES_MAX, Ensemble, ZooKeeperOptions
from tidelog.registry.zookeeper_session import ZooKeeperSession, is_lasting, words_of
from tidelog.registry.zookeeper_watch import ZooKeeperWatch

NODES_PER_READ: Final = 250


class ZooKeeperRegistry:
    """A handle on the tree below the chroot of `connect` (host:port,host:port/chroot), which is created where it is missing."""

    def __init__(
        self,
        connect: str,
        *,
        session_timeout_ms: int = 18_000,
        connection_timeout_ms: int = 18_000,
        options: ZooKeeperOptions | None = None,
    ) -> None:
        self._ensemble = Ensemble.parse(connect)
        self._session_timeout_ms = session_timeout_ms
        self._connection_timeout_ms = connection_timeout_ms
        self._options = options or ZooKeeperOptions()
        self._opening = asyncio.Lock()
        self._begun: ZooKeeperSession | None = None  # perhaps not connected yet
        self._session: ZooKeeperSession | None = None
        self._watches: list[ZooKeeperWatch] = []
        self._is_closed = False

    @property
    def session_id(self) -> SessionId | None:
        """The session in force, if any."""
        return None if self._session is None or self._session.is_over else self._session.id

    @property
    def session(self) -> ZooKeeperSession | None:
        """The session last opened, in force or not."""
        return self._session

    async def open_session(self) -> SessionId:
        """Connect and begin a session, ending the former one. Raises RegistryUnavailable after the connection timeout."""
        async with self._opening:
            await self._end_session()
            if self._is_closed:
                raise SessionExpired(tree.ROOT, "the registry is closed")
            session = ZooKeeperSession(
                self._ensemble,
                session_timeout_ms=self._session_timeout_ms,
                connection_timeout_ms=self._connection_timeout_ms,
                options=self._options,
            )
            self._begun = session
            session_id = await session.open()
            try:
                await self._create_chroot(session)
            except BaseException:
                await session.end()
                raise
            self._session = session
            return session_id

    async def get(self, path: str) -> Node:
        """The node at `path`. Raises NoNode."""
        [node] = await self.get_many([path])
        if node is None:
            raise NoNode(path)
        return node

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """The nodes at several paths, None where there is none; many are asked for at once."""
        session = self._in_force(paths[0] if paths else tree.ROOT)
        for path in paths:
            tree.check_path(path)
        outside = [self._ensemble.outside(path) for path in paths]
        slices = [slice(first, first + NODES_PER_READ) for first in range(0, len(paths), NODES_PER_READ)]
        answers = await self._read(session, [ReadRequest(outside[each]) for each in slices]) if paths else []
        return [
            _node_or_none(path, node)
            for each, nodes in zip(slices, answers, strict=True)
            for path, node in zip(paths[each], _all(nodes), strict=True)
        ]

    async def children(self, path: str) -> list[str]:
        """The names of the node's children, sorted. Raises NoNode."""
        session = self._in_force(path)
        tree.check_path(path)
        [answer] = await self._read(session, [GetChildren(self._ensemble.outside(path), None)])
        if isinstance(answer, ZookeeperError):
            raise _about(path, answer)
        return sorted(answer)

    async def exists(self, path: str) -> bool:
        """Whether there is a node."""
        session = self._in_force(path)
        tree.check_path(path)
        [answer] = await self._read(session, [Exists(self._ensemble.outside(path), None)])
        if isinstance(answer, ZookeeperError):
            raise _about(path, answer)
        return answer is not None

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
        session = self._in_force(operations[0].path if operations else tree.ROOT)
        check_operations(operations)
        if not operations:
            return []
        request = MultiRequest(operations, self._ensemble.outside)
        if len(request) > REQUEST_BYTES_MAX:
            raise BadRequest(operations[0].path, f"{len(request)} bytes in one multi, {REQUEST_BYTES_MAX} are allowed")
        checked = only_checked(operations)
        reading = [ReadRequest([self._ensemble.outside(path) for path in checked.values()])] if checked else []
        results, *found = await session.requests([request, *reading])
        if isinstance(results, ZookeeperError):
            raise _about(operations[0].path, results)
        if (failure := failure_of(results)) is not None:
            raise await self._refusal(session, operations[failure[0]], failure[1])
        read = _all(found[0]) if found else []
        nodes = {
            index: _node_or_none(path, answer) for (index, path), answer in zip(checked.items(), read, strict=True)
        }
        return outcomes_of(operations, results, self._ensemble.inside, nodes)

    async def watch(self, path: str, on_change: Callable[[], None]) -> ZooKeeperWatch:
        """Have `on_change` called after the node or its set of children changed, and after every lost connection."""
        session = self._in_force(path)
        tree.check_path(path)
        watch = ZooKeeperWatch(session, self._ensemble.outside(path), on_change)
        await watch.begin()
        if session is not self._session:
            watch.cancel()
            raise SessionExpired(path, "the session was ended")
        self._watches = [each for each in self._watches if not each.is_cancelled] + [watch]
        return watch

    async def ended(self) -> None:
        """Wait until the servers have said that the session in force has expired; without one, return at once."""
        if self._session is not None:
            await self._session.ended()

    async def close(self) -> None:
        """End the session and let go of the connection; who is still waiting for one waits no longer."""
        self._is_closed = True
        if self._begun is not None:
            await self._begun.end()
        async with self._opening:
            await self._end_session()

    def _in_force(self, path: str) -> ZooKeeperSession:
        if self._session is None:
            raise SessionExpired(path, "no session is open")
        self._session.check_alive()
        return self._session

    async def _end_session(self) -> None:
        session, self._session = self._session, None
        watches, self._watches = self._watches, []
        for watch in watches:
            watch.cancel()
        if session is not None:
            await session.end()

    async def _create_chroot(self, session: ZooKeeperSession) -> None:
        for path in self._ensemble.chroot_parts():
            try:
                await session.request(CreateRequest(path, b"", OPEN_ACL_UNSAFE, 0))
            except NodeExistsError:
                continue
            except ZookeeperError as error:
                raise RegistryUnavailable(
                    self._ensemble.hosts, f"cannot create the chroot {path}: {error!r}"
                ) from error

    async def _read(self, session: ZooKeeperSession, requests: Sequence[object]) -> list[Any]:
        _, *answers = await session.requests([Sync(self._ensemble.outside(tree.ROOT)), *requests])
        return answers

    async def _refusal(self, session: ZooKeeperSession, operation: Operation, error: ZookeeperError) -> Exception:
        actual = await self._version_of(session, operation.path) if isinstance(error, BadVersionError) else ANY
        return refusal(operation, error, actual_version=actual) or _about(operation.path, error)

    async def _version_of(self, session: ZooKeeperSession, path: str) -> int:
        """For the error's text: the multi has failed, whatever becomes of this."""
        try:
            [stat] = await self._read(session, [Exists(self._ensemble.outside(path), None)])
        except (RegistryUnavailable, SessionExpired):
            return ANY
        return ANY if stat is None or isinstance(stat, ZookeeperError) else int(stat.version)


def _all(answers: list[Node | ZookeeperError] | ZookeeperError) -> list[Node | ZookeeperError]:
    """What a request that reads was answered; itself never about one node."""
    if isinstance(answers, ZookeeperError):
        raise _about(tree.ROOT, answers)
    return answers


def _node_or_none(path: str, answer: Node | ZookeeperError) -> Node | None:
    if isinstance(answer, NoNodeError):
        return None
    if isinstance(answer, ZookeeperError):
        raise _about(path, answer)
    return answer


def _about(path: str, error: ZookeeperError) -> RegistryError | RegistryUnavailable:
    if isinstance(error, NoNodeError):
        return NoNode(path)
    if isinstance(error, BadArgumentsError):
        return BadRequest(path, "refused by ZooKeeper")
    return RegistryUnavailable(path, words_of(error), may_pass=not is_lasting(error))
