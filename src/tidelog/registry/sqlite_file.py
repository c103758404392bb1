"""The tree in one SQLite file, synchronous: everything here runs in the registry's own thread.

Durability: write-ahead log with synchronous=FULL, so a commit is on the medium before it is answered, and an epoch that somebody has seen
never goes back. A failed fsync or I/O error poisons the handle: what it covered may be gone, so nothing more is answered from it.

Liveness: each session has a row and a lock file that its process keeps locked. A row whose lock file can be locked belongs to a dead process,
and the next one that opens the file expires it. The kernel drops the lock with the process, also on SIGKILL.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from tidelog.registry import tree
from tidelog.registry.errors import NoNode, RegistryUnavailable, SessionExpired
from tidelog.registry.protocol import Node, Operation, Outcome, SessionId

APPLICATION_ID: Final = 0x54494445  # "TIDE" in the file's header says whose file it is
SCHEMA_VERSION: Final = 1
PAGE_BYTES: Final = 4096
SQLITE_VERSION_MIN: Final = (3, 35, 0)

_Execute: TypeAlias = Callable[[str], sqlite3.Cursor]

_SCHEMA: Final = (
    """CREATE TABLE nodes (
        path TEXT PRIMARY KEY, parent TEXT NOT NULL, data BLOB NOT NULL, version INTEGER NOT NULL, czxid INTEGER NOT NULL,
        owner INTEGER, children_created INTEGER NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX nodes_by_parent ON nodes (parent, path)",
    "CREATE INDEX nodes_by_owner ON nodes (owner, path) WHERE owner IS NOT NULL",
    "CREATE TABLE sessions (id INTEGER PRIMARY KEY AUTOINCREMENT)",  # AUTOINCREMENT: no number is given twice
    "CREATE TABLE last_transaction (zxid INTEGER NOT NULL)",
    "INSERT INTO nodes VALUES ('/', '', x'', 0, 0, NULL, 0)",
    "INSERT INTO last_transaction VALUES (0)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)
_MAY_PASS: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL})
_POISONOUS: Final = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class SqliteTable:
    """The nodes as rows; the owner of the connection begins and ends transactions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def find(self, path: str) -> Node | None:
        """The node at a path."""
        row = self._connection.execute(
            "SELECT data, version, czxid, owner, children_created FROM nodes WHERE path = ?", (path,)
        ).fetchone()
        if row is None:
            return None
        data, version, czxid, owner, children_created = row
        return Node(data=data, version=version, czxid=czxid, owner=owner, children_created=children_created)

    def put(self, path: str, node: Node) -> None:
        """Add or replace a node."""
        row = (path, tree.parent_of(path), node.data, node.version, node.czxid, node.owner, node.children_created)
        self._connection.execute(
            "INSERT INTO nodes VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (path) DO UPDATE SET"
            " data = excluded.data, version = excluded.version, children_created = excluded.children_created",
            row,
        )

    def remove(self, path: str) -> None:
        """Take a node away that is there."""
        self._connection.execute("DELETE FROM nodes WHERE path = ?", (path,))

    def children(self, path: str) -> list[str]:
        """Names below a path, sorted."""
        rows = self._connection.execute("SELECT path FROM nodes WHERE parent = ? ORDER BY path", (path,))
        return [child.rpartition("/")[2] for (child,) in rows]

    def owned_by(self, session_id: SessionId) -> list[str]:
        """Paths of the session's ephemeral nodes, sorted."""
        rows = self._connection.execute("SELECT path FROM nodes WHERE owner = ? ORDER BY path", (session_id,))
        return [path for (path,) in rows]


