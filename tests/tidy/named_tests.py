"""Pages that say which test shows what name tests and scenarios; here is how a name is looked up."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.tidy.measure import ROOT

REFERENCE = re.compile(r"`(tests/[\w/.-]+(?:::\w+)?)`")


def references(text: str) -> list[str]:
    """Every test (`tests/…/test_x.py::test_y`) or scenario (`tests/scenarios/x.txt`) that a text names."""
    return REFERENCE.findall(text)


def exists(reference: str) -> bool:
    """Whether the test or scenario is there."""
    path, _, name = reference.partition("::")
    return (ROOT / path).is_file() and (not name or name in _functions(ROOT / path))


def rows(page: Path) -> list[list[str]]:
    """The cells of every table row of a page, without headings."""
    lines = [line.strip().strip("|") for line in page.read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.split(" | ")] for line in lines if not set(line) <= set("-| ")]


@cache
def _functions(path: Path) -> frozenset[str]:
    found = ast.walk(ast.parse(path.read_text()))
    return frozenset(node.name for node in found if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
