"""Where things lie below the storage of a pipeline: what is Spark's, and what is ours beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_OURS: Final = "_tidelog"
_CHECKPOINTS: Final = (
    "_checkpoints"  # Spark's own word: <storage>/_checkpoints/<parts of the target's name>/<flow>/<version>
)


@dataclass(frozen=True, slots=True)
class Places:
    """The files of a pipeline, by what they are for."""

    storage: Path

    @property
    def ours(self) -> Path:
        """All that is not Spark's."""
        return self.storage / _OURS

    @property
    def lock(self) -> Path:
        """Held by the run that has the pipeline."""
        return self.ours / "lock"

    @property
    def state(self) -> Path:
        """How the run gets on, or how the last one ended."""
        return self.ours / "state.json"

    @property
    def log(self) -> Path:
        """What Spark says in this run, and what definition files print."""
        return self.ours / "spark.log"

    @property
    def earlier_log(self) -> Path:
        """The log of the run before."""
        return self.ours / "spark.log.1"

    @property
    def catalog(self) -> Path:
        """The names of tables: a Derby database."""
        return self.ours / "catalog"

    @property
    def tables(self) -> Path:
        """The rows of tables."""
        return self.storage / "tables"

    @property
    def scratch(self) -> Path:
        """Spark's shuffles; worthless after a run."""
        return self.ours / "spark-local"

    def checkpoints(self, target: Sequence[str], flow: str) -> Path:
        """Every checkpoint that a flow has had, one directory each, numbered: a full refresh begins another."""
        return self.storage.joinpath(_CHECKPOINTS, *target, flow)


def latest_checkpoint(versions: Path) -> Path:
    """The checkpoint that a run goes on with: the one with the highest number, or the first there will be."""
    try:
        numbers = [int(each.name) for each in versions.iterdir() if each.name.isdecimal()]
    except FileNotFoundError:
        numbers = []
    return versions / str(max(numbers, default=0))


def next_checkpoint(versions: Path) -> Path:
    """The one that a full refresh begins with, of which there is an earlier one."""
    return versions / str(int(latest_checkpoint(versions).name) + 1)


def state_dir(environment: Mapping[str, str]) -> Path:
    """Where a user's programs remember things between runs: $XDG_STATE_HOME/tidelog, or ~/.local/state/tidelog."""
    base = environment.get("XDG_STATE_HOME") or f"{environment.get('HOME') or f'/var/tmp/{os.getuid()}'}/.local/state"  # noqa: S108
    return Path(base) / "tidelog"