class SqliteFile:
    """An open registry file with at most one session of ours."""

    def __init__(self, path: str, *, lock_timeout_ms: int, size_bytes_max: int) -> None:
        self._path = path
        self._poison: str | None = None
        self._session_lock: int | None = None
        self.session_id: SessionId | None = None
        if sqlite3.sqlite_version_info < SQLITE_VERSION_MIN:
            raise RegistryUnavailable(path, f"SQLite {sqlite3.sqlite_version} is too old: RETURNING came with 3.35")
        with self._translated():
            # Created by us rather than by SQLite, for the owner's eyes only: the tree will hold credentials.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._connection = sqlite3.connect(path, timeout=lock_timeout_ms / 1000, isolation_level=None)
        self._table = SqliteTable(self._connection)
        try:
            with self._translated():
                self._identity = _identity(path)
                self._prepare(size_bytes_max)
                _fsync_directory(os.path.dirname(os.path.abspath(path)))
        except BaseException:
            self._connection.close()
            raise

    def open_session(self) -> SessionId:
        """Begin a session, ending our former one and those of dead processes."""
        self.end_session()
        with self._transaction() as execute:
            for (other,) in execute("SELECT id FROM sessions ORDER BY id").fetchall():
                self._expire_if_dead(other)
            session_id = int(execute("INSERT INTO sessions DEFAULT VALUES RETURNING id").fetchone()[0])
            # Locked before the row is visible to others, so that nobody takes the newborn for dead.
            self._session_lock = _try_lock(self._lock_path(session_id))
            if self._session_lock is None:
                raise RegistryUnavailable(self._path, f"the lock file of new session {session_id} is held by another")
        self.session_id = session_id
        return session_id

    def end_session(self) -> None:
        """End our session, and its ephemeral nodes with it."""
        session_id, self.session_id = self.session_id, None
        lock, self._session_lock = self._session_lock, None
        try:
            if session_id is not None:
                with self._transaction():
                    self._forget_session(session_id)
        finally:
            # Without the lock the session is dead for the next one who looks, even if the write above failed.
            if lock is not None:
                os.close(lock)
        if session_id is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._lock_path(session_id))

    def find(self, paths: Sequence[str]) -> list[Node | None]:
        """The nodes at some paths."""
        for path in paths:
            tree.check_path(path)
        with self._translated():
            self._check_session(paths[0] if paths else tree.ROOT)
            return [self._table.find(path) for path in paths]

    def children(self, path: str) -> list[str]:
        """The names of the node's children, sorted."""
        if self.find([path]) == [None]:
            raise NoNode(path)
        with self._translated():
            return self._table.children(path)

    def multi(self, operations: Sequence[Operation]) -> list[Outcome]:
        """All operations or none; durable once this returns."""
        with self._transaction() as execute:
            session_id = self._check_session(operations[0].path if operations else tree.ROOT)
            zxid = int(execute("UPDATE last_transaction SET zxid = zxid + 1 RETURNING zxid").fetchone()[0])
            return tree.apply(self._table, operations, session_id=session_id, zxid=zxid)

    def close(self) -> None:
        """End the session and close the file."""
        try:
            self.end_session()
        finally:
            self._connection.close()

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
        for statement in _SCHEMA:
            self._connection.execute(statement)

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])

    def _check_session(self, path: str) -> SessionId:
        if self.session_id is None:
            raise SessionExpired(path, "no session is open")
        if self._connection.execute("SELECT 1 FROM sessions WHERE id = ?", (self.session_id,)).fetchone() is None:
            raise SessionExpired(path, f"session {self.session_id} is over")
        return self.session_id

    def _expire_if_dead(self, session_id: SessionId) -> None:
        lock = _try_lock(self._lock_path(session_id))
        if lock is not None:
            self._forget_session(session_id)
            os.unlink(self._lock_path(session_id))
            os.close(lock)

    def _forget_session(self, session_id: SessionId) -> None:
        tree.expire(self._table, session_id)
        self._connection.execute("DELETE FROM sessions WHERE id = ?", (session_id,))

    def _lock_path(self, session_id: SessionId) -> str:
        return f"{self._path}.session-{session_id}"

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[_Execute]:
        """Take the write lock, and commit at the end; on any error nothing has happened."""
        with self._translated():
            if _identity(self._path) != self._identity:
                # Writes to a file that was unlinked or replaced would be lost with the process.
                self._poison = "the file was removed or replaced under us"
                raise RegistryUnavailable(self._path, self._poison)
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection.execute
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

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
                self._poison = str(error)
            raise RegistryUnavailable(self._path, str(error), may_pass=code in _MAY_PASS) from error
        except OSError as error:
            raise RegistryUnavailable(self._path, error.strerror or str(error)) from error


def _identity(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _fsync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _try_lock(path: str) -> int | None:
    """A descriptor that holds the lock on a (created) file, or None if somebody else holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
