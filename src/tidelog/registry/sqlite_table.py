"""The tree as rows of a database: the schema, and the table of nodes that the rules of the tree work on."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Final, TypeAlias

from tidelog.registry import tree
from tidelog.registry.protocol import Node, SessionId

APPLICATION_ID: Final = 0x54494445  # "TIDE" in the file's header says whose file it is
SCHEMA_VERSION: Final = 1
SCHEMA: Final = (
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

_FIND: Final = "SELECT path, data, version, czxid, owner, children_created FROM nodes WHERE path = ?"
_FIND_MANY: Final = (
    "SELECT path, data, version, czxid, owner, children_created FROM nodes"
    " WHERE path IN (SELECT value FROM json_each(?))"
)

Standing: TypeAlias = tuple[str | int, ...]


class SqliteTable:
    """The nodes as rows; the owner of the connection begins and ends transactions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute

    def find(self, path: str) -> Node | None:
        """The node at a path."""
        row = self._execute(_FIND, (path,)).fetchone()
        return None if row is None else _node(*row)

    def find_many(self, paths: Sequence[str]) -> list[Node | None]:
        """The nodes at several paths, with one question."""
        found = {row[0]: _node(*row) for row in self._execute(_FIND_MANY, (json.dumps(list(paths)),))}
        return [found.get(path) for path in paths]

    def put(self, path: str, node: Node) -> None:
        """Add or replace a node."""
        row = (path, tree.parent_of(path), node.data, node.version, node.czxid, node.owner, node.children_created)
        self._execute(
            "INSERT INTO nodes VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (path) DO UPDATE SET"
            " data = excluded.data, version = excluded.version, children_created = excluded.children_created",
            row,
        )

    def remove(self, path: str) -> None:
        """Take a node away that is there."""
        self._execute("DELETE FROM nodes WHERE path = ?", (path,))

    def children(self, path: str) -> list[str]:
        """Names below a path, sorted."""
        rows = self._execute("SELECT path FROM nodes WHERE parent = ? ORDER BY path", (path,))
        return [child.rpartition("/")[2] for (child,) in rows]

    def owned_by(self, session_id: SessionId) -> list[str]:
        """Paths of the session's ephemeral nodes, sorted."""
        rows = self._execute("SELECT path FROM nodes WHERE owner = ? ORDER BY path", (session_id,))
        return [path for (path,) in rows]

    def standing(self, path: str) -> Standing:
        """Something that differs after every change of which a watcher of `path` must hear.

        While there are no creations below a node its number of children only falls, so the pair of both numbers never comes back. For a
        node that is missing the next ancestor answers: whatever comes, and be it gone again since, adds to its creations.
        """
        row = self._execute(
            "SELECT path, czxid, children_created, version, (SELECT count(*) FROM nodes AS child WHERE child.parent = nodes.path)"
            " FROM nodes WHERE path = ?",
            (path,),
        ).fetchone()
        ancestor = path
        while row is None:
            ancestor = tree.parent_of(ancestor)
            row = self._execute(
                "SELECT path, czxid, children_created FROM nodes WHERE path = ?", (ancestor,)
            ).fetchone()
        return tuple(row)


def _node(_: str, data: bytes, version: int, czxid: int, owner: SessionId | None, children_created: int) -> Node:
    return Node(data=data, version=version, czxid=czxid, owner=owner, children_created=children_created)
