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

_SPARK_TAKES_S = 300
_OTHERS_TAKE_S = 240
_ON_SPARK = {
    "audit_after_chaos.py",
    "changes_to_current_state.py",
    "orders_to_iceberg.py",
    "spark_clickstream_sessions.py",
    "spark_exactly_once.py",
}
_NAMES = sorted(path.name for path in EXAMPLES.glob("*.py"))
_STARTS_SPARK = (pytest.mark.spark, pytest.mark.proof, pytest.mark.timeout(_SPARK_TAKES_S + 20))
_MARKED = [pytest.param(name, marks=_STARTS_SPARK if name in _ON_SPARK else ()) for name in _NAMES]


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with TidelogProcess(tmp_path_factory.mktemp("examples") / "data") as process:
        yield process.bootstrap


@pytest.mark.parametrize("example", _MARKED)
def test_example_runs(example: str, bootstrap: str) -> None:
    environment = {**os.environ, "TIDELOG_BOOTSTRAP": bootstrap}
    command = [sys.executable, str(EXAMPLES / example)]
    timeout_s = _SPARK_TAKES_S if example in _ON_SPARK else _OTHERS_TAKE_S
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_example_is_in_the_list() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    assert [path.name for path in EXAMPLES.glob("*.py") if f"({path.name})" not in listed] == []
