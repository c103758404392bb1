"""Sizes of modules, functions and classes: what is never right fails (tests/tidy/test_sizes.py), what is large is reported.

    python -m tests.tidy.measure    what is larger than most, largest first: places to look, not verdicts

A border belongs where the design has one, not where a count runs out; so the limits that fail are far away.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = ROOT / "src" / "tidelog"

#: kind -> (what is worth a look, what is never right)
LIMITS: Final = {"module": (400, 800), "function": (40, 70), "class": (12, 40)}
UNITS: Final = {"module": "lines", "function": "lines", "class": "public methods"}


class Measured(NamedTuple):
    """One thing with a size."""

    kind: str
    name: str
    size: int

    def __str__(self) -> str:
        return f"{self.kind} {self.name} has {self.size} {UNITS[self.kind]}"


class _Class(NamedTuple):
    """A class as it is written: its own methods, and the dotted names of its bases."""

    methods: frozenset[str]
    bases: tuple[str, ...]
    is_protocol: bool


def measure_all(sources: Path = SOURCES) -> list[Measured]:
    """Everything under `sources` that has a limit."""
    return measure(
        {
            ".".join(path.relative_to(sources.parent).with_suffix("").parts): path.read_text()
            for path in sorted(sources.rglob("*.py"))
        }
    )


def measure(modules: dict[str, str]) -> list[Measured]:
    """Modules (name -> text), their functions, also nested ones, and their classes with all that they inherit from one another."""
    found: list[Measured] = []
    classes: dict[str, _Class] = {}
    for module, text in modules.items():
        found.append(Measured("module", module, len(text.splitlines())))
        tree = ast.parse(text)
        found += _functions(tree, module)
        classes |= _classes(tree, module, dict(_imported(tree)))
    found += [
        Measured("class", name, len(_all_methods(name, classes)))
        for name, each in classes.items()
        if not each.is_protocol
    ]
    return found


def too_large(measured: Iterable[Measured]) -> list[str]:
    """What is never right, in words."""
    return [
        f"{one}; more than {LIMITS[one.kind][1]} is never right" for one in measured if one.size > LIMITS[one.kind][1]
    ]


def _functions(node: ast.AST, scope: str) -> Iterator[Measured]:
    for child in ast.iter_child_nodes(node):
        name = f"{scope}.{child.name}" if isinstance(child, _NAMED) else scope
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Measured("function", name, _function_lines(child))
        yield from _functions(child, name)


_NAMED: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _function_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, without decorators and docstring: prose is not what makes a function long."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """What names of a module mean that were imported from another one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _classes(node: ast.AST, scope: str, imported: dict[str, str]) -> dict[str, _Class]:
    found: dict[str, _Class] = {}
    for child in ast.iter_child_nodes(node):
        name = f"{scope}.{child.name}" if isinstance(child, _NAMED) else scope
        if isinstance(child, ast.ClassDef):
            bases = [ast.unparse(base).partition("[")[0] for base in child.bases]
            found[name] = _Class(
                frozenset(_public_methods(child)),
                tuple(imported.get(base, f"{scope}.{base}") for base in bases),
                "Protocol" in bases,
            )
        found |= _classes(child, name, imported)
    return found


def _all_methods(name: str, classes: dict[str, _Class]) -> frozenset[str]:
    """A class's own methods and those of its bases, as far as the bases are ours; a package may hand a class on by its last name."""
    if name not in classes:
        package, _, last = name.rpartition(".")
        ours = [each for each in classes if each.startswith(f"{package}.") and each.endswith(f".{last}")]
        return _all_methods(ours[0], classes) if package and len(ours) == 1 else frozenset()
    return classes[name].methods.union(*(_all_methods(base, classes) for base in classes[name].bases))


def _public_methods(node: ast.ClassDef) -> Iterator[str]:
    """Methods a caller can call; properties are what the object says about itself, not what it does."""
    for child in node.body:
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) or child.name.startswith("_"):
            continue
        decorators = {ast.unparse(decorator) for decorator in child.decorator_list}
        if not any(
            decorator == "property" or decorator.endswith((".setter", "cached_property")) for decorator in decorators
        ):
            yield child.name


if __name__ == "__main__":
    worth_a_look = [one for one in measure_all() if one.size > LIMITS[one.kind][0]]
    worth_a_look.sort(key=lambda one: one.size / LIMITS[one.kind][0], reverse=True)
    sys.stdout.writelines(f"{one}\n" for one in worth_a_look)
