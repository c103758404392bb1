"""A Spark driver is killed, with SIGKILL, in the middle of a commit to a table, and the query goes on in another one."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cluster.waiting import eventually
from tests.compatibility.processes import RunningProcess
from tests.conftest import FRESH_SEED_VARIABLE
from tests.pipeline.crash.script import PATIENCE_S, Act, Script
from tests.pipeline.starting import start_query
from tests.pipeline.tables.crashing import SCRIPT_OPTION, CrashTableDataSource
from tests.pipeline.tables.driving import FORMATS, ids, rows_of, table_options
from tests.pipeline.tables.program import writer_of
from tidelog.pipeline.demo.processes import session_members
from tidelog.simulation import SimulatedRandomness

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.proof, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]
ROWS, MICRO_BATCHES = 60, 3
BEFORE = ("before look", "after gather", "before publish")
AFTER = ("after publish", "before clean_up", "after clean_up")


@dataclass(frozen=True)
class Victim:
    """A query that dies at a point."""

    table_format: str
    point: str
    home: Path

    @property
    def script(self) -> Script:
        return Script(self.home / "script")

    @property
    def options(self) -> dict[str, str]:
        own = {SCRIPT_OPTION: str(self.home / "script"), "checkpointLocation": str(self.home / "checkpoint")}
        return {**table_options(self.table_format, self.home, partition__by="hour(at)"), **own}


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> SimulatedRandomness:
    """The head of the run names the seed, and TIDELOG_FRESH_SEED=N draws the same again."""
    return SimulatedRandomness(os.environ[FRESH_SEED_VARIABLE]).stream(request.node.name)


@pytest.fixture
def source(tmp_path: Path) -> str:
    """Files of rows, one for each micro-batch."""
    directory = tmp_path / "source"
    directory.mkdir()
    each = ROWS // MICRO_BATCHES
    for number in range(MICRO_BATCHES):
        rows = rows_of(range(number * each, number * each + each))
        pq.write_table(pa.Table.from_batches([rows]), directory / f"{number}.parquet")
    return str(directory)


def test_a_killed_driver_loses_and_doubles_nothing(
    spark: SparkSession, source: str, tmp_path: Path, chance: SimulatedRandomness
) -> None:
    points = (*BEFORE, *AFTER)
    victim = Victim(FORMATS[chance.below(len(FORMATS))], points[chance.below(len(points))], tmp_path / "home")
    kill([victim], source, tmp_path, chance)
    go_on(spark, victim, source)


def test_a_driver_may_be_killed_before_and_after_it_publishes_to_any_table(
    spark: SparkSession, source: str, tmp_path: Path, chance: SimulatedRandomness
) -> None:
    drawn = [(table_format, points[chance.below(3)]) for table_format in FORMATS for points in (BEFORE, AFTER)]
    cases = [*drawn, ("parquet", "after decide")]
    victims = [Victim(*case, tmp_path / f"home-{number}") for number, case in enumerate(cases)]
    kill(victims, source, tmp_path, chance)
    for victim in victims:
        go_on(spark, victim, source)


def kill(victims: Sequence[Victim], source: str, tmp_path: Path, chance: SimulatedRandomness) -> None:
    """Let a driver of its own run all queries until each has come to its point, in its first or second micro-batch, and kill it."""
    for victim in victims:
        victim.home.mkdir()
        victim.script.plan(victim.point, Act.WAIT, passes=chance.below(2))
    queries = json.dumps([{"source": source, "options": victim.options} for victim in victims])
    process = RunningProcess(
        [sys.executable, "-m", "tests.pipeline.tables.program", queries],
        environment={"PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"},
        transcript=tmp_path / "driver.log",
    )
    try:
        for victim in victims:
            _wait_at(victim, process)
    finally:
        eventually(lambda: not _killed(process.pid), "the driver is dead")
        process.kill()


def _wait_at(victim: Victim, process: RunningProcess) -> None:
    def is_there() -> bool:
        return victim.script.has_been_at(victim.point) or process.process.poll() is not None

    eventually(is_there, f"{victim.table_format} is {victim.point}", timeout_s=2 * PATIENCE_S)
    assert victim.script.has_been_at(victim.point), process.output


def go_on(spark: SparkSession, victim: Victim, source: str) -> None:
    """To the end of the source, in another driver; then all rows are there, once, for two readers."""
    spark.dataSource.register(CrashTableDataSource)
    query = start_query(writer_of(spark, source, victim.options))
    assert query.awaitTermination(PATIENCE_S), query.status
    assert ids(victim.table_format, victim.home) == Counter(range(ROWS)), victim.point


def _killed(session: int) -> list[Any]:
    members = [each.pid for each in session_members(session)]
    for pid in members:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return members
