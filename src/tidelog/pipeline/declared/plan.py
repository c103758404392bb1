"""All that the driver of a run is told."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final, Self

TRIGGERED: Final = "triggered"
CONTINUOUS: Final = "continuous"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """What to run, how, and where."""

    spec: str  # path of the file
    mode: str = TRIGGERED
    master: str = "local[2]"
    settings: Mapping[str, str] = field(default_factory=dict)  # of the command line; they win over those of the spec
    refreshes_all: bool = False
    refreshed: tuple[str, ...] = ()  # sinks and tables to begin anew
    bootstrap: str | None = None  # for definition files, as TIDELOG_BOOTSTRAP

    def to_json(self) -> str:
        """One argument of a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What `to_json` wrote."""
        found = json.loads(text)
        return cls(**{**found, "refreshed": tuple(found["refreshed"])})

    @property
    def command(self) -> tuple[str, ...]:
        """What starts a driver with this plan."""
        return (sys.executable, "-m", "tidelog.pipeline.declared.driver", self.to_json())
