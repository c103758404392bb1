"""What each part of the group machine brings along, so that `machine.py` only has to look things up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol, TypeAlias

from tidelog.coordinator.machine import Command, CoordinatorRecord, Decision, Moment, TimerKey, Written
from tidelog.model import ErrorCode, Offset, ProducerId
from tidelog.wire.definition import Request, Response

Decider: TypeAlias = Callable[[Command, Moment], Decision]
Replayer: TypeAlias = Callable[[CoordinatorRecord, Written], None]
OnTimer: TypeAlias = Callable[[TimerKey, Moment], Decision]
Refuser: TypeAlias = Callable[[Command, ErrorCode], Response]

LOOKS_AT_ONCE: Final = 1_000
"""Groups without anything to do that are passed over in one piece of `on_loaded`."""


class Area(Protocol):
    """Some requests, the records they write, and the timers they set."""

    @property
    def deciders(self) -> Mapping[type[Request[Any]], Decider]:
        """Who decides, by the type of the request."""
        ...

    @property
    def refusers(self) -> Mapping[type[Request[Any]], Refuser]:
        """How the same requests are refused; for the same types as `deciders`."""
        ...

    @property
    def replayers(self) -> Mapping[int, Replayer]:
        """Who takes over records, by the version with which their keys begin."""
        ...

    @property
    def timers(self) -> Mapping[type, OnTimer]:
        """Whose timer it is, by the type of its key."""
        ...

    def on_loaded(self, now: Moment) -> Iterator[Decision]:
        """As for the machine."""
        ...

    def on_topics_changed(self, now: Moment) -> Decision:
        """As for the machine."""
        ...

    def end_transaction(self, producer_id: ProducerId, *, is_committed: bool, offset: Offset) -> None:
        """As for the machine; areas without transactions do nothing."""
        ...
