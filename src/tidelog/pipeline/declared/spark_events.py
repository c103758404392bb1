"""The events of a triggered run, as Spark's runner words them, and what each says of a flow. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tidelog.pipeline.declared import state
from tidelog.pipeline.declared.troubles import plain_reason

_FLOW: Final = re.compile(r"\AFlow '?(?P<name>[^'\n]+?)'? (?:is |has |SKIPPED)(?P<rest>.*)\Z", re.DOTALL)
_ERROR: Final = re.compile(r"\n\s*\|?\s*Error: (?P<error>.*)\Z", re.DOTALL)
_RUN_FAILED: Final = re.compile(r"\ARun (?:is FAILED|FAILED)", re.DOTALL)
_STATES: Final = (
    ("QUEUED", state.WAITING),
    ("PLANNING", state.WAITING),
    ("STARTING", state.WAITING),
    ("RUNNING", state.RUNNING),
    ("COMPLETED", state.DONE),
    ("FAILED", state.FAILED),
    ("STOPPED", state.STOPPED),
    ("EXCLUDED", state.SKIPPED),
    ("IDLE", state.DONE),
    ("been processed", state.DONE),
    ("failed to stop", state.STOPPED),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowEvent:
    """A flow is in another state."""

    name: str  # as Spark calls it
    state: str
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailure:
    """The whole run has failed."""

    reason: str


def understood(message: str) -> FlowEvent | RunFailure | None:
    """What a message says; None where it says nothing of flows, nor of a failure."""
    head, error = _divided(message)
    if _RUN_FAILED.match(head):
        return RunFailure(reason=plain_reason(error) if error else head.removeprefix("Run is FAILED since ").strip())
    found = _FLOW.match(head)
    if found is None:
        return None
    if head.partition(found["name"])[2].lstrip("' ").startswith("SKIPPED"):
        return FlowEvent(name=found["name"], state=state.SKIPPED, reason="one that it reads from failed")
    for word, meant in _STATES:
        if found["rest"].lstrip().startswith(word):
            reason = plain_reason(error) if meant == state.FAILED and error else None
            return FlowEvent(name=found["name"], state=meant, reason=reason)
    return None


def _divided(message: str) -> tuple[str, str | None]:
    found = _ERROR.search(message)
    return (message, None) if found is None else (message[: found.start()], found["error"])
