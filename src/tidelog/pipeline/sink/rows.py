"""From the rows of a task to encoded batches: which columns a write may have, which topic a row goes to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.pipeline.codec.encoding import EncodedBatch, encode
from tidelog.pipeline.sink.errors import BadRows
from tidelog.pipeline.sink.options import SinkSettings
from tidelog.pipeline.sink.topics import TopicCounts
from tidelog.runtime.real import real_runtime

if TYPE_CHECKING:
    from tidelog.runtime import Clock

GATHERED_BYTES: Final = 8 << 20
"""How much of a task's rows is encoded together: rows that Spark hands over in small pieces would else make small batches."""

_COLUMNS: Final = ("key", "value", "partition", "headers")


class RowEncoder:
    """Encodes the rows of one task."""

    def __init__(self, settings: SinkSettings) -> None:
        config = settings.producer_config()
        self._topic = settings.topic
        self._compression = config.compression_type.name.lower()
        self._batch_bytes_max = config.batch_size
        self._counts = TopicCounts(settings)
        self._clock: Clock = real_runtime().clock

    def encode(self, rows: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, EncodedBatch]]:
        """Batches and the topics they are for; the rows of one task and one partition stay in order. Raises BadRows or TopicMissing."""
        for gathered in _gathered(rows):
            for topic, some in self._by_topic(gathered):
                yield from ((topic, batch) for batch in self._encode(topic, some))

    def _encode(self, topic: str, rows: pa.RecordBatch) -> list[EncodedBatch]:
        try:
            return encode(
                rows,
                partition_count=self._counts.of(topic, named=_highest_partition(rows)),
                now_ms=self._clock.wall_ms(),
                compression=self._compression,
                batch_bytes_max=self._batch_bytes_max,
            )
        except ValueError as error:
            raise BadRows(f"rows for topic {topic!r} cannot be written: {error}") from error

    def _by_topic(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        used = rows.select([name for name in _COLUMNS if name in rows.schema.names])
        if self._topic is not None:
            yield self._topic, used
            return
        topics = rows.column("topic")
        if topics.null_count:
            raise BadRows("a row has no topic: its column topic is null, and the option topic is not set")
        names = pc.unique(topics).to_pylist()
        for name in names:
            yield name, used if len(names) == 1 else used.filter(pc.equal(topics, name))


def _highest_partition(rows: pa.RecordBatch) -> int:
    """The highest that a row names; 0 where none does. What is no number the encoder refuses."""
    if "partition" not in rows.schema.names or not pa.types.is_int32(rows.column("partition").type):
        return 0
    highest: int | None = pc.max(rows.column("partition")).as_py()
    return highest or 0


def _gathered(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in larger pieces."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in rows:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        size += batch.nbytes
        if size >= GATHERED_BYTES:
            yield _joined(waiting)
            waiting, size = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
