"""The machine looks up who decides by the type of a request or a timer; here they get their types back."""

from __future__ import annotations

from typing import TypeVar

from tidelog.coordinator.machine import Command, TimerKey
from tidelog.model import InvariantBroken

Expected = TypeVar("Expected")


def asked(command: Command, kind: type[Expected]) -> Expected:
    """The request of a command."""
    return _expect(command.request, kind)


def rung(key: TimerKey, kind: type[Expected]) -> Expected:
    """The key of a timer that rings."""
    return _expect(key, kind)


def _expect(what: object, kind: type[Expected]) -> Expected:
    if not isinstance(what, kind):
        raise InvariantBroken(f"{kind.__name__} is decided here, not {type(what).__name__}")
    return what
