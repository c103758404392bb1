"""`tidelog sim run`: one trial before somebody's eyes, and what to do when it fails."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from tidelog.cli.failure import EXIT_FAILED, EXIT_OK, CommandFailed
from tidelog.cli.output import OutputFormat, is_coloured, paint, write_rows
from tidelog.simulation import report
from tidelog.simulation.run import Progress, run
from tidelog.simulation.shrink import Shrunk, shrink

if TYPE_CHECKING:
    from tidelog.simulation.verdict import Trial, Verdict

_ERASE: Final = "\r\x1b[K"


class Telling:
    """Tells on stderr how far a run has come: a line per phase, and on a terminal one that changes."""

    def __init__(self, out: TextIO | None) -> None:
        self._out = out
        self._is_live = out is not None and out.isatty()
        self._phase = ""

    def __call__(self, progress: Progress) -> None:
        """The run has come so far."""
        if progress.phase != self._phase:
            self._phase = progress.phase
            self.line(f"{progress.simulated_ms / 1000:8.1f} s  {progress.phase}")
        else:
            self.passing(
                f"{progress.simulated_ms / 1000:8.1f} s  {progress.acknowledged:,} records acknowledged, "
                f"{progress.injected} faults acted"
            )

    def line(self, text: str) -> None:
        """A line that stays."""
        if self._out is not None:
            self._out.write(f"{_ERASE if self._is_live else ''}{text}\n")
            self._out.flush()

    def passing(self, text: str) -> None:
        """A line that the next one takes the place of; only where somebody looks."""
        if self._out is not None and self._is_live:
            self._out.write(_ERASE + text)
            self._out.flush()


def run_one(trial: Trial, options: argparse.Namespace) -> int:
    """Run a trial, print what came of it, and save what helps to understand a failure."""
    telling = Telling(None if options.quiet else sys.stderr)
    telling.line(f"seed {trial.seed}, {trial.seconds} s of load, truncation by {trial.truncation}")
    verdict = run(trial, on_progress=telling)
    saved = _save_trace(verdict, options)
    is_json = OutputFormat(options.format) is OutputFormat.JSON
    if not is_json:
        _print(verdict, saved)
    shrunk = None
    if not verdict.is_ok and not options.no_shrink:
        shrunk = _shrink(verdict, telling, must_print=not is_json)
    if is_json:
        _print_json(verdict, saved, shrunk)
    return EXIT_OK if verdict.is_ok else EXIT_FAILED


def command_of(trial: Trial, faults: Path | None) -> str:
    """What repeats a trial whose plan, if it was given, lies in a file."""
    return trial.command(None if faults is None else str(faults))


def save(path: Path, text: str) -> Path:
    """Write a file. Raises CommandFailed."""
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise CommandFailed(f"cannot write {path}: {error.strerror}") from None
    return path


def _save_trace(verdict: Verdict, options: argparse.Namespace) -> Path | None:
    path: Path | None = options.trace
    if path is None and not verdict.is_ok:
        path = Path(report.trace_name(verdict.trial))
    if path is None:
        return None
    return save(path, report.trace_text(verdict, command_of(verdict.trial, options.faults)))


def _print(verdict: Verdict, saved: Path | None) -> None:
    out = sys.stdout
    write_rows(out, OutputFormat.TABLE, ["fault", "drawn", "injected"], report.dose_rows(verdict.doses))
    out.write(
        f"\n{verdict.acknowledged:,} records acknowledged, {verdict.read:,} read, "
        f"{verdict.simulated_ms / 1000:.1f} s simulated, {verdict.callbacks:,} callbacks\ndigest {verdict.digest}\n"
    )
    if not verdict.is_ok:
        out.write(f"\nthe trace ends with\n{report.last_lines(verdict)}\n")
    style = "green" if verdict.is_ok else "red"
    out.write(paint(report.sentence(verdict), style, wanted=is_coloured(out)) + "\n")
    if saved is not None:
        out.write(f"the whole trace is in {saved}\n")
    out.flush()


def _shrink(verdict: Verdict, telling: Telling, *, must_print: bool) -> Shrunk:
    def attempted(count: int, smallest: Verdict) -> None:
        telling.passing(f"shrinking: {count} runs, {len(smallest.plan.faults)} faults left")

    telling.line(f"shrinking the plan of {len(verdict.plan.faults)} faults")
    shrunk = shrink(verdict, run, on_attempt=attempted)
    path = save(Path(report.plan_name(verdict.trial)), shrunk.verdict.plan.to_json())
    telling.line(f"shrunk to {len(shrunk.verdict.plan.faults)} faults in {shrunk.run_count} runs")
    if must_print:
        faults = "".join(f"  {fault.sentence()}\n" for fault in shrunk.verdict.plan.faults) or "  no fault at all\n"
        sys.stdout.write(
            f"\na small plan that fails alike, in {path}:\n{faults}  {shrunk.verdict.violation}\n"
            f"repeat it: {shrunk.trial.command(str(path))}\n"
        )
    return shrunk


def _print_json(verdict: Verdict, saved: Path | None, shrunk: Shrunk | None) -> None:
    shown = verdict.to_json()
    shown["trace_file"] = None if saved is None else str(saved)
    if shrunk is not None:
        plan_file = report.plan_name(verdict.trial)
        shown["shrunk"] = {
            **shrunk.verdict.to_json(),
            "run_count": shrunk.run_count,
            "plan_file": plan_file,
            "command": shrunk.trial.command(plan_file),
        }
    sys.stdout.write(json.dumps(shown, indent=2) + "\n")
