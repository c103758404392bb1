"""Which pipeline is meant, how it is, and ending it: for those who did not start it."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tidelog.pipeline.declared import state
from tidelog.pipeline.declared.known import known_pipelines
from tidelog.pipeline.declared.places import Places, state_dir
from tidelog.pipeline.declared.process_identity import ProcessIdentity
from tidelog.pipeline.declared.spec import find_spec, read_spec
from tidelog.pipeline.declared.state import RunView, StateUnreadable, read_state


class NotKnown(Exception):
    """No pipeline is meant by a word, or more than one; the message says which there are."""


def all_runs(environment: Mapping[str, str]) -> list[RunView]:
    """The last run of every pipeline that this user has run here, those under way first, then the latest."""
    views = []
    for known in known_pipelines(state_dir(environment)):
        try:
            view = run_at(Path(known.storage))
        except StateUnreadable:
            continue
        if view is not None:
            views.append(view)
    return sorted(views, key=lambda view: (not view.is_under_way, -view.started_ms))


def run_at(storage: Path) -> RunView | None:
    """The run under way in a storage, or the last one; None where there was none. Raises StateUnreadable."""
    view = read_state(Places(storage).state)
    if view is not None and view.is_under_way and not view.process.is_alive():
        return replace(view, state=state.DIED, failure="its process was killed, or the machine restarted; run it again")
    return view


def run_meant(word: str, environment: Mapping[str, str]) -> RunView:
    """The run that a name, a directory or a spec means. Raises NotKnown, SpecRefused and StateUnreadable."""
    named = [view for view in all_runs(environment) if view.pipeline == word]
    if len(named) == 1:
        return named[0]
    if len(named) > 1:
        raise NotKnown(f"{word} is the name of {len(named)} pipelines; name the directory: {_listed(named)}")
    if not Path(word).exists():
        known = [view.pipeline for view in all_runs(environment)]
        there_are = f"known are {', '.join(sorted(set(known)))}" if known else "none has run here yet"
        raise NotKnown(f"{word} is neither the name of a pipeline nor a directory with one; {there_are}")
    spec = read_spec(find_spec(Path(word)))
    view = run_at(spec.storage)
    if view is None:
        raise NotKnown(f"the pipeline {spec.name} has not run yet (its storage is {spec.storage})")
    return view


def stop_process(process: ProcessIdentity, *, within_s: float) -> bool:
    """SIGTERM for this very process, and wait for its end; whether it came in time. Nobody else is ever signalled."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:
        if not process.is_alive():  # asked after the descriptor was opened: from here on it cannot become another
            return True
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        return bool(select.select([descriptor], [], [], within_s)[0])
    except ProcessLookupError:
        return True
    finally:
        os.close(descriptor)


def _listed(views: list[RunView]) -> str:
    return ", ".join(str(Path(view.spec).parent) for view in views)
