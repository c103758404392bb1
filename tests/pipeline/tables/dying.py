"""Commits that die at a named point, in this process: what comes after it does not happen, and a new run has to cope."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest

from tidelog.pipeline.tables.committing import TableCommit
from tidelog.pipeline.tables.parquet_table import ParquetTable, ParquetView

COMMIT_STEPS: Final = ("look", "is_decided", "gather", "publish", "clean_up", "compact")
PARQUET_STEPS: Final = {"decide": ParquetView, "move": ParquetTable, "finish": ParquetTable}

_BETWEEN: Final = tuple(f"{when} {step}" for step in COMMIT_STEPS for when in ("before", "after"))
_IN_PARQUET: Final = (
    "before decide",
    "after decide",
    "before move",
    "after move",
    "before move 2",
    "after move 2",
    "before finish",
    "after finish",
)
POINTS: Final = {"parquet": (*_BETWEEN, *_IN_PARQUET), "delta": _BETWEEN, "iceberg": _BETWEEN}
"""Where a driver can die. The names of those of a step's second time end with 2."""


class Died(BaseException):
    """Nobody catches it, as nobody catches SIGKILL."""


class Death:
    """Waits at one point, for the first who comes there."""

    def __init__(self, point: str) -> None:
        self.point = point
        self.has_struck = False
        self._times: dict[str, int] = {}

    def step(self, name: str, step: Callable[..., Any], *args: Any) -> Any:
        """Do a step, unless death is before it or after it."""
        times = self._times[name] = self._times.get(name, 0) + 1
        suffix = "" if times == 1 else f" {times}"
        self._at(f"before {name}{suffix}")
        result = step(*args)
        self._at(f"after {name}{suffix}")
        return result

    def _at(self, point: str) -> None:
        if point == self.point and not self.has_struck:
            self.has_struck = True
            raise Died(point)


def mortal(death: Death) -> type[TableCommit]:
    """A commit whose steps death waits at."""

    class MortalCommit(TableCommit):
        def __getattribute__(self, name: str) -> Any:
            found = super().__getattribute__(name)
            return partial(death.step, name, found) if name in COMMIT_STEPS else found

    return MortalCommit


def make_parquet_mortal(death: Death, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for the steps that only Parquet has: the real ones, with death before and after them."""
    for name, owner in PARQUET_STEPS.items():
        real = getattr(owner, name)

        def step(self: Any, *args: Any, _name: str = name, _real: Any = real) -> Any:
            return death.step(_name, partial(_real, self), *args)

        monkeypatch.setattr(owner, name, step)
