"""The process of the Spark driver: runs the queries of the shop until it is told to stop, and says in JSON lines how they get on.

A program of its own (`python -m tidelog.pipeline.demo.driver PLAN`), so that it can be killed and started again like any driver.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.pipeline.java import NoJava
from tidelog.pipeline.session import SparkMissing, spark_session

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

READY: Final = "ready"
PROGRESS: Final = "progress"
FAILED: Final = "failed"
_LOOK_AGAIN_S: Final = 0.1
_REASON_MAX: Final = 400
_INITIALISED_WITHIN_S: Final = 60.0
_TRIES: Final = 5
_TOO_SLOW: Final = "failed to connect back"


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverPlan:
    """All a driver is told."""

    bootstrap: str
    data: str
    master: str
    commit_mode: str
    orders_per_second: int

    @property
    def command(self) -> tuple[str, ...]:
        """What starts a driver with this plan."""
        return (sys.executable, "-m", "tidelog.pipeline.demo.driver", json.dumps(asdict(self)))


def main(text: str) -> int:
    """Run until SIGTERM, or until a query fails; the exit code."""
    plan = DriverPlan(**json.loads(text))
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    try:
        return _run(plan, stopping)
    except (NoJava, SparkMissing) as failure:
        _tell({"event": FAILED, "reason": str(failure)})
        return 1


def _run(plan: DriverPlan, stopping: threading.Event) -> int:
    data = Path(plan.data)
    settings = {
        "spark.driver.memory": "1g",
        "spark.local.dir": str(data / "spark-local"),
        "spark.sql.warehouse.dir": str(data / "spark-warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.pollingDelay": "50ms",
    }
    spark = spark_session("tidelog shop", master=plan.master, settings=settings)
    from tidelog.pipeline.demo.shop import Shop, start_clean, start_revenue

    shop = Shop(
        bootstrap=plan.bootstrap,
        checkpoints=data / "checkpoints",
        commit_mode=plan.commit_mode,
        orders_per_second=plan.orders_per_second,
    )
    queries = [_started(partial(start, spark, shop), stopping) for start in (start_clean, start_revenue)]
    _tell({"event": READY})
    failure = _watch(queries, stopping)
    if failure is not None:
        _tell({"event": FAILED, "reason": failure})
    for query in queries:
        query.stop()
    spark.stop()
    return 0 if failure is None else 1


def _started(start: Callable[[], StreamingQuery], stopping: threading.Event) -> StreamingQuery:
    """Start a query, and wait until it has its source, or has failed; one at a time.

    Spark gives the Python process of a source 10 s to come up, which a busy machine may take. That is no reason to start a JVM again.
    """
    query = start()
    for _ in range(_TRIES):
        _until_initialised(query, stopping)
        if stopping.is_set() or query.isActive or _TOO_SLOW not in str(query.exception()):
            break
        query = start()
    return query


def _until_initialised(query: StreamingQuery, stopping: threading.Event) -> None:
    """Wait until a query has its source, has failed, or takes too long."""
    for _ in range(int(_INITIALISED_WITHIN_S / _LOOK_AGAIN_S)):
        # One that has failed is active for a moment still.
        is_settled = not query.status["message"].startswith(("Initializing", "Terminated"))
        if not query.isActive or is_settled or stopping.wait(_LOOK_AGAIN_S):
            return


def _watch(queries: list[StreamingQuery], stopping: threading.Event) -> str | None:
    """Tell of every micro-batch, until told to stop, or until a query ends; why it did."""
    told: dict[str, str] = {}
    while not stopping.wait(_LOOK_AGAIN_S):
        for query in queries:
            for progress in query.recentProgress:
                if progress.timestamp > told.get(query.name, ""):
                    told[query.name] = progress.timestamp
                    _tell(progress_event(progress))
        for query in queries:
            if not query.isActive and not stopping.is_set():
                return f"{query.name}: {reason_in(str(query.exception() or 'ended'))}"
    return None


def reason_in(failure: str) -> str:
    """The sentence in what Spark says of a failed query: the last line of a traceback, if it quotes one, and not the plan below."""
    said = [line for line in failure.partition("=== Streaming Query ===")[0].splitlines() if line.strip()]
    said = [line for line in said if not line.strip().startswith("SQLSTATE")] or ["ended"]
    return said[-1 if any(line.startswith("Traceback") or "Traceback (" in line for line in said) else 0][:_REASON_MAX]


def progress_event(progress: StreamingQueryProgress) -> dict[str, object]:
    """What a micro-batch did, as the parent hears it."""
    return {
        "event": PROGRESS,
        "query": progress.name,
        "micro_batch_id": progress.batchId,
        "rows": progress.numInputRows,
        "duration_ms": progress.durationMs.get("triggerExecution", 0),
        "watermark": progress.eventTime.get("watermark"),
    }


def _tell(event: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
