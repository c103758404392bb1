"""Sizes of modules, functions and classes, and the ratchet that lets the listed ones only shrink."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = ROOT / "src" / "tidelog"
RATCHET: Final = Path(__file__).with_name("ratchet.toml")

#: kind -> (what is allowed without asking, what is never allowed)
LIMITS: Final = {"module": (400, 600), "function": (40, 70), "class": (12, 30)}
UNITS: Final = {"module": "lines", "function": "lines", "class": "public methods"}


class Measured(NamedTuple):
    """One thing with a size; `name` is dotted and stable, so that it can stand in the ratchet."""

    kind: str
    name: str
    size: int


def measure_all(sources: Path = SOURCES) -> Iterator[Measured]:
    """Everything under `sources` that has a limit."""
    for path in sorted(sources.rglob("*.py")):
        yield from measure(path.read_text(), ".".join(path.relative_to(sources.parent).with_suffix("").parts))


def measure(text: str, module: str) -> Iterator[Measured]:
    """The module, its classes and its functions, also nested ones."""
    yield Measured("module", module, len(text.splitlines()))
    yield from _measure_body(ast.parse(text), module)


def _measure_body(node: ast.AST, scope: str) -> Iterator[Measured]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{scope}.{child.name}"
            yield Measured("function", name, _function_lines(child))
            yield from _measure_body(child, name)
        elif isinstance(child, ast.ClassDef):
            name = f"{scope}.{child.name}"
            if not _is_protocol(child):
                yield Measured("class", name, len(set(_public_methods(child))))
            yield from _measure_body(child, name)
        else:
            yield from _measure_body(child, scope)


def _function_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, without decorators and docstring: prose is not what makes a function long."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def _is_protocol(node: ast.ClassDef) -> bool:
    return any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases)


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


def read_ratchet(text: str) -> dict[tuple[str, str], int]:
    """The listed offenders: (kind, name) -> the size they may have today."""
    return {(kind, name): size for kind, entries in tomllib.loads(text).items() for name, size in entries.items()}


def render_ratchet(offenders: dict[tuple[str, str], int]) -> str:
    """The ratchet file for these offenders."""
    lines = [
        "# Things larger than the house allows (tests/tidy/measure.py), with the size they have. They may only shrink:",
        "# `python -m tests.tidy.measure --shrink` writes smaller sizes down; nothing ever writes a larger one or a new line.",
    ]
    for kind in LIMITS:
        lines += ["", f"[{kind}]"]
        lines += [f'"{name}" = {size}' for (of_kind, name), size in sorted(offenders.items()) if of_kind == kind]
    return "\n".join(lines) + "\n"


def judge(measured: Measured, ratchet: dict[tuple[str, str], int]) -> str | None:
    """What is wrong with this size, or None."""
    allowed, never = LIMITS[measured.kind]
    listed = ratchet.get((measured.kind, measured.name))
    said = f"{measured.kind} {measured.name} has {measured.size} {UNITS[measured.kind]}"
    if measured.size > never:
        return f"{said}; more than {never} is never allowed"
    if measured.size <= allowed:
        return None if listed is None else f"{said}, which is fine: strike it off ratchet.toml (--shrink)"
    if listed is None:
        return f"{said}; the limit is {allowed}"
    if measured.size > listed:
        return f"{said}; it is listed with {listed} and may only shrink"
    if measured.size < listed:
        return f"{said}; write the smaller size down (--shrink)"
    return None


def _shrink() -> None:
    ratchet = read_ratchet(RATCHET.read_text())
    sizes = {(one.kind, one.name): one.size for one in measure_all()}
    kept = {
        key: min(listed, sizes[key])
        for key, listed in ratchet.items()
        if key in sizes and sizes[key] > LIMITS[key[0]][0]
    }
    RATCHET.write_text(render_ratchet(kept))


if __name__ == "__main__":
    if sys.argv[1:] == ["--shrink"]:
        _shrink()
    else:
        ratchet = read_ratchet(RATCHET.read_text())
        sys.stdout.writelines(f"{verdict}\n" for one in measure_all() if (verdict := judge(one, ratchet)))
