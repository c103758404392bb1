"""Every example runs, against a broker started as its reader would start one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compatibility.processes import TidelogProcess

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with TidelogProcess(tmp_path_factory.mktemp("examples") / "data") as process:
        yield process.bootstrap


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_example_runs(example: str, bootstrap: str) -> None:
    environment = {**os.environ, "TIDELOG_BOOTSTRAP": bootstrap}
    command = [sys.executable, str(EXAMPLES / example)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_example_is_in_the_list() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    assert [path.name for path in EXAMPLES.glob("*.py") if f"({path.name})" not in listed] == []
