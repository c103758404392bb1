"""Rules no linter knows: what tracked files may say, what modules are called, which contracts exist."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.measure import ROOT, SOURCES

#: Rooms whose every module is a state machine or pure, except the shells that pyproject.toml lists.
STATE_MACHINE_ROOMS = {"model", "config", "wire", "records", "storage", "partition", "controller", "coordinator"}
NAMES_THAT_SAY_NOTHING = {"utils", "util", "common", "helpers", "misc", "base", "core"}
# Spelled in pieces, so that this file does not find itself.
UNFINISHED = re.compile(r"\b(" + "|".join(("FIX" + "ME", "TO" + "DO", "XX" + "X", "HA" + "CK")) + r")\b")
ONE_MACHINE = re.compile(
    "|".join([re.escape(f"{ROOT}/"), r"(?<![\w.])/(?:home|Users)/\w+/", r"(?<![\w./])/ro" + "ot/"])
)
REGISTRY_HOST = re.compile(r"(?:pypi\." + r"org/simple|pythonhosted\.org|registry\.npmjs|repo1?\.maven|deb\.debian)")


def tracked_files() -> Iterator[Path]:
    try:
        listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
        paths = [ROOT / name for name in listing.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):  # an unpacked archive: no history, same rules
        paths = [
            path for path in ROOT.rglob("*.*") if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
        ]
    return (path for path in paths if path.is_file())


def lines_matching(pattern: re.Pattern[str]) -> list[str]:
    found = []
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [
            f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}"
            for number, line in enumerate(text.splitlines(), start=1)
            if pattern.search(line)
        ]
    return found


def python_modules(*roots: str) -> Iterator[Path]:
    for root in roots:
        yield from sorted((ROOT / root).rglob("*.py"))


@pytest.mark.parametrize(
    ("what", "pattern"),
    [("an unfinished thing", UNFINISHED), ("a path of one machine", ONE_MACHINE), ("a registry host", REGISTRY_HOST)],
    ids=["unfinished", "machine paths", "registry hosts"],
)
def test_no_tracked_file_names(what: str, pattern: re.Pattern[str]) -> None:
    found = lines_matching(pattern)
    assert not found, f"{what} is named in:\n" + "\n".join(found)


#: Modules that run whatever bytes they are given, and who may use them: the simulated twin of a child process copies as the real one does.
UNSAFE_LOADERS = {"dill", "jsonpickle", "marshal", "pickle", "shelve", "yaml"}
MAY_PICKLE = {"tidelog/simulation/disk_executor.py"}
MAY_COMPOSE = {"tidelog/pipeline/declared/spec.py"}  # YAML to nodes, which are texts with lines; never to objects


def test_nothing_that_was_read_or_received_is_run() -> None:
    found = []
    for path in python_modules("src"):
        name = str(path.relative_to(SOURCES.parent))
        for node in ast.walk(ast.parse(path.read_text())):
            imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            imported += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
            if {each.partition(".")[0] for each in imported} & UNSAFE_LOADERS and name not in MAY_PICKLE | MAY_COMPOSE:
                found.append(f"{name}:{node.lineno} imports {imported}")  # type: ignore[attr-defined]  # imports have lines
            if called in {"eval", "exec", "compile", "__import__"}:
                found.append(f"{name}:{node.lineno} calls {called}")  # type: ignore[attr-defined]  # so do calls
    assert not found, "bytes become values through struct, JSON and our own codecs only:\n" + "\n".join(found)


def test_of_yaml_only_nodes_are_made() -> None:
    for name in MAY_COMPOSE:
        tree = ast.parse((SOURCES.parent / name).read_text())
        taken = {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "yaml"
        }
        assert taken == {"compose", "SafeLoader", "MappingNode", "MarkedYAMLError", "YAMLError"}


def test_coordinators_match_nothing_with_an_engine_that_can_be_made_to_run_for_ever() -> None:
    found = []
    for path in python_modules("src/tidelog/coordinator"):
        for node in ast.walk(ast.parse(path.read_text())):
            imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            imported += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if {each.partition(".")[0] for each in imported} & {"re", "regex", "fnmatch", "sre_compile"}:
                found.append(str(path.relative_to(ROOT)))
    assert not found, f"expressions of strangers go to RE2 (group/consumer/regex.py): {found}"


def test_nothing_fixes_the_seed_of_hashes() -> None:
    fixing = [str(path) for path in python_modules("src") if re.search(r"HASHSEED\"?\]?\s*=", path.read_text())]
    assert not fixing, "texts of strangers are keys of our dictionaries"


def test_every_module_says_why_it_exists() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in python_modules("src", "examples", "benchmarks")
        if path.stat().st_size and ast.get_docstring(ast.parse(path.read_text())) is None
    ]
    assert not silent, f"no module docstring: {silent}"


def test_every_module_postpones_annotations() -> None:
    wrong = []
    for path in python_modules("src"):
        body = ast.parse(path.read_text()).body
        code = [node for node in body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
        if not any(isinstance(node, ast.ImportFrom | ast.Import) for node in code):
            continue  # only constants, or nothing
        first = code[0]
        if path.name != "__init__.py" and not (isinstance(first, ast.ImportFrom) and first.module == "__future__"):
            wrong.append(str(path.relative_to(ROOT)))
    assert not wrong, f"`from __future__ import annotations` is not the first import of {wrong}"


def test_module_names_say_something() -> None:
    vague = [str(path.relative_to(ROOT)) for path in python_modules("src") if path.stem in NAMES_THAT_SAY_NOTHING]
    assert not vague


def test_every_state_machine_room_is_under_the_contract_that_it_does_not_wait() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [contract] = [contract for contract in contracts if contract["id"] == "state-machines"]
    covered = {module.removeprefix("tidelog.") for module in contract["source_modules"]}
    existing = {path.name for path in SOURCES.iterdir() if (path / "__init__.py").exists()}
    assert existing & STATE_MACHINE_ROOMS <= covered


def test_every_package_the_project_asks_for_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + [name for extra in project["optional-dependencies"].values() for name in extra]
    pinned = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    unpinned = [
        name
        for name in (re.split(r"[><=!~;\[ ]", want, maxsplit=1)[0].lower() for want in wanted)
        if name not in pinned | {project["name"]}  # an extra may ask for another of our own
    ]
    assert not unpinned, f"run `make lock`: {unpinned}"
