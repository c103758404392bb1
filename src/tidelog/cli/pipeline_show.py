"""`tidelog pipeline list`, `status` and `stop`: for those who did not start the run, or not in this terminal."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Final

from tidelog.cli.failure import EXIT_FAILED, EXIT_OK, CommandFailed
from tidelog.cli.output import OutputFormat, is_coloured, write_rows
from tidelog.cli.pipeline_panel import last_word, list_row, page
from tidelog.pipeline.declared import state
from tidelog.pipeline.declared.looking import NotKnown, all_runs, run_at, run_meant, stop_process
from tidelog.pipeline.declared.running import STOP_WITHIN_S
from tidelog.pipeline.declared.spec import SpecRefused
from tidelog.pipeline.declared.state import RunView, StateUnreadable
from tidelog.runtime.real import RealClock

_LIST_COLUMNS: Final = ("pipeline", "state", "mode", "pid", "started", "ended", "directory")
_STOP_WITHIN_S: Final = STOP_WITHIN_S + 15.0  # the run's own bound, and a little for its last words
_WIDTH_MAX: Final = 10_000


def show_list(output_format: OutputFormat) -> int:
    """All pipelines that this user has run here."""
    views = all_runs(os.environ)
    if not views and output_format is OutputFormat.TABLE:
        sys.stderr.write("tidelog: no pipeline has run here yet; `tidelog pipeline init NAME` makes one\n")
        return EXIT_OK
    write_rows(sys.stdout, output_format, _LIST_COLUMNS, [list_row(view) for view in views])
    return EXIT_OK


def show_status(word: str, output_format: OutputFormat) -> int:
    """One pipeline; the exit code is 1 where its run failed or died."""
    view = _meant(word)
    if output_format is OutputFormat.JSON:
        sys.stdout.write(json.dumps(json.loads(view.to_json()), indent=2, ensure_ascii=False) + "\n")
    else:
        lines = page(view, now_ms=RealClock().wall_ms(), is_in_colour=is_coloured(sys.stdout), width=_WIDTH_MAX)
        sys.stdout.write("\n".join(lines) + "\n")
        if not view.is_under_way and view.failure is None:
            sys.stdout.write(last_word(view) + "\n")
    return EXIT_FAILED if view.state in {state.FAILED, state.DIED} else EXIT_OK


def stop(word: str, output_format: OutputFormat) -> int:
    """End a run in order, and say what came of it. Raises CommandFailed."""
    view = _meant(word)
    if not view.is_under_way:
        raise CommandFailed(f"the pipeline {view.pipeline} is not running; its last run: {last_word(view)}")
    try:
        is_gone = stop_process(view.process, within_s=_STOP_WITHIN_S)
    except PermissionError:
        raise CommandFailed(
            f"process {view.process.pid}, which runs the pipeline {view.pipeline}, is somebody else's"
        ) from None
    if not is_gone:
        raise CommandFailed(
            f"process {view.process.pid}, which runs the pipeline {view.pipeline}, was told to stop and is still there after "
            f"{_STOP_WITHIN_S:.0f} s; kill -9 {view.process.pid} loses nothing"
        )
    after = run_at(Path(view.storage)) or view
    if output_format is OutputFormat.JSON:
        sys.stdout.write(json.dumps(json.loads(after.to_json()), indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(f"{view.pipeline} {last_word(after)}\n")
    return EXIT_OK


def _meant(word: str) -> RunView:
    try:
        return run_meant(word, os.environ)
    except (NotKnown, SpecRefused, StateUnreadable) as failure:
        raise CommandFailed(str(failure)) from None
