"""`spark.readStream`: micro-batch after micro-batch, each from where the last one ended."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from tidelog.pipeline.source.batch_reader import core_count
from tidelog.pipeline.source.contact import Contact
from tidelog.pipeline.source.offsets import positions_in, start_of, topic_ids_in
from tidelog.pipeline.source.options import SourceOptions
from tidelog.pipeline.source.planning import plan, ranges_between
from tidelog.pipeline.source.progress import Progress
from tidelog.pipeline.source.survey import Survey

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


class TidelogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One lives in the driver as long as the query and is asked how far to read; another is pickled to the tasks, where it reads.

    Spark's names and calls; what they mean is in `progress`.
    """

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._contact: Contact | None = None
        self._progress: Progress | None = None

    def initialOffset(self) -> dict[str, object]:  # noqa: N802
        """Where a new query begins."""
        return self._run(self._driving().initial())

    def latestOffset(self, start: Mapping[str, object], limit: ReadLimit) -> dict[str, object]:  # noqa: N802
        """Where the next micro-batch ends."""
        is_limited = not isinstance(limit, ReadAllAvailable)
        return self._run(self._driving().latest(start, is_limited=is_limited))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What maxOffsetsPerTrigger and minOffsetsPerTrigger say; where both do, Spark has no word for it, and the reader heeds both."""
        if self._options.offsets_max is not None:
            return ReadMaxRows(self._options.offsets_max)
        if self._options.offsets_min is not None:
            return ReadMinRows(self._options.offsets_min)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, object] | None:  # noqa: N802
        """Where the logs end, however little of them the next micro-batch reads: the difference is the lag."""
        return None if self._progress is None else self._progress.reported()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read what there is now, and then end."""
        self._run(self._driving().prepare_for_available_now())

    def partitions(self, start: Mapping[str, object], end: Mapping[str, object]) -> list[InputPartition]:
        """One for each task: a function of the offsets and the options alone."""
        ranges = ranges_between(start_of(start, end), positions_in(end), topic_ids_in(end))
        return [InputPartition(task) for task in plan(ranges, self._options.task_limits, core_count=core_count())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one task."""
        from tidelog.pipeline.source.reading import read_task

        return read_task(partition.value, self._columns, self._options)

    def stop(self) -> None:
        """Let go of the brokers."""
        if self._contact is not None:
            self._contact.close()
            self._contact = self._progress = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_contact": None, "_progress": None}

    def _driving(self) -> Progress:
        if self._progress is None:
            self._contact = Contact(self._options.client)
            survey = Survey(self._contact.cluster, self._options, self._contact.runtime)
            self._progress = Progress(survey, self._options, self._contact.runtime.clock)
        return self._progress

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._contact is None:
            work.close()
            raise RuntimeError("the source was stopped")
        return self._contact.run(work)
