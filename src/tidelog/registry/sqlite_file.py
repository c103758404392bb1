"""The tree in one SQLite file that several processes have open, synchronous: everything here runs in the registry's own thread.

Durability: write-ahead log with synchronous=FULL, so a commit is on the medium before it is answered, and an epoch that somebody has seen
never goes back. A failed fsync or I/O error poisons the handle: what it covered may be gone, so nothing more is answered from it, and its
session is let go for others to expire.

Sessions: each has a row and a lock file (`sqlite_sessions`). Whoever finds the owner dead or silent expires the session in one transaction,
and every read and write looks for its own session in the transaction in which it happens: nobody acts on a session that is over.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from tidelog.registry import tree
from tidelog.registry.errors import NoNode, RegistryUnavailable, SessionExpired
from tidelog.registry.protocol import Node, Operation, Outcome, SessionId
from tidelog.registry.sqlite_opening import opening
from tidelog.registry.sqlite_sessions import Lapsed, Neighbours, SessionLock, lock_path
from tidelog.registry.sqlite_table import APPLICATION_ID, SCHEMA, SCHEMA_VERSION, SqliteTable
from tidelog.registry.sqlite_watches import SqliteWatch, Watches

SESSION_TIMEOUT_MS: Final = 9_000
PAGE_BYTES: Final = 4096
SQLITE_VERSION_MIN: Final = (3, 35, 0)
POLL_LOCK_TIMEOUT_MS: Final = 50  # a look around does not make calls wait for long; the next one comes soon

Identity: TypeAlias = tuple[int, int]
_Execute: TypeAlias = Callable[[str], sqlite3.Cursor]

_MAY_PASS: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL})
_MAY_PASS_ERRNO: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_POISONOUS: Final = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class SqliteFile:
    """An open registry file with at most one session of ours.

    `told` holds the watches that are to be told, for the loop to take. `identity` is that of the file which a former handle had open: no
    other is taken for it, for its epochs might be older.
    """

    def __init__(
        self,
        path: str,
        *,
        lock_timeout_ms: int,
        size_bytes_max: int,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        identity: Identity | None = None,
    ) -> None:
        self._path = path
        self._lock_timeout_ms = lock_timeout_ms
        self._session_timeout_ms = session_timeout_ms
        self._poison: str | None = None
        self._data_version: int | None = None
        self.lock: SessionLock | None = None
        self.session_id: SessionId | None = None
        self.told: deque[SqliteWatch] = deque()
        if sqlite3.sqlite_version_info < SQLITE_VERSION_MIN:
            raise RegistryUnavailable(path, f"SQLite {sqlite3.sqlite_version} is too old: RETURNING came with 3.35")
        with self._translated():
            if identity is None:
                _create_if_missing(path)
            self.identity = identity or _identity(path)
            self._check_identity()
            self._connection = sqlite3.connect(path, timeout=lock_timeout_ms / 1000, isolation_level=None)
        self._table = SqliteTable(self._connection)
        self._watches = Watches(self._table.standing)
        self._neighbours = Neighbours(path)
        try:
            with self._translated(), opening(path, timeout_ms=lock_timeout_ms):
                self._prepare(size_bytes_max)
                _fsync_directory(os.path.dirname(os.path.abspath(path)))
        except BaseException:
            self._connection.close()
            raise

    @property
    def is_poisoned(self) -> bool:
        """Whether nothing more is answered from this handle."""
        return self._poison is not None

    # Sessions.

    def open_session(self) -> SessionId:
        """Begin a session, ending our former one and those of dead processes."""
        self.end_session()
        with self._translated():
            self._neighbours.are(self._other_sessions())
            dead = self._neighbours.dead()
        try:
            session_id = self._begin_session(dead)
        except BaseException:
            self._neighbours.spare()
            self._lose_session(is_over=True)
            raise
        self._neighbours.gone(dead)
        self.session_id = session_id
        return session_id

    def _begin_session(self, dead: Sequence[Lapsed]) -> SessionId:
        with self._transaction() as execute:
            self._forget_sessions([each.session_id for each in dead])
            session_id = int(execute("INSERT INTO sessions DEFAULT VALUES RETURNING id").fetchone()[0])
            # Locked before the row is visible to others, so that nobody takes the newborn for dead.
            self.lock = SessionLock.take(lock_path(self._path, session_id), timeout_ms=self._session_timeout_ms)
            if self.lock is None:
                raise RegistryUnavailable(self._path, f"the lock file of new session {session_id} is held by another")
            self._neighbours.sweep(self._other_sessions())
        return session_id

    def end_session(self) -> None:
        """End our session, and its ephemeral nodes with it."""
        session_id, is_over = self.session_id, False
        try:
            if session_id is not None:
                with self._transaction():
                    self._forget_sessions([session_id])
                is_over = True
        finally:
            # Without the lock the session is dead for the next one who looks, even if the write above failed.
            self._lose_session(is_over=is_over)

    def expire_session(self, session_id: SessionId) -> None:
        """End a session of somebody else; harmless if it is over already."""
        self._expire([Lapsed(session_id=session_id, why="it was asked for")])

    def poll(self, monotonic_ms: float) -> list[Lapsed]:
        """Look around: what others have changed, whether our session is in force, and who of the others is dead or silent.

        Returns the sessions that were expired. Cheap if nothing happened: no transaction at all.
        """
        self._look_at_changes()
        if self.session_id is None:
            return []
        with self._translated():
            lapsed = self._neighbours.dead() or self._neighbours.silent(monotonic_ms)
        if not lapsed:
            return []
        try:
            return self._expire(lapsed)
        except RegistryUnavailable:
            self._neighbours.spare()
            raise

    # The tree.

    def find(self, paths: Sequence[str]) -> list[Node | None]:
        """The nodes at some paths."""
        for path in paths:
            tree.check_path(path)
        with self._reading(paths[0] if paths else tree.ROOT):
            return self._table.find_many(paths)

    def children(self, path: str) -> list[str]:
        """The names of the node's children, sorted."""
        tree.check_path(path)
        with self._reading(path):
            if self._table.find(path) is None:
                raise NoNode(path)
            return self._table.children(path)

    def multi(self, operations: Sequence[Operation]) -> list[Outcome]:
        """All operations or none; durable once this returns."""
        with self._transaction() as execute:
            session_id = self._check_session(operations[0].path if operations else tree.ROOT)
            zxid = int(execute("UPDATE last_transaction SET zxid = zxid + 1 RETURNING zxid").fetchone()[0])
            outcomes = tree.apply(self._table, operations, session_id=session_id, zxid=zxid)
        self._look_at(tree.touched_by(operations, outcomes))
        return outcomes

    def watch(self, path: str, watch: SqliteWatch) -> None:
        """Have `watch` told of what is committed from now on."""
        tree.check_path(path)
        with self._reading(path):
            self.told.extend(self._watches.add(path, watch))

    def close(self) -> None:
        """End the session and close the file."""
        try:
            self.end_session()
        finally:
            self._neighbours.close()
            self._connection.close()

    # Looking around.

    def _look_at_changes(self) -> None:
        with self._translated():
            self._check_identity()
            data_version = self._pragma("data_version")
            if data_version == self._data_version or self.session_id is None:
                return
            with contextlib.suppress(SessionExpired), self._reading(tree.ROOT):
                self.told.extend(self._watches.changed())
                self._neighbours.are(self._other_sessions())
            self._data_version = data_version

    def _look_at(self, touched: Sequence[str]) -> None:
        """Find whom a transaction of our own concerns; it is committed, so nothing that fails here may be told to its caller."""
        if not self._watches.concern(touched):
            return
        try:
            with self._reading(tree.ROOT):
                self.told.extend(self._watches.changed(touched))
        except (RegistryUnavailable, SessionExpired):
            self._data_version = None  # The next poll looks at everything.

    def _expire(self, lapsed: Sequence[Lapsed]) -> list[Lapsed]:
        """End sessions in one transaction; returns those that were not over already, by their owner's or another's doing."""
        with self._waiting_at_most(POLL_LOCK_TIMEOUT_MS), self._transaction():
            in_force = set(self._other_sessions())
            touched = self._forget_sessions([each.session_id for each in lapsed])
        self._neighbours.gone(lapsed)
        self._look_at(touched)
        return [each for each in lapsed if each.session_id in in_force]

    def _other_sessions(self) -> list[SessionId]:
        rows = self._connection.execute("SELECT id FROM sessions ORDER BY id").fetchall()
        return [session_id for (session_id,) in rows if session_id != self.session_id]

    def _forget_sessions(self, session_ids: Sequence[SessionId]) -> list[str]:
        """End sessions in the transaction under way; returns the paths whose watchers that concerns."""
        removed: list[str] = []
        for session_id in session_ids:
            removed += tree.expire(self._table, session_id)
            self._connection.execute("DELETE FROM sessions WHERE id = ?", (session_id,))
        return tree.touched_by_expiry(removed)

    def _check_session(self, path: str) -> SessionId:
        session_id = self.session_id
        if session_id is None:
            raise SessionExpired(path, "no session is open")
        if self._connection.execute("SELECT 1 FROM sessions WHERE id = ?", (session_id,)).fetchone() is None:
            self._lose_session(is_over=True)
            raise SessionExpired(path, f"session {session_id} is over")
        return session_id

    def _lose_session(self, *, is_over: bool) -> None:
        lock, self.lock, self.session_id = self.lock, None, None
        self._watches.end()
        if lock is not None:
            lock.release(is_session_over=is_over)

    # The database.

    def _prepare(self, size_bytes_max: int) -> None:
        execute = self._connection.execute
        if (application_id := self._pragma("application_id")) not in (0, APPLICATION_ID):
            raise RegistryUnavailable(self._path, f"the file belongs to another application ({application_id:#x})")
        if execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise RegistryUnavailable(self._path, "the file is corrupt")
        journal_mode = execute("PRAGMA journal_mode = WAL").fetchone()[0]
        execute("PRAGMA synchronous = FULL")
        if (journal_mode, self._pragma("synchronous")) != ("wal", 2):
            raise RegistryUnavailable(self._path, "the file system cannot keep a write-ahead log")
        execute("PRAGMA fullfsync = ON")
        execute("PRAGMA checkpoint_fullfsync = ON")
        execute(f"PRAGMA max_page_count = {max(1, size_bytes_max // PAGE_BYTES)}")
        with self._transaction():
            if self._pragma("application_id") == 0:
                self._create_schema()
            elif (found := self._pragma("user_version")) != SCHEMA_VERSION:
                raise RegistryUnavailable(
                    self._path, f"the file has format {found}, this program understands {SCHEMA_VERSION}"
                )

    def _create_schema(self) -> None:
        if self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] != 0:
            raise RegistryUnavailable(self._path, "the file is a database of another application")
        for statement in SCHEMA:
            self._connection.execute(statement)

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])

    @contextlib.contextmanager
    def _waiting_at_most(self, lock_timeout_ms: int) -> Iterator[None]:
        self._connection.execute(f"PRAGMA busy_timeout = {lock_timeout_ms}")
        try:
            yield
        finally:
            self._connection.execute(f"PRAGMA busy_timeout = {self._lock_timeout_ms}")

    @contextlib.contextmanager
    def _reading(self, path: str) -> Iterator[None]:
        """One moment of the tree, in which our session is in force."""
        with self._translated():
            self._check_identity()
            self._connection.execute("BEGIN")
            try:
                self._check_session(path)
                yield
            finally:
                self._roll_back()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[_Execute]:
        """Take the write lock, and commit at the end; on any error nothing has happened."""
        with self._translated():
            self._check_identity()
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection.execute
                self._connection.execute("COMMIT")
            finally:
                self._roll_back()

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _check_identity(self) -> None:
        """Writes to a file that was unlinked or replaced would be lost with the process."""
        try:
            is_ours = _identity(self._path) == self.identity
        except FileNotFoundError:
            is_ours = False
        if not is_ours:
            self._take_poison("the file was removed or replaced under us")
            raise RegistryUnavailable(self._path, "the file was removed or replaced under us")

    def _take_poison(self, reason: str) -> None:
        self._poison = reason
        if self.session_id is not None:
            self._lose_session(is_over=False)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Give the world's errors one shape, and remember those after which the handle cannot be trusted."""
        if self._poison is not None:
            raise RegistryUnavailable(self._path, self._poison)
        try:
            yield
        except sqlite3.Error as error:
            # The low byte is the primary code; errors of the module itself have none.
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in _POISONOUS:
                self._take_poison(str(error))
            raise RegistryUnavailable(self._path, str(error), may_pass=code in _MAY_PASS) from error
        except OSError as error:
            may_pass = error.errno in _MAY_PASS_ERRNO
            raise RegistryUnavailable(self._path, error.strerror or str(error), may_pass=may_pass) from error


def _create_if_missing(path: str) -> None:
    """Created by us rather than by SQLite, for the owner's eyes only: the tree will hold credentials.

    One that is there is not opened: closing it again would drop the locks that another connection of this process holds on it.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _identity(path: str) -> Identity:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _fsync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
