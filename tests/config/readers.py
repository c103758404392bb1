"""Who reads which setting: a search of the source for `config.<field>`, and for what `BrokerConfig` and `LogConfig` tell of a field."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.tidy.measure import SOURCES

_OTHERS_CONFIGS: Final = {"client"}  # The client has settings of its own, some with the same names.


def readers() -> Mapping[str, set[str]]:
    """Field or member of a config -> the modules, as `room.module`, that read it from a thing called config."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted(SOURCES.rglob("*.py")):
        room, *_ = path.relative_to(SOURCES).parts
        if room not in {"config"} | _OTHERS_CONFIGS:
            for name in _read_from_configs(ast.parse(path.read_text())):
                found[name].add(".".join(path.relative_to(SOURCES).with_suffix("").parts))
    for member, fields in _members(SOURCES / "config").items():
        for field in fields:
            found[field] |= found.get(member, set())
    return found


def _read_from_configs(tree: ast.AST) -> Iterator[str]:
    declared = _declared_configs(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            name = _last_name(node.value)
            if name.endswith("config") or name in declared:
                yield node.attr


def _declared_configs(tree: ast.AST) -> set[str]:
    """Arguments and fields that are declared to be configs, whatever they are called."""
    declared = [(_last_name(n.target), n.annotation) for n in ast.walk(tree) if isinstance(n, ast.AnnAssign)]
    declared += [(n.arg, n.annotation) for n in ast.walk(tree) if isinstance(n, ast.arg) and n.annotation is not None]
    return {
        name for name, annotation in declared if ast.unparse(annotation).strip("'\"") in {"BrokerConfig", "LogConfig"}
    }


def _last_name(node: ast.expr) -> str:
    """`config` of `config`, `self.config`, `log.config` and `topic.config()`."""
    if isinstance(node, ast.Call):
        return _last_name(node.func)
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _members(room: Path) -> Mapping[str, set[str]]:
    """Methods and properties of the configs -> the fields they tell of."""
    told: dict[str, set[str]] = defaultdict(set)
    for module in ("broker.py", "topic.py"):
        for node in ast.walk(ast.parse((room / module).read_text())):
            if isinstance(node, ast.FunctionDef) and node.args.args and node.args.args[0].arg == "self":
                told[node.name] |= {
                    each.attr
                    for each in ast.walk(node)
                    if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "self"
                }
    return told
