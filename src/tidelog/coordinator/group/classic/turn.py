"""One decision about one classic group while it is being made: the group as it will be, and what has to be told and timed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from tidelog.coordinator.group.book import GroupChange
from tidelog.coordinator.group.classic.group import ClassicGroup, ClassicState
from tidelog.coordinator.group.classic.members import ClassicMember
from tidelog.coordinator.group.classic.timing import JoinTimer, SessionTimer, SyncTimer
from tidelog.coordinator.group.settings import GroupSettings
from tidelog.coordinator.machine import CoordinatorRecord, Decision, Moment, Reply, TimerChange, Token
from tidelog.model import ErrorCode
from tidelog.wire.definition import Response
from tidelog.wire.messages.join_group import JoinGroupResponse
from tidelog.wire.messages.sync_group import SyncGroupResponse

Kept = TypeVar("Kept")


class Turn:
    """Begins with a group as it is. Nothing happens before the decision that comes out of it is carried out."""

    def __init__(self, group: ClassicGroup, settings: GroupSettings, now: Moment) -> None:
        self.group = group
        self.settings = settings
        self.now = now
        self._before = group
        self._replies: list[Reply] = []
        self._records: list[CoordinatorRecord] = []
        self._timers: dict[SessionTimer | JoinTimer | SyncTimer, float | None] = {}

    def decision(self, *, is_told_at_once: bool = False) -> Decision:
        """What came out."""
        is_changed = self.group is not self._before
        return Decision(
            replies=tuple(self._replies),
            records=tuple(self._records),
            changes=(GroupChange(self.group.group_id, self.group),) if is_changed else (),
            timers=tuple(TimerChange(key, at_ms) for key, at_ms in self._timers.items()),
            is_told_at_once=is_told_at_once,
        )

    def reply(self, token: Token, response: Response) -> None:
        """Tell somebody."""
        self._replies.append(Reply(token, response))

    def write(self) -> None:
        """Have the group written down as it is now."""
        self._records.append(self.group.record())

    def enter(self, state: ClassicState) -> None:
        """Change the state."""
        self.group = replace(self.group, state=state, state_timestamp_ms=self.now.wall_ms)

    # Timers.

    def set_timer(self, key: SessionTimer | JoinTimer | SyncTimer, delay_ms: float) -> None:
        """Ring after a time."""
        self._timers[key] = self.now.monotonic_ms + max(delay_ms, 0)

    def stop_timer(self, key: SessionTimer | JoinTimer | SyncTimer) -> None:
        """Do not ring."""
        self._timers[key] = None

    def restart_session(self, member_id: str) -> None:
        """A member has given a sign of life, or has heard something and may take its time now."""
        timeout_ms = self.group.members[member_id].session_timeout_ms
        self.set_timer(SessionTimer(self.group.group_id, member_id), timeout_ms)

    # Members.

    def put_member(self, member: ClassicMember) -> None:
        """A member that is new, or has new words about itself."""
        self.group = replace(self.group, members=self.group.members.with_member(member))

    def park_join(self, member_id: str, token: Token) -> None:
        """Have a member wait for the next generation. If it asked before, nobody will be there to hear that answer."""
        self._supersede_join(member_id)
        self.group = replace(self.group, joins=_with(self.group.joins, member_id, token))

    def park_sync(self, member_id: str, token: Token) -> None:
        """Have a member wait for the leader. If it asked before, nobody will be there to hear that answer."""
        former = self.group.syncs.get(member_id)
        if former is not None:
            self.reply(former, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        self.group = replace(self.group, syncs=_with(self.group.syncs, member_id, token))

    def refuse_parked(self, member_id: str, code: ErrorCode, *, as_member_id: str = "") -> None:
        """Have a member wait no longer."""
        joined, synced = self.group.joins.get(member_id), self.group.syncs.get(member_id)
        if joined is not None:
            self.reply(joined, JoinGroupResponse(error_code=code, member_id=as_member_id))
            self.group = replace(self.group, joins=_without(self.group.joins, (member_id,)))
        if synced is not None:
            self.reply(synced, SyncGroupResponse(error_code=code))
            self.group = replace(self.group, syncs=_without(self.group.syncs, (member_id,)))

    def remove(self, member_ids: Iterable[str]) -> None:
        """Members, or ids that were given out, are gone; whoever of them waits is told. If the leader is, the eldest leads."""
        gone = list(member_ids)
        if not gone:
            return
        for member_id in gone:
            self.refuse_parked(member_id, ErrorCode.UNKNOWN_MEMBER_ID)
            self.stop_timer(SessionTimer(self.group.group_id, member_id))
        group = self.group
        members = group.members.without(gone)
        self.group = replace(
            group,
            members=members,
            leader=members.first_id if group.leader not in members else group.leader,
            pending=_without(group.pending, gone),
            unsynced=_without(group.unsynced, gone),
        )

    def _supersede_join(self, member_id: str) -> None:
        former = self.group.joins.get(member_id)
        if former is not None:
            self.reply(former, JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member_id))


def _with(mapping: Mapping[str, Kept], key: str, value: Kept) -> dict[str, Kept]:
    more = dict(mapping)  # Copied as a whole, which is many times faster than {**mapping} for large ones.
    more[key] = value
    return more


def _without(mapping: Mapping[str, Kept], keys: Iterable[str]) -> dict[str, Kept]:
    rest = dict(mapping)
    for key in keys:
        rest.pop(key, None)
    return rest
