"""The embedded registry: one SQLite file shared by the brokers of a machine. All work is done in a thread of its own, so that neither an
fsync nor a locked file ever holds the loop.

Two timers of the loop keep a session: the beat, which shows others that the loop turns, and the poll, which finds what others have changed and
who of them is gone. The beat has its own thread, since nothing that the database waits for may delay it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from tidelog.registry.calls import RegistryCalls
from tidelog.registry.errors import RegistryUnavailable, SessionExpired
from tidelog.registry.protocol import Node, Operation, Outcome, SessionId, Watch
from tidelog.registry.sqlite_file import SESSION_TIMEOUT_MS, Identity, SqliteFile
from tidelog.registry.sqlite_sessions import POLL_MS, Lapsed
from tidelog.registry.sqlite_watches import SqliteWatch
from tidelog.runtime.logs import fields
from tidelog.runtime.reserve import Reserve

logger = logging.getLogger(__name__)

T = TypeVar("T")

LOCK_TIMEOUT_MS: Final = 6_000
SIZE_BYTES_MAX: Final = 1 << 30
CALLS_MAX: Final = 4_096  # that wait for the thread
BEAT_MS_MAX: Final = 1_000.0
_BEATS_PER_TIMEOUT: Final = 6


class _Session:
    """A session as the loop knows it."""

    def __init__(self, session_id: SessionId) -> None:
        self.id = session_id
        self.is_over = asyncio.Event()
        self.timers: dict[str, asyncio.TimerHandle] = {}
        self.is_polling = False
        self.is_beating = False

    def on_beaten(self, _: asyncio.Future[None]) -> None:
        """The next beat may follow."""
        self.is_beating = False

    def stop(self) -> None:
        """No more beats and polls."""
        for timer in self.timers.values():
            timer.cancel()


class SqliteRegistry(RegistryCalls):
    """A handle on the file at `path`, which is created where none is. Calls are done one after the other."""

    def __init__(
        self,
        path: str,
        *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        lock_timeout_ms: int = LOCK_TIMEOUT_MS,
        size_bytes_max: int = SIZE_BYTES_MAX,
        reserve: Reserve | None = None,
    ) -> None:
        self._path = path
        self._reserve = reserve
        self._session_timeout_ms = session_timeout_ms
        self._lock_timeout_ms = lock_timeout_ms
        self._size_bytes_max = size_bytes_max
        self._beat_ms = min(BEAT_MS_MAX, session_timeout_ms / _BEATS_PER_TIMEOUT)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="registry")
        self._beat_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="registry-beat")
        self._file: SqliteFile | None = None
        self._session: _Session | None = None
        self._identity: Identity | None = None
        self._calls = 0
        self._is_closed = False
        self._is_usable = True

    @property
    def session_id(self) -> SessionId | None:
        """The session in force, if any."""
        return None if self._session is None or self._session.is_over.is_set() else self._session.id

    async def open_session(self) -> SessionId:
        """Open the file if that has not happened, and begin a session; sessions of dead processes are expired first."""
        if self._is_closed:
            raise SessionExpired(self._path, "the registry is closed")
        self._forget_session()
        session_id = await self._in_thread(self._open_session)
        await self._in_thread(self._keep_reserve)
        self._forget_session()
        self._session = session = _Session(session_id)
        self._beat(session)
        self._poll(session)
        return session_id

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """The nodes at several paths, None where there is none."""
        file = self._open(paths[0] if paths else "/")
        return await self._in_thread(lambda: file.find(paths))

    async def children(self, path: str) -> list[str]:
        """The names of the node's children, sorted. Raises NoNode."""
        file = self._open(path)
        return await self._in_thread(lambda: file.children(path))

    async def multi(self, operations: Sequence[Operation]) -> list[Outcome]:
        """All operations or none, in order; durable once this returns."""
        file = self._open(operations[0].path if operations else "/")
        return await self._in_thread(lambda: file.multi(operations))

    async def watch(self, path: str, on_change: Callable[[], None]) -> Watch:
        """Have `on_change` called after the node or its set of children changed: at once for our own writes, else after the next poll."""
        file = self._open(path)
        watch = SqliteWatch(on_change)
        try:
            await self._in_thread(lambda: file.watch(path, watch))
        except BaseException:
            watch.cancel()
            raise
        return watch

    async def ended(self) -> None:
        """Wait until the session in force was expired, or the file can no longer be trusted; at once without a session."""
        if self._session is not None:
            await self._session.is_over.wait()

    async def close(self) -> None:
        """End the session and close the file. Where it cannot be written, the session ends with its lock, and the others say so."""
        if self._is_closed:
            return
        self._is_closed = True
        self._forget_session()
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._leave)
        except RegistryUnavailable as failure:
            logger.warning("registry session not ended", extra=fields(path=self._path, reason=failure.reason))
        finally:
            self._thread.shutdown(wait=False)
            self._beat_thread.shutdown(wait=False)

    # In the thread.

    def _open_session(self) -> SessionId:
        if self._file is not None and self._file.is_poisoned:
            self._close_file()
        if self._file is None:
            self._file = SqliteFile(
                self._path,
                lock_timeout_ms=self._lock_timeout_ms,
                size_bytes_max=self._size_bytes_max,
                session_timeout_ms=self._session_timeout_ms,
                identity=self._identity,
            )
            self._identity = self._file.identity
        return self._file.open_session()

    def _leave(self) -> None:
        try:
            if self._file is not None:
                self._with_room(self._file.end_session)
        finally:
            self._close_file()

    def _with_room(self, work: Callable[[], T]) -> T:
        """What `work` returns, done again if it failed for want of room and some was kept: nothing of it had happened."""
        while True:
            try:
                return work()
            except RegistryUnavailable:
                if self._reserve is None or self._reserve.has_room or not self._reserve.give_up():
                    raise
                logger.warning("registry uses its reserve: the disk is full", extra=fields(path=self._path))

    def _keep_reserve(self) -> None:
        if self._reserve is not None:
            self._reserve.keep()

    def _look_around(self, file: SqliteFile, monotonic_ms: float) -> list[Lapsed]:
        self._keep_reserve()
        return file.poll(monotonic_ms)

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    # On the loop.

    def _open(self, path: str) -> SqliteFile:
        if self._file is None or self.session_id is None:
            raise SessionExpired(path, "no session is open")
        return self._file

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._calls >= CALLS_MAX:
            raise RegistryUnavailable(self._path, f"{self._calls} calls wait already", may_pass=True)
        self._calls += 1
        future = asyncio.get_running_loop().run_in_executor(self._thread, self._with_room, work)
        future.add_done_callback(self._on_done)
        return await future

    def _on_done(self, _: asyncio.Future[T]) -> None:
        self._calls -= 1
        self._take_notice()

    def _take_notice(self) -> None:
        """Whatever the thread found out: watches to be told, and whether the session is still ours."""
        file, session = self._file, self._session
        if file is None or session is None:
            return
        while file.told:
            asyncio.get_running_loop().call_soon(file.told.popleft().tell)
        if file.session_id != session.id and not session.is_over.is_set():
            session.stop()
            session.is_over.set()

    def _forget_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.stop()

    def _beat(self, session: _Session) -> None:
        lock = None if self._file is None else self._file.lock
        if lock is None or session is not self._session:
            return
        loop = asyncio.get_running_loop()
        session.timers["beat"] = loop.call_later(self._beat_ms / 1000, self._beat, session)
        if not session.is_beating:
            session.is_beating = True
            loop.run_in_executor(self._beat_thread, lock.beat, loop.time() * 1000).add_done_callback(session.on_beaten)

    def _poll(self, session: _Session) -> None:
        file = self._file
        if file is None or session is not self._session:
            return
        loop = asyncio.get_running_loop()
        session.timers["poll"] = loop.call_later(POLL_MS / 1000, self._poll, session)
        if not session.is_polling:
            session.is_polling = True
            polled = loop.run_in_executor(self._thread, self._look_around, file, loop.time() * 1000)
            polled.add_done_callback(lambda done: self._on_polled(session, done))

    def _on_polled(self, session: _Session, done: asyncio.Future[list[Lapsed]]) -> None:
        session.is_polling = False
        self._take_notice()
        if done.cancelled():
            return
        failure = done.exception()
        self._note_usability(failure)
        for lapsed in () if failure is not None else done.result():
            logger.warning("registry session expired", extra=fields(session_id=lapsed.session_id, reason=lapsed.why))

    def _note_usability(self, failure: BaseException | None) -> None:
        if failure is not None and not isinstance(failure, RegistryUnavailable):
            raise failure
        if failure is not None and self._is_usable:
            logger.warning("registry cannot be used", extra=fields(path=self._path, reason=failure.reason))
        elif failure is None and not self._is_usable:
            logger.info("registry can be used again", extra=fields(path=self._path))
        self._is_usable = failure is None
