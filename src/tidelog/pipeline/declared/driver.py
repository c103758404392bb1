"""The process in which Spark runs a pipeline: `python -m tidelog.pipeline.declared.driver PLAN`.

A program of its own, so that what Spark prints goes to a log, that its end, however it comes, is noticed by somebody, and that a terminal's
Ctrl-C does not reach it before its parent has decided what that means. Its output is a pipe of events (telling.py).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Final

from tidelog.pipeline.declared import connect
from tidelog.pipeline.declared.definitions import DefinitionFailed, mentions_tables
from tidelog.pipeline.declared.places import Places
from tidelog.pipeline.declared.plan import CONTINUOUS, RunPlan
from tidelog.pipeline.declared.recorder import DefinitionRefused
from tidelog.pipeline.declared.run_failed import RunFailed
from tidelog.pipeline.declared.spec import Spec, SpecRefused, definition_files, read_spec
from tidelog.pipeline.declared.telling import Teller
from tidelog.pipeline.declared.troubles import plain_reason
from tidelog.pipeline.java import NoJava

BOOTSTRAP_VARIABLE: Final = "TIDELOG_BOOTSTRAP"
_END_WITHIN_S: Final = 20.0
_LOOK_AGAIN_S: Final = 0.5
_SPARKS_SHUTDOWN_CODE: Final = 1


def main(text: str) -> int:
    """Run a plan until its end, or until SIGTERM; the exit code."""
    teller = Teller(_own_output())
    plan = RunPlan.from_json(text)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    if plan.bootstrap is not None:
        os.environ[BOOTSTRAP_VARIABLE] = plan.bootstrap
    try:
        return _run(plan, teller, stopping)
    except (SpecRefused, NoJava, RunFailed) as failure:
        teller.failed(str(failure))
        return 1


def _run(plan: RunPlan, teller: Teller, stopping: threading.Event) -> int:
    """Start Spark, run, and tell how it ended before Spark is stopped, which may take longer than anybody waits."""
    spec = read_spec(Path(plan.spec))
    files = definition_files(spec)
    sessions = _started(plan, spec, files)
    is_ending = threading.Event()
    threading.Thread(target=_watch_jvm, args=(sessions, teller, is_ending), daemon=True).start()
    try:
        if not stopping.is_set():
            _run_in(sessions, plan, spec, files, teller, stopping)
        teller.ended()
    except (DefinitionFailed, DefinitionRefused, RunFailed) as failure:
        teller.failed(str(failure))
        return 1
    finally:
        is_ending.set()
        _end_soon(teller)
        sessions.stop()
    return 0


def _watch_jvm(sessions: connect.Sessions, teller: Teller, is_ending: threading.Event) -> None:
    """End with Spark. A session of Connect would ask for ten minutes whether anybody is there."""
    while not is_ending.wait(_LOOK_AGAIN_S):
        if (code := sessions.jvm_ended()) is not None:
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            teller.failed(f"Spark's JVM {how}; nothing is lost: run it again")
            os._exit(_SPARKS_SHUTDOWN_CODE)


def _run_in(  # each is one thing that a run is given
    sessions: connect.Sessions,
    plan: RunPlan,
    spec: Spec,
    files: list[Path],
    teller: Teller,
    stopping: threading.Event,
) -> None:
    if plan.mode == CONTINUOUS:
        from tidelog.pipeline.declared.continuous import run_continuous

        run_continuous(sessions, plan, spec, files, teller, stopping)
    else:
        from tidelog.pipeline.declared.triggered import run_triggered

        run_triggered(sessions, plan, spec, files, teller, stopping)


def _started(plan: RunPlan, spec: Spec, files: list[Path]) -> connect.Sessions:
    given = {**spec.configuration, **plan.settings}
    settings = connect.spark_settings(Places(spec.storage), given, needs_catalog=mentions_tables(files))
    try:
        return connect.start(f"tidelog pipeline {spec.name}", master=plan.master, settings=settings)
    except NoJava:
        raise
    except Exception as error:  # whatever Spark raises, it is the end, and the log has all of it
        import traceback

        traceback.print_exc()
        raise RunFailed(f"Spark did not start on {plan.master}: {plain_reason(str(error))}") from error


def _end_soon(teller: Teller) -> None:
    """Spark may take its time to stop, or never get there; what it had to do is done or checkpointed."""

    def give_up() -> None:
        teller.note("Spark did not stop in time, and was left behind")
        os._exit(_SPARKS_SHUTDOWN_CODE)

    timer = threading.Timer(_END_WITHIN_S, give_up)
    timer.daemon = True
    timer.start()


def _own_output() -> int:
    """Our output for ourselves; whatever else this process and its children print goes where errors go, to the log."""
    own = os.dup(sys.stdout.fileno())
    os.set_inheritable(own, False)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return own


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
