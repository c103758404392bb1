"""A reader's offsets begin where the log begins and go up by one: nothing twice, nothing skipped, never back.

It may jump over what clients had deleted, but no further. Not claimed where unclean elections are allowed. And no client is ever told what
no fault explains: that what it had read is gone, that two records have one offset, that a new topic holds records of an old one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidelog.model import Offset
from tidelog.simulation.checkers.ending import Ending
from tidelog.simulation.observer import Snapshot

if TYPE_CHECKING:  # Imports the checkers.
    from tidelog.simulation.workloads.history import History


def may_come_next(offset: Offset, *, expected: Offset, deleted_before: Offset) -> bool:
    """Whether a reader may be given this offset where it expected another."""
    return offset == expected or expected < offset <= deleted_before


class ReadersSkipNothing:
    """Hears what clients protest against, as soon as they do."""

    name = "readers skip nothing"

    def __init__(self, history: History) -> None:
        self._history = history

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """Protests up to now."""
        del snapshot
        yield from self._history.protests


class ReadersSkippedNothing:
    """The same when everything is over."""

    name = ReadersSkipNothing.name

    def verdict(self, ending: Ending) -> Iterator[str]:
        """All protests."""
        yield from ending.history.protests
