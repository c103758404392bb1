"""What both ways between Spark and a topic are made to do. A load is a list of cases; each case is measured by itself, taking turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from benchmarks.loads import Reading
from benchmarks.spark_bed import CONNECTOR, KEY, Bed, Side
from benchmarks.statistics import percentile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VALUE_BYTES: Final = (100, 1_000)
PARTITIONS: Final = 4
OVERHEAD_PARTITIONS: Final = (1, 4)
FILES_PER_MICRO_BATCH: Final = 2
TWO_COLUMNS: Final = ("key", "value")
WARM_MICRO_BATCHES: Final = 5  # of those of one row: the first ones connect, compile and fill caches


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much is done per run."""

    rows: int  # of 100 bytes; half as many of 1 kB
    micro_batches: int  # large ones, for the rate of the sink
    small_micro_batches: int  # of one row per partition, for their overhead

    def rows_of(self, value_bytes: int) -> int:
        """How many rows of a size make one run."""
        return self.rows if value_bytes == VALUE_BYTES[0] else self.rows // 2


class Case(Protocol):
    """One thing to measure."""

    @property
    def title(self) -> str:
        """What is measured."""
        ...

    @property
    def bar(self) -> float | None:
        """The ratio that is wanted."""
        ...

    def check(self, sides: list[Side]) -> None:
        """Raises if a side does not do what it is measured at."""
        ...

    def run(self, side: Side) -> list[Reading]:
        """Do it once."""
        ...


Load = Callable[[Bed, Scale], Iterator[Case]]


def source(bed: Bed, scale: Scale) -> Iterator[Case]:
    """Rows per second of a batch query over 4 partitions, until every column of every row has been handed over (to Spark's noop)."""
    for value_bytes in VALUE_BYTES:
        rows = scale.rows_of(value_bytes)
        with bed.topic(f"source-{value_bytes}", PARTITIONS) as topic:
            bed.fill(topic, PARTITIONS, rows, value_bytes)
            title = f"source, {value_bytes} B"
            yield _Reading(bed, f"{title}, all columns", 1.0, topic, rows, None)
            yield _Reading(bed, f"{title}, key and value only", 1.5, topic, rows, TWO_COLUMNS)


@dataclass(frozen=True, slots=True)
class _Reading:
    bed: Bed
    title: str
    bar: float | None
    topic: str
    rows: int
    columns: tuple[str, ...] | None

    def check(self, sides: list[Side]) -> None:
        found = {side.name: _digest(self.bed.read(side, self.topic, self.columns)) for side in sides}
        if len(set(found.values())) > 1 or {count for count, _ in found.values()} != {self.rows}:
            raise RuntimeError(f"not the same {self.rows} rows were read: {found}")

    def run(self, side: Side) -> list[Reading]:
        took_s = _timed(lambda: _hand_over(self.bed.read(side, self.topic, self.columns)))
        return [Reading(name="rows", unit="1000/s", value=self.rows / took_s / 1000)]


def sink(bed: Bed, scale: Scale) -> Iterator[Case]:
    """Rows per second of micro-batches from Parquet files to 4 partitions, by Spark's own count of how long each took in all."""
    for value_bytes in VALUE_BYTES:
        rows_each = scale.rows_of(value_bytes) // scale.micro_batches
        micro_batches = scale.micro_batches + 1  # the first one connects and makes producers, and is not counted
        frame = _parquet(bed, rows_each, micro_batches, value_bytes)
        yield _Writing(bed, f"sink, {value_bytes} B", 1.0, frame, rows_each * micro_batches)


