"""`tidelog sim soak`: many trials side by side, a bar while they run, a summary at the end."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from tidelog.cli.failure import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from tidelog.cli.output import OutputFormat, Row, is_coloured, paint, write_rows
from tidelog.cli.sim_run import command_of, save
from tidelog.runtime.real import RealClock
from tidelog.simulation import report
from tidelog.simulation.soak import Summary, soak

if TYPE_CHECKING:
    from tidelog.runtime.clock import Clock
    from tidelog.simulation.verdict import Trial, Verdict

_ERASE: Final = "\r\x1b[K"
_BAR_WIDTH: Final = 30
_BETWEEN_LINES_MS: Final = 60_000
_TRACES_MAX: Final = 50
_SEEDS_SHOWN: Final = 8


class Bar:
    """How far a soak has come, on stderr: a bar on a terminal, a line a minute elsewhere."""

    def __init__(self, total: int, jobs: int, clock: Clock, out: TextIO | None) -> None:
        self._total = total
        self._jobs = jobs
        self._clock = clock
        self._out = out
        self._began_ms = clock.monotonic_ms()
        self._next_line_ms = self._began_ms

    @property
    def wall_ms(self) -> float:
        """How long it has taken so far."""
        return max(self._clock.monotonic_ms() - self._began_ms, 1.0)

    def speed(self, summary: Summary) -> float:
        """Simulated seconds per real second and job."""
        return summary.simulated_ms / self.wall_ms / self._jobs

    def show(self, summary: Summary) -> None:
        """Draw it again; where nobody looks, write a line after the first seed and then now and then."""
        if self._out is None:
            return
        if self._out.isatty():
            filled = _BAR_WIDTH * summary.trials // self._total
            self._out.write(f"{_ERASE}[{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] {self._words(summary)}")
        elif summary.trials and self._clock.monotonic_ms() >= self._next_line_ms:
            self._next_line_ms = self._clock.monotonic_ms() + _BETWEEN_LINES_MS
            self._out.write(f"{self._words(summary)}\n")
        self._out.flush()

    def say(self, line: str) -> None:
        """A line above the bar."""
        if self._out is not None:
            self._out.write(f"{_ERASE if self._out.isatty() else ''}{line}\n")
            self._out.flush()

    def end(self) -> None:
        """Take the bar away."""
        if self._out is not None and self._out.isatty():
            self._out.write(_ERASE)
            self._out.flush()

    def _words(self, summary: Summary) -> str:
        left_s = self.wall_ms / 1000 / max(summary.trials, 1) * (self._total - summary.trials)
        return (
            f"{summary.trials} of {self._total} seeds, {summary.violation_count} violations, "
            f"{self.speed(summary):.1f} simulated s/s, {_clock_time(left_s)} left"
        )


def run_many(trials: Iterable[Trial], options: argparse.Namespace) -> int:
    """Run trials until all are done, the first has failed if so wanted, or Ctrl-C; then say what came of them."""
    clock = RealClock()
    summary = Summary()
    jobs = min(options.jobs, len(options.seeds))
    bar = Bar(len(options.seeds), jobs, clock, None if options.quiet else sys.stderr)
    is_interrupted = False
    bar.show(summary)
    try:
        with closing(soak(trials, jobs=jobs, clock=clock)) as verdicts:
            for verdict in verdicts:
                summary.add(verdict)
                if not verdict.is_ok:
                    bar.say(_keep(verdict, summary, options))
                bar.show(summary)
                if options.stop_at_first and not summary.is_ok:
                    break
    except KeyboardInterrupt:
        is_interrupted = True
    bar.end()
    _print(summary, bar, options)
    if not summary.is_ok:
        return EXIT_FAILED
    return EXIT_INTERRUPTED if is_interrupted else EXIT_OK


def _keep(verdict: Verdict, summary: Summary, options: argparse.Namespace) -> str:
    """Save the trace of a failed trial; what to say of it."""
    said = report.sentence(verdict)
    if summary.violation_count > _TRACES_MAX or not verdict.trace:
        return said
    directory: Path = options.traces
    text = report.trace_text(verdict, command_of(verdict.trial, options.faults))
    return f"{said}; the trace is in {save(directory / report.trace_name(verdict.trial), text)}"


def _print(summary: Summary, bar: Bar, options: argparse.Namespace) -> None:
    if OutputFormat(options.format) is OutputFormat.JSON:
        sys.stdout.write(json.dumps(_as_json(summary, bar, options), indent=2) + "\n")
        return
    out = sys.stdout
    facts = {
        "seeds run": f"{summary.trials:,} of {len(options.seeds):,}",
        "injected nothing, do not count": f"{summary.undosed:,}",
        "violations": f"{summary.violation_count:,}",
        "records acknowledged": f"{summary.acknowledged:,}",
        "records read": f"{summary.read:,}",
        "simulated": f"{summary.simulated_ms / 1000:,.0f} s in {bar.wall_ms / 1000:,.0f} s",
        "speed": f"{bar.speed(summary):.1f} simulated s per s and core",
    }
    width = max(map(len, facts))
    write_rows(out, OutputFormat.TABLE, ["fault", "drawn", "injected"], report.dose_rows(summary))
    out.write("\n" + "".join(f"{name:<{width}}  {value}\n" for name, value in facts.items()))
    if summary.is_ok:
        counted = summary.trials - summary.undosed
        out.write(paint(f"\n0 violations in {counted:,} seeds\n", "green", wanted=is_coloured(out)))
        return
    out.write("\n")
    rows: list[Row] = [
        {
            "checker": checker,
            "violations": len(seeds),
            "first_seed": seeds[0],
            "seeds": [*map(str, seeds[:_SEEDS_SHOWN]), *(["..."] if len(seeds) > _SEEDS_SHOWN else [])],
        }
        for checker, seeds in summary.by_checker()
    ]
    write_rows(out, OutputFormat.TABLE, ["checker", "violations", "first_seed", "seeds"], rows)
    out.write(f"\nlook closer: {_first_command(summary, options)}\n")


def _first_command(summary: Summary, options: argparse.Namespace) -> str:
    from tidelog.simulation.verdict import Trial

    seed = min(seeds[0] for _, seeds in summary.by_checker())
    return command_of(Trial(seed=seed, seconds=options.seconds, truncation=options.truncation), options.faults)


def _as_json(summary: Summary, bar: Bar, options: argparse.Namespace) -> dict[str, object]:
    return {
        "seeds": len(options.seeds),
        "seeds_run": summary.trials,
        "seeds_injected_nothing": summary.undosed,
        "violations": [
            {"checker": checker, "first_seed": seeds[0], "seeds": seeds} for checker, seeds in summary.by_checker()
        ],
        "doses": report.dose_rows(summary),
        "acknowledged": summary.acknowledged,
        "read": summary.read,
        "simulated_s": round(summary.simulated_ms / 1000, 3),
        "wall_s": round(bar.wall_ms / 1000, 3),
        "simulated_s_per_s_and_core": round(bar.speed(summary), 2),
    }


def _clock_time(seconds: float) -> str:
    return f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}"
