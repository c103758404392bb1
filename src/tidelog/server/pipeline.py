"""The requests of one connection that are under way, in the order they came, which is the order their answers leave in.

One is served at a time, with one exception: a request that has done all its work and only waits for leave to say so (`Settling`) lets those
behind it begin. Producers send several batches without waiting, and would else pay for the way to the followers and back with each of them.
Nothing changes its place by that: a batch is appended before the next one is looked at, and answered before the next one is. A request that
must wait before it can do its work, and after that once more, begins as any other, and settles when its first wait ends in `Settling`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from tidelog.runtime.disk import Buffer

T = TypeVar("T")
Frame: TypeAlias = list[Buffer]

_SETTLING_MAX: Final = 16


class Settling(NamedTuple, Generic[T]):
    """An answer that waits although the work is done: requests like this one may begin."""

    answer: Awaitable[T]


class Place:
    """One request under way, or answered and waiting for its turn to leave."""

    __slots__ = ("frame", "is_answered", "is_settling", "task")

    def __init__(self, *, is_settling: bool) -> None:
        self.is_settling = is_settling
        self.is_answered = False
        self.frame: Frame | None = None
        self.task: asyncio.Task[None] | None = None

    def answer(self, frame: Frame | None) -> None:
        """It is answered, perhaps by silence."""
        self.is_answered = True
        self.frame = frame
        self.task = None


class Pipeline:
    """The places of one connection. Never more than `_SETTLING_MAX`."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: deque[Place] = deque()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is under way."""
        return not self._places

    @property
    def has_unanswered(self) -> bool:
        """Whether somebody still waits for an answer."""
        return any(not place.is_answered for place in self._places)

    @property
    def takes_settling(self) -> bool:
        """Whether another request of the kind that settles may begin."""
        return not self._places or (self._places[-1].is_settling and len(self._places) < _SETTLING_MAX)

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """Those who still wait for their answers."""
        return [place.task for place in self._places if place.task is not None]

    def enter(self, *, is_settling: bool) -> Place:
        """A request begins."""
        place = Place(is_settling=is_settling)
        self._places.append(place)
        return place

    def leave(self, place: Place) -> None:
        """A request ends without an answer, and its connection with it."""
        self._places.remove(place)

    def due(self) -> Frame:
        """Everything that may leave now, in order."""
        due: Frame = []
        places = self._places
        while places and places[0].is_answered:
            due += places.popleft().frame or ()
        return due
