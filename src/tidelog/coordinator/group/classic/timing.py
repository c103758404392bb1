"""What is waited for in a classic group, and the names of the timers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidelog.coordinator.group.classic.group import ClassicGroup
from tidelog.coordinator.machine import Moment, TimerChange

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1_000
"""How long somebody new may wait in a join: it cannot send heartbeats, and may have gone and tried again under another id."""


@dataclass(frozen=True, slots=True)
class SessionTimer:
    """A member has to give a sign of life, or somebody who was given an id has to join with it."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class JoinTimer:
    """Whoever wants to be in the next generation has to join."""

    group_id: str


@dataclass(frozen=True, slots=True)
class SyncTimer:
    """Whoever is in the new generation has to ask for its part."""

    group_id: str


def session_restart(group: ClassicGroup, member_id: str, now: Moment) -> TimerChange:
    """A member has given a sign of life: a heartbeat, a commit of offsets."""
    timeout_ms = group.members[member_id].session_timeout_ms
    return TimerChange(SessionTimer(group.group_id, member_id), now.monotonic_ms + timeout_ms)
