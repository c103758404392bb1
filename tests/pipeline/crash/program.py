"""A Spark driver that runs the queries it is told to, as a process that can be killed: `python -m tests.pipeline.crash.program PLAN`.

It reads a query to start from every line of its input, and writes how the query has ended into a file, whose name came with the query.
All that it starts is in the session of its own process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.pipeline.crash.crashing import SCRIPT_OPTION, CrashDataSource
from tests.pipeline.starting import begun
from tidelog.pipeline.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

READY: Final = "ready to run queries"
STOP_SUFFIX: Final = ".stop"

_SLOW_START: Final = "connect back"  # Spark waits for ten seconds, whatever else the machine has to do
_SLOW_STARTS_MAX: Final = 20
_LOOK_AGAIN_S: Final = 1
_starting: Final = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a driver is told once."""

    master: str
    settings: Mapping[str, str]

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True, kw_only=True)
class QueryPlan:
    """A query: reads a topic from its beginning to where it ends now, puts `tag` before every value, and writes to another topic."""

    bootstrap: str
    source: str
    sink: str
    mode: str
    checkpoint: str
    script: str
    result: str  # the file in which to say how it ended
    rows_per_micro_batch: int
    tag: str = ""
    repartition: int | None = None  # how many tasks write, if not as many as read
    runs_on: bool = False  # until there is a file like `result`, with STOP_SUFFIX
    options: Mapping[str, str] = field(default_factory=dict)  # more of the sink

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def main(text: str) -> None:
    """Run until there is no more input."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    plan = Plan(**json.loads(text))
    spark = spark_session("tidelog crash", master=plan.master, settings=plan.settings)
    spark.sparkContext.setLogLevel("WARN")
    spark.dataSource.register(CrashDataSource)
    _say(READY)
    for line in sys.stdin:
        threading.Thread(target=_run, args=(spark, QueryPlan(**json.loads(line))), daemon=True).start()
    os.kill(os.getpid(), signal.SIGKILL)  # nobody needs us any more, and what dies cleanly would abort what it has open


def _run(spark: SparkSession, plan: QueryPlan) -> None:
    """To its end, whichever that is."""
    failure = _failure(spark, plan)
    for _ in range(_SLOW_STARTS_MAX):
        if failure is None or _SLOW_START not in failure:
            break
        failure = _failure(spark, plan)
    result = Path(plan.result)
    draft = result.with_suffix(".draft")
    draft.write_text(json.dumps({"failure": failure}))
    draft.rename(result)


def _failure(spark: SparkSession, plan: QueryPlan) -> str | None:
    # What is registered is looked up in the session that is active, which another thread does not inherit.
    spark._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)  # type: ignore[union-attr]  # noqa: SLF001
    try:
        # One after the other: Spark 4.2 fills a map that all queries of a source share from a thread of each, and with a map that two threads
        # have filled at a time no task can be sent any more, in any query of the session. See the limits in docs/pipeline.md.
        with _starting:
            query = begun(_started(spark, plan))
        while not query.awaitTermination(_LOOK_AGAIN_S):
            if Path(plan.result).with_suffix(STOP_SUFFIX).exists():
                query.stop()
    except Exception as error:  # noqa: BLE001  # whatever it is, the test is to judge it
        return f"{type(error).__name__}: {error}"
    return None


def _started(spark: SparkSession, plan: QueryPlan) -> StreamingQuery:
    rows = (
        spark.readStream.format("tidelog")
        .option("kafka.bootstrap.servers", plan.bootstrap)
        .option("subscribe", plan.source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", plan.rows_per_micro_batch)
        .load()
    )
    writer = (
        _transformed(rows, plan)
        .writeStream.format(CrashDataSource.name())
        .option("kafka.bootstrap.servers", plan.bootstrap)
        .option("topic", plan.sink)
        .option("commit.mode", plan.mode)
        .option("checkpointLocation", plan.checkpoint)
        .option(SCRIPT_OPTION, plan.script)
        .options(**plan.options)
    )
    return (writer.trigger(processingTime="0 seconds") if plan.runs_on else writer.trigger(availableNow=True)).start()


def _transformed(rows: DataFrame, plan: QueryPlan) -> DataFrame:
    tagged = rows.selectExpr("key", f"concat('{plan.tag}', cast(value as string)) as value")
    return tagged if plan.repartition is None else tagged.repartition(plan.repartition, "value")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
