"""One short case now, the sweep when all is proven."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def rest_proven(cases: Iterable[Any], *, now: int = 1) -> list[Any]:
    """The cases of a test: the first ones run in `make test`, all of the others in `make proof`."""
    return [pytest.param(case, marks=() if number < now else pytest.mark.proof) for number, case in enumerate(cases)]
