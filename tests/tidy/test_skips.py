"""A skip is a failure in CI unless somebody has written down why."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import allowed_skips, is_defended
from tests.tidy.measure import ROOT


def run_pytest(directory: Path, allowed: str) -> str:
    (directory / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (directory / "allowed_skips.txt").write_text(allowed)
    (directory / "test_it.py").write_text(
        "import pytest\n\n\n@pytest.mark.skip(reason='no moon')\ndef test_moon(): ...\n"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        "-p",
        "no:xdist",
        ".",
    ]
    return subprocess.run(
        command, cwd=directory, env={"CI": "true", "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    ).stdout


@pytest.mark.slow
def test_an_undefended_skip_fails_in_ci(tmp_path: Path) -> None:
    output = run_pytest(tmp_path, "")
    assert "1 error" in output
    assert "skipped although CI=true: Skipped: no moon" in output


@pytest.mark.slow
def test_a_defended_skip_stays_a_skip(tmp_path: Path) -> None:
    assert "1 skipped" in run_pytest(tmp_path, "test_it.py::test_moon : it is a new moon\n")


def test_the_list_covers_parameters_and_whole_modules() -> None:
    allowed = {"a.py": "x", "b.py::test": "y"}
    assert is_defended("a.py::test_one", allowed)
    assert is_defended("b.py::test[3]", allowed)
    assert not is_defended("b.py::test_other", allowed)


def test_an_entry_without_reason_is_refused() -> None:
    with pytest.raises(ValueError, match="gives no reason"):
        allowed_skips("a.py::test\n")
