"""Which worker runs which tests, with `--dist loadfile` or `loadgroup`: what shares something that is slow to start stays together.

pytest-xdist 3.8 does not see its own groups with pytest 9, so the choice is made here.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling

ROOT: Final = Path(__file__).parents[1]
_SPARK: Final = "spark"


class TogetherScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """One worker has all files that start Spark; the others have whole files, or with `loadgroup` one test at a time."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if starts_spark(file):
            return _SPARK
        return nodeid if self.config.getvalue("dist") == "loadgroup" else file


@cache
def starts_spark(file: str) -> bool:
    """Whether a test of the file is marked so. The process that distributes the tests does not collect them."""
    return f"mark.{_SPARK}" in (ROOT / file).read_text()


def long_ones_first(items: list[pytest.Item]) -> None:
    """Spark, then files with slow tests, so that no worker comes to a long one last."""
    slow = {item.path for item in items if item.get_closest_marker("slow") or item.get_closest_marker("proof")}
    items.sort(key=lambda item: 0 if starts_spark(item.nodeid.partition("::")[0]) else 1 if item.path in slow else 2)
