"""Watches on the tree in a file: each watched path is compared with how it stood when it was last looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tidelog.registry.sqlite_table import Standing


class SqliteWatch:
    """An interest in a node, made and cancelled on the loop, kept in the registry's thread."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change: Callable[[], None] | None = on_change

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody listens any more."""
        return self._on_change is None

    def cancel(self) -> None:
        """Nothing more is told."""
        self._on_change = None

    def tell(self) -> None:
        """On the loop: something has changed."""
        if self._on_change is not None:
            self._on_change()


@dataclass(slots=True)
class _Watched:
    standing: Standing
    watches: list[SqliteWatch] = field(default_factory=list)


class Watches:
    """All watches of a session. `standing` reads in the transaction that is under way."""

    def __init__(self, standing: Callable[[str], Standing]) -> None:
        self._standing = standing
        self._watched: dict[str, _Watched] = {}

    def add(self, path: str, watch: SqliteWatch) -> list[SqliteWatch]:
        """Begin to watch, and return the others of this path that a change since the last look concerns."""
        changed = self.changed([path])
        if path not in self._watched:
            self._watched[path] = _Watched(self._standing(path))
        self._watched[path].watches.append(watch)
        return changed

    def concern(self, paths: Iterable[str]) -> bool:
        """Whether anybody watches one of these. A missing node is also watched through its ancestors, which are asked as they change."""
        return any(path in self._watched for path in paths)

    def changed(self, paths: Iterable[str] | None = None) -> list[SqliteWatch]:
        """The watches to be told, of some paths or of all."""
        told: list[SqliteWatch] = []
        for path in list(self._watched) if paths is None else paths:
            watched = self._watched.get(path)
            if watched is None:
                continue
            watched.watches = [watch for watch in watched.watches if not watch.is_cancelled]
            if not watched.watches:
                del self._watched[path]
            elif (standing := self._standing(path)) != watched.standing:
                watched.standing = standing
                told += watched.watches
        return told

    def end(self) -> None:
        """Nothing is told any more."""
        for watched in self._watched.values():
            for watch in watched.watches:
                watch.cancel()
        self._watched.clear()
