"""The file of an embedded registry, only to read: no session is opened, so nobody's is ended, and the file stays as it is."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from tidelog.cli.failure import CommandFailed
from tidelog.registry import Node, NoNode
from tidelog.registry.sqlite_table import APPLICATION_ID, SCHEMA_VERSION, SqliteTable


class FileNodes:
    """The nodes of one moment."""

    def __init__(self, table: SqliteTable) -> None:
        self._table = table

    async def get(self, path: str) -> Node:
        """The node at `path`. Raises NoNode."""
        node = self._table.find(path)
        if node is None:
            raise NoNode(path)
        return node

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """The nodes at several paths, None where there is none."""
        return self._table.find_many(paths)

    async def children(self, path: str) -> list[str]:
        """The names of the node's children, sorted."""
        return self._table.children(path)


@contextmanager
def opened(path: Path) -> Iterator[FileNodes]:
    """The nodes of a registry's file. Raises CommandFailed."""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, isolation_level=None)) as connection:
            found = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
            if found != [APPLICATION_ID, SCHEMA_VERSION]:
                raise CommandFailed(f"{path} is no registry, or one of another version of Tidelog")
            connection.execute("BEGIN")  # all reads see one moment
            yield FileNodes(SqliteTable(connection))
    except sqlite3.Error as error:
        raise CommandFailed(f"cannot read the registry {path}: {error}") from None
