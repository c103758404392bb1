"""What a second look at failed tests excuses, and what it does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.second_look import EXCUSED_MAX
from tests.tidy.measure import ROOT

#: Fails the first time it is run, wherever it is run.
ONCE = """
import pathlib, subprocess, sys

def fail_once(name):
    mark = pathlib.Path(name)
    if not mark.exists():
        mark.touch()
        raise AssertionError("the first time")
"""
REAL = """
def test_real():
    subprocess.run([sys.executable, "-c", ""], check=True)
    fail_once("real")
"""
PURE = """
def test_pure():
    fail_once("pure")
"""
BROKEN = """
def test_broken():
    subprocess.run([sys.executable, "-c", ""], check=True)
    assert 1 + 1 == 3
"""


def gate(directory: Path, tests: str) -> tuple[int, str]:
    """Run these tests and look again, as .ci/run does; the exit code and what was said about each test."""
    (directory / "test_it.py").write_text(ONCE + tests)
    environment = {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "."]
    first = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert first.returncode == 1, first.stdout + first.stderr
    command = [sys.executable, "-m", "tests.second_look"]
    second = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    said = [line for line in second.stdout.splitlines() if (line.endswith(")") and "::" in line) or "again" in line]
    return second.returncode, "\n".join(said)


@pytest.fixture(autouse=True)
def _profiles(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())


@pytest.mark.slow
def test_a_test_of_real_processes_that_passes_alone_is_flaky_and_stops_nobody(tmp_path: Path) -> None:
    assert gate(tmp_path, REAL) == (
        0,
        "FLAKY test_it.py::test_real (its first failure is in .cache/reports/test.xml)",
    )


@pytest.mark.slow
def test_a_test_without_anything_real_has_no_excuse(tmp_path: Path) -> None:
    code, said = gate(tmp_path, REAL + PURE)
    assert code == 1
    assert "FLAKY test_it.py::test_real" in said
    assert "FAILED test_it.py::test_pure (passes now, but nothing real is part of it" in said


@pytest.mark.slow
def test_what_fails_twice_is_broken(tmp_path: Path) -> None:
    assert gate(tmp_path, BROKEN) == (1, "FAILED test_it.py::test_broken (twice)")


@pytest.mark.slow
def test_many_failures_are_not_looked_at_again(tmp_path: Path) -> None:
    tests = "".join(REAL.replace("real", f"real_{number}") for number in range(EXCUSED_MAX + 1))
    assert gate(tmp_path, tests) == (1, "4 tests failed; more than 3 are not looked at again")
