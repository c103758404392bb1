"""`tidelog pipeline run`: a run before somebody's eyes, or for a log, or for a program."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import signal
import sys
from typing import Final

from tidelog.cli.failure import EXIT_FAILED, EXIT_OK, CommandFailed, WrongUsage
from tidelog.cli.loops import run
from tidelog.cli.output import OutputFormat, is_coloured
from tidelog.cli.pipeline_panel import last_word, line, page, redrawn
from tidelog.pipeline.declared import state
from tidelog.pipeline.declared.lock import PipelineHeld, PipelineLock
from tidelog.pipeline.declared.looking import run_at
from tidelog.pipeline.declared.places import Places
from tidelog.pipeline.declared.plan import CONTINUOUS, TRIGGERED, RunPlan
from tidelog.pipeline.declared.running import Audience, PipelineRun
from tidelog.pipeline.declared.spec import Spec, SpecRefused, definition_files, find_spec, read_spec
from tidelog.pipeline.declared.state import RunView, StateUnreadable
from tidelog.runtime.clock import Clock
from tidelog.runtime.real import real_runtime

_LINE_EVERY_MS: Final = 5_000
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class RunDisplay:
    """Shows a run: a table on a terminal, a line now and then elsewhere, JSON for programs; what happens in between as sentences."""

    def __init__(self, output_format: OutputFormat, clock: Clock, *, is_quiet: bool) -> None:
        self._is_json = output_format is OutputFormat.JSON
        self._is_live = sys.stdout.isatty() and not self._is_json and not is_quiet
        self._is_quiet = is_quiet
        self._clock = clock
        self._drawn = 0
        self._next_line_ms = 0

    def note(self, text: str) -> None:
        """A sentence; the table is drawn anew below it."""
        self._drawn = 0
        if not self._is_quiet:
            sys.stderr.write(f"tidelog: {text}\n")
            sys.stderr.flush()

    def show(self, view: RunView) -> None:
        """How it is now."""
        now_ms = self._clock.wall_ms()
        if self._is_json:
            sys.stdout.write(view.to_json() + "\n")
        elif self._is_live:
            width = shutil.get_terminal_size().columns
            lines = page(view, now_ms=now_ms, is_in_colour=is_coloured(sys.stdout), width=width)
            sys.stdout.write(redrawn(lines, above=self._drawn))
            self._drawn = len(lines)
        elif now_ms >= self._next_line_ms and not self._is_quiet:
            self._next_line_ms = now_ms + _LINE_EVERY_MS
            sys.stderr.write(line(view, now_ms=now_ms) + "\n")
            sys.stderr.flush()
        sys.stdout.flush()


def run_pipeline(options: argparse.Namespace) -> int:
    """Run to the end, or to a signal; the exit code. Raises CommandFailed."""
    spec = _spec(options)
    plan = _plan(options, spec)
    runtime = real_runtime()
    display = RunDisplay(OutputFormat(options.format), runtime.clock, is_quiet=options.quiet)
    try:
        with _locked(spec):
            run_of = PipelineRun(plan, spec, runtime.clock, Audience(show=display.show, note=display.note))
            view = run(_until_end(run_of, display))
    except OSError as error:
        raise CommandFailed(f"the storage {spec.storage} of the pipeline {spec.name} cannot be used: {error}") from None
    finally:
        runtime.disk.close()
    return _concluded(view, OutputFormat(options.format))


def _spec(options: argparse.Namespace) -> Spec:
    try:
        spec = read_spec(find_spec(options.place))
        definition_files(spec)
    except SpecRefused as refused:
        raise WrongUsage(str(refused)) from None
    return spec


def _plan(options: argparse.Namespace, spec: Spec) -> RunPlan:
    names = [name.strip() for name in (options.full_refresh or "").split(",") if name.strip()]
    return RunPlan(
        spec=str(spec.path),
        mode=CONTINUOUS if options.continuous else TRIGGERED,
        master=options.master,
        settings=dict(options.settings),
        refreshes_all=options.full_refresh is not None and not names,
        refreshed=tuple(names),
        bootstrap=options.bootstrap_server,
    )


def _locked(spec: Spec) -> PipelineLock:
    places = Places(spec.storage)
    try:
        return PipelineLock.acquire(places.lock)
    except PipelineHeld:
        raise CommandFailed(_held(spec)) from None


def _held(spec: Spec) -> str:
    """Who runs it."""
    try:
        view = run_at(spec.storage)
    except StateUnreadable:
        view = None
    who = f" (process {view.process.pid}, {view.mode})" if view is not None and view.is_under_way else ""
    where = spec.directory
    return (
        f"the pipeline {spec.name} is being run already{who}; "
        f"see it: tidelog pipeline status {where}, end it: tidelog pipeline stop {where}"
    )


async def _until_end(run_of: PipelineRun, display: RunDisplay) -> RunView:
    """Signals end it in order; the next one does not wait."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(run_of.run())

    def on_signal() -> None:
        if run_of.is_stopping:
            task.cancel()
            return
        display.note("stopping; a second Ctrl-C does not wait")
        run_of.stop()

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        await asyncio.wait({task})
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
    return run_of.view if task.cancelled() else task.result()


def _concluded(view: RunView, output_format: OutputFormat) -> int:
    is_fine = view.state in {state.DONE, state.STOPPED} and view.failure is None
    if view.state == state.FAILED:
        raise CommandFailed(f"the pipeline {view.pipeline} failed: {last_word(view)}")
    if output_format is OutputFormat.TABLE:
        sys.stdout.write(f"{last_word(view)}\n")
    return EXIT_OK if is_fine else EXIT_FAILED
