"""A run of a pipeline as text: a table that is drawn over itself on a terminal, a line for a log, the last word."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tidelog.cli.moments import duration, moment
from tidelog.cli.output import paint, render_table
from tidelog.pipeline.declared import state
from tidelog.pipeline.declared.state import FlowView, RunView

FLOW_COLUMNS: Final = (
    "flow",
    "target",
    "state",
    "rows/s",
    "rows",
    "lag",
    "progress",
    "micro-batch",
    "last ms",
    "last commit",
)
_BAR_WIDTH: Final = 12
_END_OF_LINE: Final = "\x1b[K"
_REST: Final = "\x1b[J"


def page(view: RunView, *, now_ms: int, is_in_colour: bool, width: int) -> list[str]:
    """The run and its flows, a line each, cut to the width of a terminal."""
    lines = [title(view, now_ms=now_ms), *flow_lines(view, now_ms=now_ms)]
    if view.failure is not None:
        lines += [f"{view.state}: {view.failure}", f"Spark's log: {view.log}"]
    return [_painted(line[:width], is_in_colour=is_in_colour) for line in lines]


def redrawn(lines: list[str], *, above: int) -> str:
    """Lines in the place of those that were drawn before, `above` in number."""
    up = f"\x1b[{above}F" if above else ""
    return up + "".join(f"{line}{_END_OF_LINE}\n" for line in lines) + _REST


def title(view: RunView, *, now_ms: int) -> str:
    """What runs, how, where, and for how long."""
    until = view.ended_ms or now_ms
    return f"PIPELINE {view.pipeline}   {view.mode}   Spark {view.master}   {view.state}   {duration(until - view.started_ms)}"


def flow_lines(view: RunView, *, now_ms: int) -> list[str]:
    """The table of flows; none before they are known."""
    rows = [_cells(flow, now_ms) for flow in view.flows]
    return render_table(FLOW_COLUMNS, rows).splitlines() if rows else []


def line(view: RunView, *, now_ms: int) -> str:
    """All that matters on one line, for a log."""
    flows = "  ".join(
        f"{flow.name} {flow.state} {flow.rows_per_s:.0f} rows/s rows {flow.rows} lag {'-' if flow.lag is None else flow.lag}"
        for flow in view.flows
    )
    return f"{duration(now_ms - view.started_ms)}  {view.state}  {flows}".rstrip()


def last_word(view: RunView) -> str:
    """How a run ended, in a sentence."""
    rows = sum(flow.rows for flow in view.flows)
    took = duration((view.ended_ms or view.updated_ms) - view.started_ms)
    count = f"{rows:,} rows read by {len(view.flows)} flows in {took}"
    match view.state:
        case state.DONE:
            return f"done: {count}" if rows else f"done: nothing new, {count}"
        case state.STOPPED:
            return f"stopped: {count}; the next run goes on there" + (f"; {view.failure}" if view.failure else "")
        case _:
            return f"{view.failure or view.state}\n  Spark's log: {view.log}"


def bar(progress: float | None) -> str:
    """`#####------- 42%`."""
    if progress is None:
        return "-"
    filled = int(progress * _BAR_WIDTH)
    return f"{'#' * filled}{'-' * (_BAR_WIDTH - filled)} {int(progress * 100):3d}%"


def _cells(flow: FlowView, now_ms: int) -> list[str]:
    ago = None if flow.last_commit_ms is None else duration(max(0, now_ms - flow.last_commit_ms))
    return [
        flow.name,
        flow.target or "-",
        flow.state,
        f"{flow.rows_per_s:,.0f}",
        f"{flow.rows:,}",
        "-" if flow.lag is None else f"{flow.lag:,}",
        bar(flow.progress),
        "-" if flow.micro_batch_id is None else str(flow.micro_batch_id),
        "-" if flow.micro_batch_ms is None else f"{flow.micro_batch_ms:,}",
        "-" if ago is None else f"{ago} ago",
    ]


def list_row(view: RunView) -> dict[str, str | int | None]:
    """A pipeline in the list of all."""
    return {
        "pipeline": view.pipeline,
        "state": view.state,
        "mode": view.mode,
        "pid": view.process.pid if view.is_under_way else None,
        "started": moment(view.started_ms),
        "ended": moment(view.ended_ms),
        "directory": str(Path(view.spec).parent),
        "failure": view.failure,
    }


def _painted(text: str, *, is_in_colour: bool) -> str:
    if text.startswith(("PIPELINE", "FLOW ")):
        return paint(text, "bold", wanted=is_in_colour)
    return paint(text, "red", wanted=is_in_colour and text.split()[2:3] == [state.FAILED])