@dataclass(frozen=True, slots=True)
class _Writing:
    bed: Bed
    title: str
    bar: float | None
    frame: DataFrame
    rows: int

    def check(self, sides: list[Side]) -> None:
        for side in sides:
            with self.bed.topic("sink", PARTITIONS) as topic:
                self.bed.drain(side, self.frame, topic)
                found = self.bed.read(CONNECTOR, topic, TWO_COLUMNS).distinct().count()
            if found != self.rows:
                raise RuntimeError(f"{side.name} wrote {found} rows of {self.rows}")

    def run(self, side: Side) -> list[Reading]:
        with self.bed.topic("sink", PARTITIONS) as topic:
            counted = self.bed.drain(side, self.frame, topic)[1:]
        took_ms = sum(one["triggerExecution"] for one in counted)
        return [Reading(name="rows", unit="1000/s", value=sum(one["rows"] for one in counted) / took_ms)]


def overhead(bed: Bed, scale: Scale) -> Iterator[Case]:
    """From topic to topic, one row per partition and micro-batch: what a micro-batch takes however little it has to do."""
    micro_batches = WARM_MICRO_BATCHES + scale.small_micro_batches
    for partition_count in OVERHEAD_PARTITIONS:
        with bed.topic("overhead", partition_count) as topic:
            bed.fill(topic, partition_count, micro_batches * partition_count, VALUE_BYTES[0])
            title = f"micro-batch, {partition_count} partition{'s' * (partition_count > 1)}"
            yield _Stepping(bed, title, None, topic, partition_count, micro_batches)


@dataclass(frozen=True, slots=True)
class _Stepping:
    bed: Bed
    title: str
    bar: float | None
    topic: str
    partition_count: int
    micro_batches: int

    def check(self, sides: list[Side]) -> None:
        for side in sides:
            with self.bed.topic("copies", self.partition_count) as copies:
                rows = [int(one["rows"]) for one in self._copy(side, copies)]
                found = self.bed.read(CONNECTOR, copies, TWO_COLUMNS).distinct().count()
            if rows != [self.partition_count] * self.micro_batches or found != sum(rows):
                raise RuntimeError(f"{side.name} copied {found} rows, in micro-batches of {rows}")

    def run(self, side: Side) -> list[Reading]:
        with self.bed.topic("copies", self.partition_count) as copies:
            settled = self._copy(side, copies)[WARM_MICRO_BATCHES:]
        whole = sorted(one["triggerExecution"] for one in settled)
        job = sorted(one["addBatch"] for one in settled)
        return [
            Reading(name="p50", unit="ms", value=percentile(whole, 0.5), is_better_high=False),
            Reading(name="p95", unit="ms", value=percentile(whole, 0.95), is_better_high=False),
            Reading(name="p50 of the job alone", unit="ms", value=percentile(job, 0.5), is_better_high=False),
        ]

    def _copy(self, side: Side, copies: str) -> list[dict[str, float]]:
        frame = self.bed.stream(side, self.topic, self.partition_count).select(*TWO_COLUMNS)
        return self.bed.drain(side, frame, copies)


LOADS: Final[dict[str, Load]] = {"source": source, "sink": sink, "overhead": overhead}


def _timed(work: Callable[[], object]) -> float:
    begun_s = time.perf_counter()
    work()
    return time.perf_counter() - begun_s


def _hand_over(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _digest(frame: DataFrame) -> tuple[int, int]:
    """How many rows there are, and what all their columns add up to, in whatever order they come."""
    (row,) = frame.selectExpr("count(1)", f"bit_xor(xxhash64({', '.join(frame.columns)}))").collect()
    return row[0], row[1]


def _parquet(bed: Bed, rows_each: int, micro_batches: int, value_bytes: int) -> DataFrame:
    """A stream of files that are there already, so that making the rows costs little, and the same for everybody."""
    directory = bed.fresh("rows")
    rows = bed.session.range(0, rows_each * micro_batches, 1, FILES_PER_MICRO_BATCH * micro_batches)
    text = f"rpad(lpad(id, 12, '0'), {value_bytes}, 'the quick brown fox jumps over the lazy dog; ')"
    columns = rows.selectExpr(f"{KEY} as key", f"{text} as value")
    columns.write.option("compression", "none").parquet(str(directory))
    reader = bed.session.readStream.schema("key string, value string")
    return reader.option("maxFilesPerTrigger", FILES_PER_MICRO_BATCH).parquet(str(directory))
