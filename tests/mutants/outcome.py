"""What one seed came to, as it travels from the process that ran it to the one that judges it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final

READY: Final = "ready"
"""What a process says when it has imported the sources."""
NOBODY: Final = "nobody"
"""Who speaks of a seed that came to no verdict."""
_NO_CHECKERS: Final = (NOBODY, "a task died", "the simulator itself")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`checker` is empty where nothing was broken; `acknowledged` counts the records that clients were promised until then."""

    seed: int
    checker: str
    sentence: str
    acknowledged: int

    @property
    def is_broken(self) -> bool:
        """Whether the run failed, for whatever reason."""
        return bool(self.checker)

    @property
    def is_judged(self) -> bool:
        """Whether a checker broke it, under load: sources that cannot even serve were caught by nobody."""
        return self.is_broken and not self.checker.startswith(_NO_CHECKERS) and self.acknowledged > 0

    def to_json(self) -> dict[str, str | int]:
        """For the line it travels in."""
        return asdict(self)


def decode(line: str) -> Outcome:
    """The outcome in a line."""
    return Outcome(**json.loads(line))
