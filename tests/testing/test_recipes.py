"""The tests of examples/testing, as their reader runs them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

RECIPES = Path(__file__).resolve().parents[2] / "examples" / "testing"
PAGE = RECIPES.parents[1] / "docs" / "testing_with_tidelog.md"
README = RECIPES.parents[1] / "README.md"
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


def test_the_page_names_each_of_them_where_it_is() -> None:
    page = PAGE.read_text()
    told = set(re.findall(r"\| (?:`(test_\w+)` in )?(test_\w+\.py) \|", page))
    there = {
        (name if len(names) > 1 else "", recipe.name)
        for recipe in RECIPES.glob("test_*.py")
        for names in [re.findall(r"^def (test_\w+)", recipe.read_text(), re.MULTILINE)]
        for name in names
    }
    assert told == there


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_test_in_the_readme_passes_as_it_stands(tmp_path: Path) -> None:
    section = README.read_text().split("## In tests")[1]
    test = section.split("```python\n")[1].split("\n\n\n")[0]
    tmp_path.joinpath("test_readme.py").write_text(f"import pytest\n\n{test}\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
