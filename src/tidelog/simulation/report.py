"""A verdict in words: what a person reads of a run, and the one file that holds a trace whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelog.simulation.faults.doses import Doses
from tidelog.simulation.soak import Summary
from tidelog.simulation.trace import LINES_MAX
from tidelog.simulation.verdict import LEADER_EPOCH, Trial, Verdict

TRACE_LINES_SHOWN: Final = 40
_COMMENT: Final = "# "


def trace_name(trial: Trial) -> str:
    """How the file of a trace is called when nobody says."""
    return f"tidelog-sim-{trial.seed}{_variant(trial)}.trace"


def plan_name(trial: Trial) -> str:
    """How the file of a shrunk plan is called."""
    return f"tidelog-sim-{trial.seed}{_variant(trial)}.json"


def sentence(verdict: Verdict) -> str:
    """The verdict in a line."""
    if verdict.violation is not None:
        return f"seed {verdict.trial.seed} VIOLATES {verdict.violation}"
    if not verdict.is_dosed:
        return f"seed {verdict.trial.seed} is fine, but no fault acted: it proves nothing"
    return f"seed {verdict.trial.seed} is fine"


def trace_text(verdict: Verdict, command: str) -> str:
    """The whole trace as a file. Its first lines say what was run, how to repeat it and what came of it."""
    head = [
        f"seed {verdict.trial.seed}, {verdict.trial.seconds} s of load, truncation by {verdict.trial.truncation}",
        f"repeat: {command}",
        f"verdict: {sentence(verdict)}",
        f"digest: {verdict.digest}",
        "plan:",
        *verdict.plan.to_json().splitlines(),
        "columns: simulated ms since the start, node, what happened",
        *([f"only the last {LINES_MAX:,} lines"] if len(verdict.trace) >= LINES_MAX else []),
    ]
    return "".join(f"{line}\n" for line in (*(f"{_COMMENT}{line}" for line in head), *verdict.trace))


def last_lines(verdict: Verdict, *, count: int = TRACE_LINES_SHOWN) -> str:
    """The end of the trace."""
    return "".join(f"{line}\n" for line in verdict.trace[-count:])


def dose_rows(doses: Doses | Summary) -> list[Mapping[str, str | int]]:
    """How many faults of each kind stood in plans, and how many acted; all of them in the last row."""
    rows: list[Mapping[str, str | int]] = [
        {"fault": kind, "drawn": count, "injected": doses.injected.get(kind, 0)}
        for kind, count in sorted(doses.drawn.items())
    ]
    drawn, injected = sum(doses.drawn.values()), sum(doses.injected.values())
    return [*rows, {"fault": "all", "drawn": drawn, "injected": injected}]


def _variant(trial: Trial) -> str:
    return "" if trial.truncation == LEADER_EPOCH else f"-{trial.truncation}"
