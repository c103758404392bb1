"""Runs a query in a thread of its own, so that somebody can be told how far it is, and Ctrl-C ends it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

OnProgress: TypeAlias = Callable[[str, int, int], None]
"""Is told what is done, how many tasks of it are done, and how many there are as far as is known."""

_LOOK_AGAIN_S: Final = 0.2
_numbers: Final = itertools.count(1)


def collected(spark: SparkSession, frame: DataFrame, what: str, on_progress: OnProgress | None) -> list[Row]:
    """The rows of a query, which must be few."""
    if on_progress is None:
        return frame.collect()
    from pyspark import InheritableThread

    group = f"tidelog-audit-{next(_numbers)}"
    rows: list[Row] = []
    failures: list[BaseException] = []

    def run() -> None:
        spark.sparkContext.setJobGroup(group, what, interruptOnCancel=True)
        try:
            rows.extend(frame.collect())
        except BaseException as failure:  # noqa: BLE001  # it is raised below, in the thread that waits
            failures.append(failure)

    thread = InheritableThread(target=run, name="audit query", daemon=True)
    thread.start()
    try:
        on_progress(what, 0, 0)
        while thread.is_alive():
            thread.join(_LOOK_AGAIN_S)
            on_progress(what, *_tasks(spark, group))
    except KeyboardInterrupt:
        spark.sparkContext.cancelJobGroup(group)
        raise
    if failures:
        raise failures[0]
    return rows


def _tasks(spark: SparkSession, group: str) -> tuple[int, int]:
    """Tasks that are done, and tasks that there are, of the stages of the group's jobs."""
    tracker = spark.sparkContext.statusTracker()
    done = total = 0
    for job_id in tracker.getJobIdsForGroup(group):
        job = tracker.getJobInfo(job_id)
        for stage_id in job.stageIds if job else ():
            stage = tracker.getStageInfo(stage_id)
            if stage is not None:
                done += stage.numCompletedTasks
                total += stage.numTasks
    return done, total
