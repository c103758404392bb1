"""One test, every world."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.worlds import Twin, open_twin


@pytest.fixture(params=["asyncio", "uvloop", "simulated"])
def twin(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Twin]:
    with open_twin(request.param, str(tmp_path)) as opened:
        yield opened


@pytest.fixture(params=["asyncio", "simulated"])
def one_loop_twin(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Twin]:
    """For promises that have nothing to do with the loop."""
    with open_twin(request.param, str(tmp_path)) as opened:
        yield opened
