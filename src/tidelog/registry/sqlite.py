"""The embedded registry: one SQLite file shared by the brokers of a machine. All work is done in a thread of its own, so that neither an
fsync nor a locked file ever holds the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from tidelog.registry.errors import NoNode, SessionExpired
from tidelog.registry.protocol import ANY, Create, Delete, Node, Operation, Outcome, SessionId, Set
from tidelog.registry.sqlite_file import SqliteFile

T = TypeVar("T")

LOCK_TIMEOUT_MS: Final = 5_000
SIZE_BYTES_MAX: Final = 1 << 30


class SqliteRegistry:
    """A handle on the file at `path`, which is created where none is. Calls are done one after the other."""

    def __init__(
        self, path: str, *, lock_timeout_ms: int = LOCK_TIMEOUT_MS, size_bytes_max: int = SIZE_BYTES_MAX
    ) -> None:
        self._path = path
        self._lock_timeout_ms = lock_timeout_ms
        self._size_bytes_max = size_bytes_max
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="registry")
        self._file: SqliteFile | None = None
        self._is_closed = False

    @property
    def session_id(self) -> SessionId | None:
        """The session in force, if any."""
        return None if self._file is None else self._file.session_id

    async def open_session(self) -> SessionId:
        """Open the file if that has not happened, and begin a session; sessions of dead processes are expired first."""
        if self._is_closed:
            raise SessionExpired(self._path, "the registry is closed")
        if self._file is None:
            self._file = await self._in_thread(self._open_file)
        return await self._in_thread(self._file.open_session)

    async def get(self, path: str) -> Node:
        """The node at `path`. Raises NoNode."""
        [node] = await self.get_many([path])
        if node is None:
            raise NoNode(path)
        return node

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """The nodes at several paths, None where there is none."""
        file = self._open(paths[0] if paths else "/")
        return await self._in_thread(lambda: file.find(paths))

    async def children(self, path: str) -> list[str]:
        """The names of the node's children, sorted. Raises NoNode."""
        file = self._open(path)
        return await self._in_thread(lambda: file.children(path))

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
        """All operations or none, in order; durable once this returns."""
        file = self._open(operations[0].path if operations else "/")
        return await self._in_thread(lambda: file.multi(operations))

    async def close(self) -> None:
        """End the session and close the file."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._file is not None:
                await self._in_thread(self._file.close)
        finally:
            self._thread.shutdown(wait=False)

    def _open_file(self) -> SqliteFile:
        return SqliteFile(self._path, lock_timeout_ms=self._lock_timeout_ms, size_bytes_max=self._size_bytes_max)

    def _open(self, path: str) -> SqliteFile:
        if self._is_closed or self._file is None:
            raise SessionExpired(path, "no session is open")
        return self._file

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
