"""The keeper of the Spark driver, with small programs in the driver's place: it is the keeper that is tested."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compatibility.processes import wait_until_gone
from tests.pipeline.demo.stories import story
from tidelog.pipeline.demo.driver import DriverPlan, reason_in
from tidelog.pipeline.demo.processes import DemoFailed
from tidelog.pipeline.demo.spark import FRUITLESS_STARTS_MAX, QueryState, SparkDriver
from tidelog.runtime.real import RealClock

PROGRESS = {"event": "progress", "query": "q", "micro_batch_id": 3, "rows": 40, "duration_ms": 7, "watermark": None}
WORKS = f"print({json.dumps(json.dumps(PROGRESS))}, flush=True); import time; time.sleep(600)"
DIES_AFTER_WORK = f"print({json.dumps(json.dumps(PROGRESS))}, flush=True); raise SystemExit(3)"
FAILS = 'print(\'{"event": "failed", "reason": "no such topic"}\', flush=True); raise SystemExit(1)'
BREAKS = "raise OSError('the disk is full')"


BACKEND = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
DAEMON = "import os, time; os.fork(); time.sleep(600)"
STARTS_MANY = f"""
import subprocess, sys, time
def start(*words):
    subprocess.Popen([sys.executable, "-c", {DAEMON!r}, *words])
start("-m", "pyspark.daemon", "pyspark.worker")
start("-m", "pyspark.daemon", "pyspark.sql.worker.python_streaming_sink_runner")
start("-m", "pyspark.daemon", "pyspark.sql.worker.plan_data_source_read")
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "org.apache.spark.deploy.SparkSubmit"])
for _ in sys.argv[1:]:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", {BACKEND!r}])
time.sleep(600)
"""


class Heard(list[str]):
    """News as they come, and a way to wait for some."""

    def __init__(self) -> None:
        super().__init__()
        self._came = asyncio.Event()

    def __call__(self, text: str) -> None:
        self.append(text)
        self._came.set()

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(40):
            while not is_so():
                self._came.clear()
                await self._came.wait()


def keeper(text: str, tmp_path: Path, heard: Heard) -> SparkDriver:
    return SparkDriver([sys.executable, "-c", text], log=tmp_path / "log", clock=RealClock(), on_news=heard)


@pytest.mark.slow
@story
async def test_progress_is_heard_and_the_driver_ends_with_the_block(tmp_path: Path) -> None:
    heard = Heard()
    async with keeper(WORKS, tmp_path, heard).running() as driver:
        async with asyncio.timeout(40):
            await driver.has_progressed.wait()
        assert (driver.queries["q"].micro_batch_id, driver.queries["q"].rows, driver.starts) == (3, 40, 1)
        [process] = driver._members()  # noqa: SLF001
    wait_until_gone(process.pid)
    assert heard == []


@pytest.mark.slow
@story
async def test_a_driver_that_ends_is_started_again(tmp_path: Path) -> None:
    heard = Heard()
    async with keeper(DIES_AFTER_WORK, tmp_path, heard).running() as driver:
        await heard.until(lambda: driver.starts >= FRUITLESS_STARTS_MAX + 2)
    assert heard[:2] == ["the Spark driver ended with exit code 3", "the Spark driver is started again"]


@pytest.mark.slow
@story
async def test_a_driver_that_was_killed_is_started_again(tmp_path: Path) -> None:
    heard = Heard()
    async with keeper(WORKS, tmp_path, heard).running() as driver:
        async with asyncio.timeout(40):
            await driver.has_progressed.wait()
        driver.kill_all()
        await heard.until(lambda: driver.starts == 2)
        async with asyncio.timeout(40):
            await driver.has_progressed.wait()
    assert heard == ["the Spark driver was killed", "the Spark driver is started again"]


@pytest.mark.slow
@pytest.mark.parametrize(("text", "why"), [(FAILS, "no such topic"), (BREAKS, "the disk is full")])
@story
async def test_a_driver_that_gets_nowhere_ends_the_demo_and_says_why(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        async with keeper(text, tmp_path, Heard()).running():
            await asyncio.Event().wait()
    [failure] = raised.value.exceptions
    assert isinstance(failure, DemoFailed)
    assert f"ended {FRUITLESS_STARTS_MAX} times without getting anywhere" in str(failure)
    assert why in str(failure)
    assert str(tmp_path / "log") in str(failure)


@pytest.mark.proof
@story
async def test_workers_committers_and_the_jvm_are_told_apart(tmp_path: Path) -> None:
    async with keeper(STARTS_MANY, tmp_path, Heard()).running() as driver:
        async with asyncio.timeout(40):
            while len(driver._members()) < 8:  # noqa: ASYNC110, SLF001  # processes come without telling us
                await asyncio.sleep(0.05)  # noqa: TID251
        [workers], [committers], [jvm] = driver.executors, driver.committers, driver.jvm
        assert [process.command[-1] for process in workers] == ["pyspark.worker"]
        assert [process.command[-1] for process in committers] == ["pyspark.sql.worker.python_streaming_sink_runner"]
        assert jvm.command[-1] == "org.apache.spark.deploy.SparkSubmit"
        pids = [member.pid for member in driver._members()]  # noqa: SLF001
    wait_until_gone(*pids)


@pytest.mark.proof
@story
async def test_executor_jvms_are_executors_each_by_itself(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTS_MANY, "one", "two"]
    driver = SparkDriver(command, log=tmp_path / "log", clock=RealClock(), on_news=Heard())
    async with driver.running():
        async with asyncio.timeout(40):
            while len(driver.executors) < 2:  # noqa: ASYNC110  # processes come without telling us
                await asyncio.sleep(0.05)  # noqa: TID251
        assert [[process.command[-1] for process in each] for each in driver.executors] == [[BACKEND], [BACKEND]]


def test_rows_per_second_are_those_of_the_last_seconds() -> None:
    query = QueryState()
    query.on_progress({**PROGRESS, "rows": 100}, now_ms=1_000)
    query.on_progress({**PROGRESS, "rows": 50}, now_ms=5_000)
    assert query.rows_per_s(5_000) == 30
    assert query.rows_per_s(6_500) == 10
    assert query.rows_per_s(20_000) == 0
    assert query.rows == 150


def test_a_micro_batch_that_is_told_of_again_counts_once() -> None:
    query = QueryState()
    for micro_batch_id in (0, 1, 1, 2, 1):
        query.on_progress({**PROGRESS, "micro_batch_id": micro_batch_id}, now_ms=0)
    assert (query.micro_batches, query.micro_batch_id) == (3, 2)


def test_the_plan_of_a_driver_is_one_argument() -> None:
    plan = DriverPlan(bootstrap="h:1", data="/d", master="local[2]", commit_mode="2pc", orders_per_second=9)
    assert plan.command[:3] == (sys.executable, "-m", "tidelog.pipeline.demo.driver")
    assert DriverPlan(**json.loads(plan.command[3])) == plan


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("[STREAM_FAILED] Query ended\n=== Streaming Query ===\nIdentifier: x", "[STREAM_FAILED] Query ended"),
        (
            "[PYTHON_DATA_SOURCE_ERROR] Failed: Traceback (most recent call last):\n  File x\nOptionRefused: topic: none\n SQLSTATE: 38000\n",
            "OptionRefused: topic: none",
        ),
        ("ended", "ended"),
        ("", "ended"),
    ],
)
def test_of_what_spark_says_the_sentence_is_kept(said: str, reason: str) -> None:
    assert reason_in(said) == reason
