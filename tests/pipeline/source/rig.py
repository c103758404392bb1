"""The parts of one query over one topic, as the driver and the tasks use them, without Spark between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.model import Offset, TopicId, TopicPartition
from tidelog.pipeline.source.bearings import Bearings
from tidelog.pipeline.source.contact import Contact
from tidelog.pipeline.source.options import SourceOptions
from tidelog.pipeline.source.planning import Range, TaskRanges
from tidelog.pipeline.source.progress import Progress
from tidelog.pipeline.source.reading import read_ranges
from tidelog.pipeline.source.survey import Survey

PATIENT_ENOUGH = {"kafka.retry.backoff.ms": "50", "kafka.request.timeout.ms": "4000"}


class Read(NamedTuple):
    """A record as a row of the source."""

    partition: int
    offset: Offset
    value: bytes | None


class Rig:
    """Close it at the end."""

    def __init__(self, bootstrap: str, topic: str, *, streams: bool, options: Mapping[str, str]) -> None:
        given = {name.replace("__", "."): value for name, value in options.items()}
        if not {"subscribe", "subscribePattern", "assign"} & set(given):
            given["subscribe"] = topic
        all_options = {"kafka.bootstrap.servers": bootstrap, **PATIENT_ENOUGH, **given}
        self.topic = topic
        self.options = (SourceOptions.of_stream if streams else SourceOptions.of_batch)(all_options)
        self.contact = Contact(self.options.client)
        self.survey = Survey(self.contact.cluster, self.options, self.contact.runtime)
        self.progress = Progress(self.survey, self.options, self.contact.runtime.clock)

    def close(self) -> None:
        self.contact.close()

    def partitions(self) -> list[TopicPartition]:
        return self.contact.run(self.survey.partitions())

    def survey_topic_id(self) -> TopicId | None:
        self.partitions()
        return self.survey.topic_ids.get(self.topic)

    def starting(self) -> dict[int, Offset]:
        found = self.contact.run(Bearings(self.survey, self.options).starting(self.partitions()))
        return {key.index: offset for key, offset in found.items()}

    def ending(self) -> dict[int, Offset]:
        found = self.contact.run(Bearings(self.survey, self.options).ending(self.partitions()))
        return {key.index: offset for key, offset in found.items()}

    def initial(self) -> dict[str, object]:
        return self.contact.run(self.progress.initial())

    def latest(self, start: Mapping[str, object], *, is_limited: bool = True) -> dict[str, object]:
        return self.contact.run(self.progress.latest(start, is_limited=is_limited))

    def task(self, *ranges: tuple[int, Offset, Offset]) -> TaskRanges:
        return TaskRanges(tuple(Range(TopicPartition(self.topic, at), start, end) for at, start, end in ranges))

    def read(self, *ranges: tuple[int, Offset, Offset]) -> list[Read]:
        """What a task of these ranges hands out, partition by partition."""
        return self.read_task(self.task(*ranges))

    def read_task(self, task: TaskRanges) -> list[Read]:
        """What a task hands out, partition by partition."""
        columns = ("partition", "offset", "value")
        rows = [
            Read(*row)
            for batch in read_ranges(self.contact, task, columns, self.options)
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        ]
        return sorted(rows, key=lambda row: row.partition)  # stable: the order within a partition is the task's
