"""A streaming query without Spark: a checkpoint, tasks and a driver, whose calls a test makes one by one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from tidelog.pipeline.sink.driver_client import forget_driver_client
from tidelog.pipeline.sink.modes import Mode, Task, mode_of
from tidelog.pipeline.sink.options import SinkSettings


class DrivenQuery:
    """What Spark would do for one run of a query. Runs on one checkpoint share everything but their run id and their connections."""

    def __init__(
        self, bootstrap: str, checkpoint: Path, *, run: str = "run-1", query_id: str | None = None, **options: str
    ) -> None:
        self.checkpoint = checkpoint
        self.query_id = query_id or f"query-{hashlib.sha256(str(checkpoint).encode()).hexdigest()[:12]}"
        self.run = run
        (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
        (checkpoint / "metadata").write_text(json.dumps({"id": self.query_id}))
        named = {name.replace("__", "."): value for name, value in options.items()}
        # A client id of its own keeps the connections of each run apart, as in processes of their own.
        self.settings = SinkSettings.of_stream(
            {
                "kafka.bootstrap.servers": bootstrap,
                "kafka.client.id": run,
                "checkpointLocation": str(checkpoint),
                **named,
            }
        )
        self._attempts = 0

    def plan(self, micro_batch_id: int, *offsets: dict[str, Any]) -> None:
        """Write down where the micro-batch ends in its sources, unless that is done."""
        file = self.checkpoint / "offsets" / str(micro_batch_id)
        if not file.exists():
            file.write_text("\n".join(["v1", "{}", *(json.dumps(each) for each in offsets)]))

    def write(
        self, micro_batch_id: int, *partitions: Iterable[Any], mode: Mode | None = None
    ) -> list[WriterCommitMessage | None]:
        """Run one successful task for each partition's rows; returns the messages."""
        self.plan(micro_batch_id, {"source": {"0": micro_batch_id}})
        written = mode or self.mode
        return [
            written.task_write(iter([rows_of(rows)]), self.task(micro_batch_id, index))
            for index, rows in enumerate(partitions)
        ]

    def task(self, micro_batch_id: int, partition: int = 0, *, attempt: int = 0) -> Task:
        self._attempts += 1
        return Task(
            partition=partition,
            attempt=attempt,
            attempt_id=self._attempts,
            query_id=self.query_id,
            run_id=self.run,
            micro_batch_id=micro_batch_id,
        )

    def run_micro_batch(self, micro_batch_id: int, *partitions: Iterable[Any]) -> None:
        """Tasks and commit, with another object for each as Spark makes it."""
        messages = self.write(micro_batch_id, *partitions)
        self.mode.commit(messages, micro_batch_id)

    @property
    def mode(self) -> Mode:
        """Another one every time."""
        return mode_of(self.settings)

    def staged(self) -> list[str]:
        """Names of all files in the staging directory."""
        directory = self.settings.staging
        return sorted(file.name for file in directory.iterdir()) if directory.exists() else []

    def close(self) -> None:
        """End the driver's process, as far as brokers see it."""
        forget_driver_client(self.settings)


def rows_of(rows: Iterable[Any]) -> pa.RecordBatch:
    """Rows as Spark hands them over: values alone, or dicts of columns."""
    listed: Sequence[Any] = list(rows)
    if listed and isinstance(listed[0], dict):
        return pa.RecordBatch.from_pylist(listed, schema=_schema_of(listed[0]))
    return pa.RecordBatch.from_arrays([pa.array(listed, pa.binary())], names=["value"])


def _schema_of(row: dict[str, Any]) -> pa.Schema:
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    types = {"topic": pa.string(), "partition": pa.int32(), "headers": headers}
    return pa.schema([(name, types.get(name, pa.binary())) for name in row])
