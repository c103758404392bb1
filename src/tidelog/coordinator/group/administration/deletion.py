"""DeleteGroups: a group goes with all its offsets, at once if they are few, in slices if they are many.

The answer to a deletion in slices comes with the last of them. A group that gets members meanwhile is not deleted any further.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from tidelog.coordinator.group.asked import asked
from tidelog.coordinator.group.book import GroupBook
from tidelog.coordinator.group.offsets.keys import tombstone
from tidelog.coordinator.group.offsets.table import OffsetTable
from tidelog.coordinator.group.offsets.tombstones import group_tombstones
from tidelog.coordinator.machine import Command, CoordinatorRecord, Decision, Moment, Reply, TimerChange, Token
from tidelog.model import ErrorCode
from tidelog.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

TOMBSTONES_MAX: Final = 1_000
TOMBSTONES_BYTES_MAX: Final = 256 * 1_024
"""What one decision writes: some milliseconds of work. The log says how much of it is one batch."""

PATIENCE_MS: Final = 30_000
"""How long a slice that cannot be written is tried before the client is told to come again."""


class DeletionTimer(NamedTuple):
    """The next slice of a deletion."""

    token: Token
    remaining: tuple[str, ...]
    results: tuple[DeletableGroupResult, ...]
    until_ms: float


class _Step(NamedTuple):
    records: tuple[CoordinatorRecord, ...]
    remaining: tuple[str, ...]
    results: tuple[DeletableGroupResult, ...]


class GroupDeletion:
    """Decides about DeleteGroups, and about the slices of it."""

    def __init__(self, book: GroupBook, table: OffsetTable) -> None:
        self._book = book
        self._table = table

    def decide(self, command: Command, now: Moment) -> Decision:
        """All of it, if that is one batch. Else nothing is written yet: nobody would go on if this were refused."""
        request = asked(command, DeleteGroupsRequest)
        step = self._step(request.groups_names, ())
        if not step.remaining:
            return _finished(command.token, step)
        return Decision(timers=(self._timer(command.token, request.groups_names, (), now),))

    def go_on(self, timer: DeletionTimer, now: Moment) -> Decision:
        """The next slice."""
        if now.monotonic_ms >= timer.until_ms:
            late = ErrorCode.COORDINATOR_NOT_AVAILABLE
            results = tuple(DeletableGroupResult(group_id=group_id, error_code=late) for group_id in timer.remaining)
            return _finished(timer.token, _Step((), (), timer.results + results))
        step = self._step(timer.remaining, timer.results)
        if not step.remaining:
            return _finished(timer.token, step)
        again = self._timer(timer.token, step.remaining, step.results, now)
        return Decision(records=step.records, timers=(again,), may_be_cut=True)

    def _timer(
        self, token: Token, remaining: tuple[str, ...], results: tuple[DeletableGroupResult, ...], now: Moment
    ) -> TimerChange:
        timer = DeletionTimer(token, remaining, results, now.monotonic_ms + PATIENCE_MS)
        return TimerChange(timer, now.monotonic_ms)

    def _step(self, remaining: tuple[str, ...], results: tuple[DeletableGroupResult, ...]) -> _Step:
        """As many groups as fit, and a part of the one that does not."""
        records: list[CoordinatorRecord] = []
        while remaining:
            group_id = remaining[0]
            error = self._objection(group_id)
            if error is ErrorCode.NONE:
                records += islice(self._tombstones(group_id), TOMBSTONES_MAX + 1 - len(records))
                if len(records) > TOMBSTONES_MAX or _size(records) > TOMBSTONES_BYTES_MAX:
                    return _Step(_that_fit(records), remaining, results)
            remaining, results = remaining[1:], (*results, DeletableGroupResult(group_id=group_id, error_code=error))
        return _Step(tuple(records), (), results)

    def _objection(self, group_id: str) -> ErrorCode:
        group = self._book.groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.NONE if group.is_empty else ErrorCode.NON_EMPTY_GROUP

    def _tombstones(self, group_id: str) -> Iterator[CoordinatorRecord]:
        """Offsets first: a coordinator that takes over in between still has the group."""
        group = group_id.encode()
        for slot in self._table.slots(group_id):
            yield tombstone(group, slot)
        yield from group_tombstones(self._book.groups[group_id])


def _size(records: list[CoordinatorRecord]) -> int:
    return sum(len(record.key) for record in records)


def _that_fit(records: list[CoordinatorRecord]) -> tuple[CoordinatorRecord, ...]:
    """From the first on, and at least one."""
    size = 0
    for count, record in enumerate(records[:TOMBSTONES_MAX]):
        size += len(record.key)
        if count and size > TOMBSTONES_BYTES_MAX:
            return tuple(records[:count])
    return tuple(records[:TOMBSTONES_MAX])


def _finished(token: Token, step: _Step) -> Decision:
    return Decision(
        replies=(Reply(token, DeleteGroupsResponse(results=step.results)),),
        records=step.records,
        is_told_at_once=not step.records and all(result.error_code is not ErrorCode.NONE for result in step.results),
        may_be_cut=True,
    )
