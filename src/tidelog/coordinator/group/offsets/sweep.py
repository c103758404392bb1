"""Going through all offsets of a partition a few thousand at a time, so that nobody else has to wait for it.

A sweep is a place in a list of groups. Where a slice ends within a group, its slots are noted: offsets come and go before the next one, so that
counting would pass over some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from tidelog.coordinator.group.offsets.keys import tombstone
from tidelog.coordinator.group.offsets.table import OffsetTable
from tidelog.coordinator.machine import CoordinatorRecord

LOOKS_MAX: Final = 4_000
TOMBSTONES_MAX: Final = 1_000
TOMBSTONES_BYTES_MAX: Final = 256 * 1_024
"""What one decision may look at and may write: some milliseconds of work. The log says how much of it is one batch."""

IsGone: TypeAlias = Callable[[bytes, bytes], bool]


@dataclass(frozen=True, eq=False, slots=True)
class Rest:
    """The slots of a group, looked at up to a position. Compared by identity: they are part of the key of a timer, and may be a million."""

    slots: tuple[bytes, ...]
    position: int = 0


class Place(NamedTuple):
    """How far a sweep has come."""

    groups: tuple[str, ...]
    position: int = 0
    rest: Rest | None = None  # of the group at `position`; None: it comes as a whole


class Slice(NamedTuple):
    """What a step found, and where the next one begins; None if there is none."""

    records: tuple[CoordinatorRecord, ...]
    next_place: Place | None


class Judge(NamedTuple):
    """Decides about a group and its offsets."""

    of_group: Callable[[str], IsGone | None]  # None: it keeps everything
    at_end: Callable[
        [str, int], Iterable[CoordinatorRecord]
    ]  # what else goes, once a group's offsets are through and so many stay


def sweep(table: OffsetTable, place: Place, judge: Judge) -> Slice:
    """One step. The records are tombstones, which have to be replayed before the next one."""
    groups, position, rest = place
    step = _Step(table)
    while position < len(groups) and not step.is_enough:
        is_gone = judge.of_group(groups[position])
        step.looks += 1
        if is_gone is not None:
            rest, kept = step.through(groups[position], rest, is_gone)
            if rest is not None:
                return Slice(tuple(step.records), Place(groups, position, rest))
            step.records.extend(judge.at_end(groups[position], kept))
        position, rest = position + 1, None
    return Slice(tuple(step.records), Place(groups, position) if position < len(groups) else None)


class _Step:
    """What one step does: nothing changes meanwhile."""

    def __init__(self, table: OffsetTable) -> None:
        self._table = table
        self._size = 0
        self.records: list[CoordinatorRecord] = []
        self.looks = 0

    @property
    def is_enough(self) -> bool:
        """Whether the next step should do the rest."""
        return self.looks >= LOOKS_MAX or len(self.records) >= TOMBSTONES_MAX or self._size >= TOMBSTONES_BYTES_MAX

    def through(self, group_id: str, rest: Rest | None, is_gone: IsGone) -> tuple[Rest | None, int]:
        """Look at the slots of a group; those that are left if there are too many, and how many offsets stay."""
        group, values = group_id.encode(), self._table.values(group_id)
        slots, first = (tuple(values), 0) if rest is None else (rest.slots, rest.position)
        before = len(self.records)
        for position in range(first, len(slots)):
            if self.is_enough:
                return Rest(slots, position), 0
            self.looks += 1
            slot = slots[position]
            value = values.get(slot)
            if value is not None and is_gone(slot, value):
                record = tombstone(group, slot)
                self.records.append(record)
                self._size += len(record.key)
        return None, len(values) - (len(self.records) - before)
