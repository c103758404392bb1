"""The machine of one partition of `__consumer_offsets`: finds who decides, who replays and whose timer it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidelog.coordinator.group.area import Area
from tidelog.coordinator.group.book import GroupBook, GroupChange, TopicsSeen
from tidelog.coordinator.machine import (
    NO_DECISION,
    Command,
    CoordinatorRecord,
    Decision,
    Moment,
    TimerKey,
    Written,
)
from tidelog.model import ErrorCode, Offset, ProducerId, invariant
from tidelog.wire.definition import Response


class GroupMachine:
    """Knows no group itself."""

    def __init__(self, book: GroupBook, areas: Sequence[Area]) -> None:
        self._book = book
        self._areas = areas
        self._deciders = {kind: decide for area in areas for kind, decide in area.deciders.items()}
        self._refusers = {kind: refuse for area in areas for kind, refuse in area.refusers.items()}
        self._replayers = {version: replay for area in areas for version, replay in area.replayers.items()}
        self._timers = {kind: ring for area in areas for kind, ring in area.timers.items()}
        invariant(set(self._deciders) == set(self._refusers), "whatever is decided can be refused")

    def decide(self, command: Command, now: Moment) -> Decision:
        """As its area decides."""
        return self._deciders[type(command.request)](command, now)

    def refusal(self, command: Command, code: ErrorCode) -> Response:
        """As its area says it."""
        return self._refusers[type(command.request)](command, code)

    def on_timer(self, key: TimerKey, now: Moment) -> Decision:
        """As whoever set it decides."""
        return self._timers[type(key)](key, now)

    def replay(self, record: CoordinatorRecord, written: Written) -> None:
        """Records whose version nobody knows were written by a newer release, and are passed over."""
        replayer = self._replayers.get(int.from_bytes(record.key[:2], "big", signed=True))
        if replayer is not None:
            replayer(record, written)

    def end_transaction(self, producer_id: ProducerId, *, is_committed: bool, offset: Offset) -> None:
        """Only offsets are written in transactions."""
        for area in self._areas:
            area.end_transaction(producer_id, is_committed=is_committed, offset=offset)

    def adopt(self, change: object) -> None:
        """A group as it is now, or the topics."""
        match change:
            case GroupChange():
                self._book.put(change)
            case TopicsSeen():
                self._book.see(change)
            case _:
                invariant(False, "groups and topics are all that changes in memory")

    def on_loaded(self, now: Moment) -> Iterator[Decision]:
        """What all areas want."""
        for area in self._areas:
            yield from area.on_loaded(now)

    def on_topics_changed(self, now: Moment) -> Decision:
        """What all areas want."""
        return _together([area.on_topics_changed(now) for area in self._areas])


def _together(decisions: Sequence[Decision]) -> Decision:
    together = NO_DECISION
    for decision in decisions:
        together = replace(
            together,
            replies=together.replies + decision.replies,
            records=together.records + decision.records,
            changes=together.changes + decision.changes,
            timers=together.timers + decision.timers,
        )
    return replace(together, may_be_cut=all(decision.may_be_cut for decision in decisions if decision.records))
