"""The tests of examples/testing, as their reader runs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RECIPES = Path(__file__).resolve().parents[2] / "examples" / "testing"
PAGE = RECIPES.parents[1] / "docs" / "testing_with_tidelog.md"
_ON_SPARK = (pytest.mark.spark, pytest.mark.proof)


@pytest.mark.slow
@pytest.mark.timeout(290)
@pytest.mark.parametrize(
    ("recipe", "count"), [("test_orders.py", 4), pytest.param("test_cleaning_on_spark.py", 1, marks=_ON_SPARK)]
)
def test_recipes_pass(recipe: str, count: int) -> None:
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--override-ini=addopts=", "-W", "error"]
    command = [sys.executable, "-m", "pytest", *options, str(RECIPES / recipe)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{count} passed" in done.stdout


def test_the_page_names_each_of_them() -> None:
    page = PAGE.read_text()
    for recipe in RECIPES.glob("test_*.py"):
        assert recipe.name in page
