"""What a process of Spark keeps open from one call to the next: clients, by what they were opened for."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    """Whatever can be kept."""

    def close(self) -> None:
        """Let go of it, within seconds."""
        ...


K = TypeVar("K")
C = TypeVar("C", bound=Closable)


class Kept(Generic[K, C]):
    """At most so many things; the one that was made first goes first. A fork begins with none: connections are their process's own."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._things: dict[K, C] = {}
        self._process = os.getpid()
        atexit.register(self.close_all)

    def of(self, key: K, make: Callable[[], C]) -> C:
        """The thing that is kept under a key, made if need be."""
        self._notice_fork()
        if key not in self._things:
            while len(self._things) >= self._count_max:
                self.forget(next(iter(self._things)))
            self._things[key] = make()
        return self._things[key]

    def forget(self, key: K) -> None:
        """Close what is kept under a key, if anything is; the next one begins anew."""
        self._notice_fork()
        thing = self._things.pop(key, None)
        if thing is not None:
            thing.close()

    def close_all(self) -> None:
        """Close everything."""
        self._notice_fork()
        while self._things:
            self.forget(next(iter(self._things)))

    def _notice_fork(self) -> None:
        if self._process != os.getpid():
            self._process = os.getpid()
            self._things = {}
