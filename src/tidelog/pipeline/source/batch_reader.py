"""`spark.read`: what lies between two bounds of each partition."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from tidelog.pipeline.source.bearings import Bearings
from tidelog.pipeline.source.contact import Contact
from tidelog.pipeline.source.options import SourceOptions
from tidelog.pipeline.source.planning import TaskRanges, plan, ranges_between
from tidelog.pipeline.source.survey import Survey

if TYPE_CHECKING:
    import pyarrow as pa


class TidelogReader(DataSourceReader):
    """Made in a planner of the driver, where it plans, and pickled from there to the tasks, where it reads."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """One for each task."""
        contact = Contact(self._options.client)
        try:
            tasks = contact.run(self._planned(contact))
        finally:
            contact.close()
        return [InputPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one task; Spark makes up a partition with None where there are no tasks."""
        from tidelog.pipeline.source.reading import read_task

        if partition.value is None:
            return iter(())
        return read_task(partition.value, self._columns, self._options)

    async def _planned(self, contact: Contact) -> list[TaskRanges]:
        survey = Survey(contact.cluster, self._options, contact.runtime)
        partitions = await survey.partitions()
        bearings = Bearings(survey, self._options)
        start, end = await bearings.starting(partitions), await bearings.ending(partitions)
        return plan(ranges_between(start, end, survey.topic_ids), self._options.task_limits, core_count=core_count())


def core_count() -> int:
    """The cores that this process may use: those of local tasks, and a fair guess at how small a small read is elsewhere."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
