"""A process that commits to a table is killed, with SIGKILL, at any moment, also within the libraries; some times in a row."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from tests.compatibility.processes import RunningProcess
from tests.conftest import FRESH_SEED_VARIABLE
from tests.pipeline.tables.driving import FORMATS, ids
from tests.pipeline.tables.endless import READY, done_count, finish
from tidelog.simulation import SimulatedRandomness

pytestmark = [pytest.mark.proof, pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[3]
KILLS = 6
START_S = 200


@pytest.mark.parametrize("table_format", FORMATS)
def test_a_process_may_be_killed_at_any_moment(table_format: str, tmp_path: Path) -> None:
    chance = SimulatedRandomness(os.environ[FRESH_SEED_VARIABLE]).stream(table_format)
    for number in range(KILLS):
        command = [sys.executable, "-m", "tests.pipeline.tables.endless", table_format, str(tmp_path), f"run-{number}"]
        process = RunningProcess(command, environment={"PYTHONPATH": str(ROOT)})
        process.wait_for(READY, timeout_s=START_S)
        threading.Event().wait(chance.between(0.05, 1.5))  # how long it lives, which is all that is drawn
        process.kill()
    assert done_count(tmp_path) > 0
    row_count = finish(table_format, tmp_path)
    assert ids(table_format, tmp_path) == Counter(range(row_count))
