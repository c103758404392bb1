"""What a program does that was started somewhere: it leaves nothing there, and imports nothing that only tests want."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

_COMMAND = """
import sys
from tidelog.cli.main import main
code = main(["topics", "list", "-b", sys.argv[1]])
print("kio" in sys.modules, "hypothesis" in sys.modules)
sys.exit(code)
"""

_CLUSTER = """
import sys
from tidelog.testing import Cluster
with Cluster(1, topics=["t"]) as kafka:
    kafka.produce("t", ["x"])
print("kio" in sys.modules, "hypothesis" in sys.modules)
"""

_CODEC = """
from tidelog.wire.api import ApiKey
from tidelog.wire.codec import prepare
prepare([ApiKey.API_VERSIONS])
"""


def run(place: Path, code: str, *arguments: str) -> list[str]:
    command = [sys.executable, "-c", code, *arguments]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_command_leaves_nothing_where_it_was_run_and_imports_no_test_library(bootstrap: str, tmp_path: Path) -> None:
    assert run(tmp_path, _COMMAND, bootstrap)[-1] == "True False"
    assert list(tmp_path.iterdir()) == []


def test_a_cluster_of_the_test_kit_leaves_nothing_where_the_test_was_run(tmp_path: Path) -> None:
    assert run(tmp_path, _CLUSTER)[-1] == "True False"
    assert list(tmp_path.iterdir()) == []


def test_a_test_that_wants_the_library_itself_can_have_it_afterwards(tmp_path: Path) -> None:
    run(tmp_path, f"{_CODEC}\nimport hypothesis.strategies")
