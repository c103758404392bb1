"""What a run tells of itself: values, written to a file as a whole, and read by whoever asks for the status."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final

from tidelog.pipeline.declared.process_identity import ProcessIdentity

STARTING: Final = "starting"
RUNNING: Final = "running"
STOPPING: Final = "stopping"
DONE: Final = "done"
FAILED: Final = "failed"
STOPPED: Final = "stopped"
DIED: Final = "died"
"""Told by nobody: found out of a run that is under way by its file, and whose process is no more."""

WAITING: Final = "waiting"  # of a flow: it waits for those it reads from, or for its start
SKIPPED: Final = "skipped"  # of a flow: one that it reads from failed, or it was left out
UNDER_WAY: Final = frozenset({STARTING, RUNNING, STOPPING})


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowView:
    """One flow at one moment."""

    name: str
    target: str | None = None
    state: str = WAITING
    rows: int = 0  # that this run read
    rows_per_s: float = 0.0
    lag: int | None = None  # records that wait in the topics; None where the source does not tell
    progress: float | None = None  # how much of what it found to do is done, 0 to 1
    micro_batch_id: int | None = None
    micro_batch_ms: int | None = None
    last_commit_ms: int | None = None  # when the last micro-batch with rows was committed, by the wall clock
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """One run at one moment; after its end, how it ended."""

    pipeline: str
    spec: str
    storage: str
    mode: str
    master: str
    process: ProcessIdentity
    state: str
    started_ms: int
    updated_ms: int
    log: str
    ended_ms: int | None = None
    failure: str | None = None
    flows: tuple[FlowView, ...] = ()

    @property
    def is_under_way(self) -> bool:
        """Whether it says that it runs."""
        return self.state in UNDER_WAY

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self), ensure_ascii=False)


class StateUnreadable(Exception):
    """A state file is not one that this version wrote."""


def write_state(path: Path, view: RunView) -> None:
    """Put a state in the place of the one before: readers see either, and never half of one."""
    write_whole(path, view.to_json() + "\n")


def write_whole(path: Path, text: str) -> None:
    """Write a file under another name, and give it its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_state(path: Path) -> RunView | None:
    """The state in a file; None where there is none. Raises StateUnreadable."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise StateUnreadable(f"{path} cannot be read: {error}") from None
    try:
        return state_of(json.loads(text))
    except (ValueError, TypeError, KeyError) as error:
        raise StateUnreadable(f"{path} is not the state of a pipeline: {error}") from None


def state_of(found: dict[str, object]) -> RunView:
    """A state of what JSON says of it; fields that a later version added are left out."""
    known = {name: found[name] for name in _names(RunView) if name in found}
    process, flows = known.pop("process"), known.pop("flows", ())
    if not isinstance(process, dict) or not isinstance(flows, list | tuple):
        raise TypeError("process and flows are missing")  # both are of the file, not of the caller
    return RunView(
        process=ProcessIdentity(**process),
        flows=tuple(FlowView(**{name: flow[name] for name in _names(FlowView) if name in flow}) for flow in flows),
        **known,  # type: ignore[arg-type]  # what the file says; a field that is missing raises
    )


def _names(kind: type[RunView] | type[FlowView]) -> list[str]:
    return [field.name for field in fields(kind)]
