"""How the flows of a run get on, put together from what its driver tells, event by event."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tidelog.pipeline.declared import state
from tidelog.pipeline.declared.state import FlowView

FLOWS: Final = "flows"
FLOW: Final = "flow"
PROGRESS: Final = "progress"
READY: Final = "ready"
NOTE: Final = "note"
FAILED: Final = "failed"
ENDED: Final = "ended"
"""The events of a driver."""

_RATE_OVER_MS: Final = 10_000.0
_FLOWS_MAX: Final = 1_000
_ENDS: Final = {state.DONE, state.FAILED, state.STOPPED, state.SKIPPED}


@dataclass(slots=True)
class _Flow:
    name: str
    target: str | None = None
    state: str = state.WAITING
    rows: int = 0
    read: int = 0
    lag: int | None = None
    micro_batch_id: int | None = None
    micro_batch_ms: int | None = None
    last_commit_ms: int | None = None
    failure: str | None = None
    recent: deque[tuple[float, int]] = field(default_factory=deque)  # when, and how many rows

    def on_progress(self, event: Mapping[str, object], now_ms: float) -> None:
        rows = _whole(event.get("rows"))
        self.rows += rows
        self.recent.append((now_ms, rows))
        self.micro_batch_id = _whole(event.get("micro_batch_id"))
        self.micro_batch_ms = _whole(event.get("duration_ms"))
        if rows:
            self.last_commit_ms = _whole(event.get("at_ms"))
        if isinstance(lag := event.get("lag"), int):
            self.lag = lag
            self.read += _whole(event.get("read"))
        if self.state == state.WAITING:
            self.state = state.RUNNING

    def rows_per_s(self, now_ms: float, since_ms: float) -> float:
        """Rows of the last seconds by the second, or of the time since the run began to work where that is shorter."""
        while self.recent and self.recent[0][0] < now_ms - _RATE_OVER_MS:
            self.recent.popleft()
        over_ms = min(_RATE_OVER_MS, max(1_000.0, now_ms - since_ms))
        return sum(rows for _, rows in self.recent) * 1000 / over_ms

    def view(self, now_ms: float, since_ms: float) -> FlowView:
        is_over = self.state in _ENDS
        return FlowView(
            name=self.name,
            target=self.target,
            state=self.state,
            rows=self.rows,
            rows_per_s=0.0 if is_over else round(self.rows_per_s(now_ms, since_ms), 1),
            lag=self.lag,
            progress=self._progress(),
            micro_batch_id=self.micro_batch_id,
            micro_batch_ms=self.micro_batch_ms,
            last_commit_ms=self.last_commit_ms,
            failure=self.failure,
        )

    def _progress(self) -> float | None:
        if self.state == state.DONE:
            return 1.0
        if self.lag is None:
            return None
        return round(self.read / (self.read + self.lag), 4) if self.read + self.lag else 1.0


class Board:
    """The flows by name, in the order in which they were declared."""

    def __init__(self) -> None:
        self._flows: dict[str, _Flow] = {}
        self._since_ms: float | None = None

    def on_event(self, event: Mapping[str, object], now_ms: float) -> None:
        """A driver has told something of flows; `now_ms` is monotonic. What it tells of other things is passed over."""
        match event.get("event"):
            case "flows":
                for each in _dicts(event.get("flows")):
                    self._flow(str(each.get("name"))).target = _text(each.get("target"))
            case "progress":
                self._since_ms = now_ms if self._since_ms is None else self._since_ms
                self._flow(str(event.get("flow"))).on_progress(event, now_ms)
            case "flow":
                flow = self._flow(str(event.get("flow")))
                flow.state = str(event.get("state"))
                flow.failure = _text(event.get("reason")) or (flow.failure if flow.state == state.FAILED else None)
            case _:
                return

    def begin_again(self) -> None:
        """The driver is started once more: all flows wait again."""
        for flow in self._flows.values():
            flow.state, flow.failure = state.WAITING, None

    def end(self, outcome: str) -> None:
        """The run has ended: what still ran has been stopped, or failed with it."""
        for flow in self._flows.values():
            if flow.state == state.RUNNING:
                flow.state = outcome
            elif flow.state == state.WAITING:
                flow.state = state.SKIPPED if outcome != state.DONE else state.DONE

    def views(self, now_ms: float) -> tuple[FlowView, ...]:
        """All flows now."""
        since_ms = now_ms if self._since_ms is None else self._since_ms
        return tuple(flow.view(now_ms, since_ms) for flow in self._flows.values())

    def _flow(self, name: str) -> _Flow:
        if name not in self._flows and len(self._flows) >= _FLOWS_MAX:
            return _Flow(name)  # more than anybody would read
        return self._flows.setdefault(name, _Flow(name))


def _dicts(value: object) -> list[Mapping[str, object]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
