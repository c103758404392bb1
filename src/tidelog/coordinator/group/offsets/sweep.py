"""Going through all offsets of a partition a few thousand at a time, so that nobody else has to wait for it.

A sweep is a place in a list of groups. Nothing is remembered besides: the next slice begins where the last one ended, because what the
last one gave up is gone by then, and what it kept is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from tidelog.coordinator.group.offsets.keys import tombstone
from tidelog.coordinator.group.offsets.table import OffsetTable
from tidelog.coordinator.machine import CoordinatorRecord

LOOKS_MAX: Final = 4_000
TOMBSTONES_MAX: Final = 1_000
"""What one decision may look at and may write: some milliseconds, and a batch far below the size of the largest allowed."""

IsGone: TypeAlias = Callable[[bytes, bytes], bool]


class Place(NamedTuple):
    """How far a sweep has come."""

    groups: tuple[str, ...]
    position: int = 0
    kept: int = 0  # how many offsets of the group at `position` were looked at, and stay


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
    groups, position, kept = place
    records: list[CoordinatorRecord] = []
    looks = 0
    while position < len(groups) and looks < LOOKS_MAX and len(records) < TOMBSTONES_MAX:
        is_gone = judge.of_group(groups[position])
        looks += 1
        if is_gone is not None:
            group = groups[position].encode()
            for slot, value in islice(table.values(groups[position]).items(), kept, None):
                if looks >= LOOKS_MAX or len(records) >= TOMBSTONES_MAX:
                    return Slice(tuple(records), Place(groups, position, kept))
                looks += 1
                if is_gone(slot, value):
                    records.append(tombstone(group, slot))
                else:
                    kept += 1
            records.extend(judge.at_end(groups[position], kept))
        position, kept = position + 1, 0
    return Slice(tuple(records), Place(groups, position) if position < len(groups) else None)
