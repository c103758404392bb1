"""The part of the group machine that looks after committed offsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tidelog.coordinator.group.area import LOOKS_AT_ONCE, Decider, OnTimer, Refuser, Replayer
from tidelog.coordinator.group.asked import asked, rung
from tidelog.coordinator.group.book import Group, GroupBook, GroupChange
from tidelog.coordinator.group.classic.group import ClassicGroup
from tidelog.coordinator.group.classic.timing import session_restart
from tidelog.coordinator.group.offsets.commits import CommitWriter, check_commit
from tidelog.coordinator.group.offsets.deletions import decide_delete
from tidelog.coordinator.group.offsets.expiry import expiry_judge, lost_judge, topics_judge
from tidelog.coordinator.group.offsets.fetches import OffsetReader
from tidelog.coordinator.group.offsets.refusals import (
    refuse_commit,
    refuse_delete,
    refuse_fetch,
    refuse_transactional_commit,
)
from tidelog.coordinator.group.offsets.sweep import Place, sweep
from tidelog.coordinator.group.offsets.table import OffsetTable
from tidelog.coordinator.group.offsets.topics import TopicWatch
from tidelog.coordinator.group.offsets.transactional import decide_transactional_commit
from tidelog.coordinator.group.settings import GroupSettings
from tidelog.coordinator.machine import (
    Command,
    CoordinatorRecord,
    Decision,
    Moment,
    Reply,
    TimerChange,
    TimerKey,
    Written,
)
from tidelog.model import ApiError, Offset, ProducerId
from tidelog.wire.definition import Request
from tidelog.wire.messages.offset_commit import OffsetCommitRequest
from tidelog.wire.messages.offset_delete import OffsetDeleteRequest
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from tidelog.wire.messages.txn_offset_commit import TxnOffsetCommitRequest


class ExpiryTimer(NamedTuple):
    """Time to look for offsets that are too old, or to go on with it. There is always exactly one of them."""

    place: Place | None = None


class DeletedTopicsTimer(NamedTuple):
    """Offsets of deleted topics are to be forgotten."""

    topics: tuple[bytes, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class LostTopicsTimer:
    """Offsets of topics are to be forgotten that were deleted while nobody looked after these groups; as soon as all topics are known."""

    place: Place | None = None


_LOOK_AGAIN_MS: Final = 1_000
"""How long to wait for the rest of the topics; mostly they come with the leadership, or a moment later."""


class OffsetsArea:
    """OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete, expiry; replays the records of offsets."""

    def __init__(self, book: GroupBook, settings: GroupSettings) -> None:
        self._book = book
        self._settings = settings
        self._watch = TopicWatch(book)
        self.table = OffsetTable(on_topic=self._watch.notice)

    @property
    def deciders(self) -> Mapping[type[Request[Any]], Decider]:
        """Four requests."""
        return {
            OffsetCommitRequest: self._commit,
            TxnOffsetCommitRequest: self._commit_in_transaction,
            OffsetFetchRequest: self._fetch,
            OffsetDeleteRequest: lambda command, _: decide_delete(self._book, self.table, command),
        }

    @property
    def refusers(self) -> Mapping[type[Request[Any]], Refuser]:
        """The same four."""
        return {
            OffsetCommitRequest: refuse_commit,
            TxnOffsetCommitRequest: refuse_transactional_commit,
            OffsetFetchRequest: refuse_fetch,
            OffsetDeleteRequest: refuse_delete,
        }

    @property
    def replayers(self) -> Mapping[int, Replayer]:
        """Keys of version 0 were written by Kafka 0.8, and look the same."""
        return {0: self._replay, 1: self._replay}

    @property
    def timers(self) -> Mapping[type, OnTimer]:
        """One for the age of offsets, some for topics that were deleted."""
        return {
            ExpiryTimer: self._expire,
            DeletedTopicsTimer: self._forget_topics,
            LostTopicsTimer: self._forget_lost_topics,
        }

    def on_loaded(self, now: Moment) -> Iterator[Decision]:
        """Every offset has a group, even if the log does not mention it. Topics may be gone that whoever led before had known."""
        group_ids = list(self.table.groups)
        for first in range(0, len(group_ids), LOOKS_AT_ONCE):
            some = group_ids[first : first + LOOKS_AT_ONCE]
            orphans = [group_id for group_id in some if group_id not in self._book.groups]
            yield Decision(changes=tuple(GroupChange(name, ClassicGroup(group_id=name)) for name in orphans))
        timers = [self._next_expiry(now)]
        if any(self.table.topics):
            timers.append(TimerChange(LostTopicsTimer(), now.monotonic_ms))
        yield Decision(timers=tuple(timers))
        yield self.on_topics_changed(now)

    def on_topics_changed(self, now: Moment) -> Decision:
        """Offsets of topics that were deleted are forgotten in slices."""
        vanished, seen = self._watch.look(self.table.topics)
        if not vanished:
            return Decision(changes=(seen,))
        timer = DeletedTopicsTimer(vanished, Place(tuple(self.table.groups)))
        return Decision(changes=(seen,), timers=(TimerChange(timer, now.monotonic_ms),))

    def end_transaction(self, producer_id: ProducerId, *, is_committed: bool, offset: Offset) -> None:
        """What a transaction committed becomes visible, or never was."""
        del offset  # The records have their own, and those decide which of two wins.
        self.table.end_transaction(producer_id, is_committed=is_committed)

    def _replay(self, record: CoordinatorRecord, written: Written) -> None:
        group_id = self.table.replay(record.key, record.value, written)
        if group_id is not None and group_id not in self._book.groups:
            # Somebody commits without being in a group. An empty classic group without a protocol type stands for it.
            self._book.put(GroupChange(group_id, ClassicGroup(group_id=group_id)))

    def _commit(self, command: Command, now: Moment) -> Decision:
        request = asked(command, OffsetCommitRequest)
        try:
            group = check_commit(self._book, command, request)
        except ApiError as refusal:
            return Decision(replies=(Reply(command.token, refuse_commit(command, refusal.code)),), is_told_at_once=True)
        metadata_max = self._settings.offset_metadata_max_bytes
        writer = CommitWriter(request, self._book.topics, metadata_max=metadata_max, now=now)
        response = writer.write()
        return Decision(
            replies=(Reply(command.token, response),),
            records=tuple(writer.records),
            timers=tuple(_signs_of_life(group, request.member_id, now)),
        )

    def _commit_in_transaction(self, command: Command, now: Moment) -> Decision:
        metadata_max = self._settings.offset_metadata_max_bytes
        return decide_transactional_commit(self._book, command, now, metadata_max=metadata_max)

    def _fetch(self, command: Command, _: Moment) -> Decision:
        request = asked(command, OffsetFetchRequest)
        reader = OffsetReader(self._book, self.table, requires_stable=request.require_stable)
        response = OffsetFetchResponse(groups=tuple(reader.read(group) for group in request.groups))
        return Decision(replies=(Reply(command.token, response),))

    def _expire(self, key: TimerKey, now: Moment) -> Decision:
        place = rung(key, ExpiryTimer).place
        if place is None:  # Nothing is written in the step that makes the list, so that it is made only once.
            return Decision(timers=(TimerChange(ExpiryTimer(Place(tuple(self._book.groups))), now.monotonic_ms),))
        judge = expiry_judge(
            self._book, self.table, retention_ms=self._settings.offsets_retention_ms, now_ms=now.wall_ms
        )
        records, next_place = sweep(self.table, place, judge)
        if next_place is None:
            return Decision(records=records, timers=(self._next_expiry(now),), may_be_cut=True)
        timer = TimerChange(ExpiryTimer(next_place), now.monotonic_ms)
        return Decision(records=records, timers=(timer,), may_be_cut=True)

    def _forget_topics(self, key: TimerKey, now: Moment) -> Decision:
        timer = rung(key, DeletedTopicsTimer)
        judge = topics_judge(self.table, frozenset(timer.topics), self._book.topics)
        records, next_place = sweep(self.table, timer.place, judge)
        timers = () if next_place is None else (TimerChange(timer._replace(place=next_place), now.monotonic_ms),)
        return Decision(records=records, timers=timers, may_be_cut=True)

    def _forget_lost_topics(self, key: TimerKey, now: Moment) -> Decision:
        timer = rung(key, LostTopicsTimer)
        if not self._book.topics.is_whole:
            return Decision(timers=(TimerChange(timer, now.monotonic_ms + _LOOK_AGAIN_MS),))
        place = Place(tuple(self.table.groups)) if timer.place is None else timer.place
        records, next_place = sweep(self.table, place, lost_judge(self.table, self._book.topics))
        timers = () if next_place is None else (TimerChange(LostTopicsTimer(next_place), now.monotonic_ms),)
        return Decision(records=records, timers=timers, may_be_cut=True)

    def _next_expiry(self, now: Moment) -> TimerChange:
        return TimerChange(ExpiryTimer(), now.monotonic_ms + self._settings.offsets_retention_check_interval_ms)


def _signs_of_life(group: Group | None, member_id: str, now: Moment) -> Iterable[TimerChange]:
    """A member of a classic group that commits is alive."""
    if isinstance(group, ClassicGroup) and member_id in group.members:
        yield session_restart(group, member_id, now)
