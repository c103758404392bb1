"""Who a task is, as Spark tells its Python workers."""

from __future__ import annotations

from typing import Final

from pyspark import TaskContext

from tidelog.pipeline.sink.errors import SinkFailed
from tidelog.pipeline.sink.modes import Task

# Not part of Spark's documentation: the properties that its engine gives the jobs of a micro-batch. A test looks at them.
_QUERY_ID: Final = "sql.streaming.queryId"
_MICRO_BATCH_ID: Final = "streaming.sql.batchId"
_RUN_ID: Final = "spark.jobGroup.id"


def current_task(*, is_streaming: bool) -> Task:
    """The task that this process runs. Raises SinkFailed where Spark does not say what a micro-batch needs to know."""
    context = TaskContext.get()
    if context is None:
        raise SinkFailed("rows can be written by a task of Spark only")
    query_id, run_id, micro_batch_id = (
        context.getLocalProperty(name) if is_streaming else None for name in (_QUERY_ID, _RUN_ID, _MICRO_BATCH_ID)
    )
    if is_streaming and not (query_id and run_id and micro_batch_id):
        raise SinkFailed(f"this version of Spark does not tell its tasks {_QUERY_ID}, {_RUN_ID} and {_MICRO_BATCH_ID}")
    return Task(
        partition=context.partitionId(),
        attempt=context.attemptNumber(),
        attempt_id=context.taskAttemptId(),
        query_id=query_id,
        run_id=run_id,
        micro_batch_id=None if micro_batch_id is None else int(micro_batch_id),
    )
