"""What is waited for in a consumer group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class MemberTimer:
    """Something that one member has to do in time, or else it is removed."""

    group_id: str
    member_id: str


class SessionTimer(MemberTimer):
    """Give a sign of life."""

    __slots__ = ()


class RevocationTimer(MemberTimer):
    """Give up what its target takes from it: its rebalance timeout."""

    __slots__ = ()


class RejoinTimer(MemberTimer):
    """Rejoin after it was told to: a member of the classic protocol."""

    __slots__ = ()


class SyncTimer(MemberTimer):
    """Ask for its part after it has joined: a member of the classic protocol."""

    __slots__ = ()


TIMERS: Final[tuple[type[MemberTimer], ...]] = (SessionTimer, RevocationTimer, RejoinTimer, SyncTimer)
