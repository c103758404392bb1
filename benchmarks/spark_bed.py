"""Where both ways between Spark and a topic are measured: one session that knows them both, the same brokers, the same records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, Producer

from tests.compatibility.processes import TidelogCluster
from tests.compatibility.spark_connector import connector_setting
from tests.pipeline.hand import Hand
from tidelog.pipeline.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamReader

MASTER: Final = "local[2]"
QUERY_TIMEOUT_S: Final = 600
RECORDS_PER_BATCH: Final = 500
KEY: Final = "concat('key-', lpad(id, 8, '0'))"
_SETTINGS: Final = {"spark.driver.memory": "2g", "spark.sql.streaming.numRecentProgressUpdates": "1000"}
_BROKER_SETTINGS: Final = {
    "auto.create.topics.enable": "false",
    "transaction.two.phase.commit.enable": "true",  # for commit.mode 2pc
    "log.segment.delete.delay.ms": "1000",  # what one round wrote is gone before the disk is full
}
_LONELY: Final = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
"""A single broker has nobody to copy what its coordinators remember."""
_numbers: Final = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A way between Spark and a topic: a format, and what it is told when it reads and when it writes."""

    name: str
    form: str
    reading: Mapping[str, str] = field(default_factory=dict)
    writing: Mapping[str, str] = field(default_factory=dict)


OURS: Final = Side(name="tidelog", form="tidelog")
CONNECTOR: Final = Side(name="connector", form="kafka")
TUNED: Final = Side(
    name="connector tuned",
    form="kafka",
    reading={"kafka.max.partition.fetch.bytes": "4194304", "kafka.max.poll.records": "10000"},
    writing={"kafka.batch.size": "524288", "kafka.linger.ms": "5", "kafka.buffer.memory": "67108864"},
)
"""The connector with the sizes that our source and sink have by default: what somebody gets from it who knows how."""


def in_mode(commit_mode: str) -> Side:
    """Our source, and our sink in one of its modes."""
    return Side(name=f"tidelog {commit_mode}", form="tidelog", writing={"commit.mode": commit_mode})


class Bed:
    """One session and one cluster."""

    def __init__(self, session: SparkSession, bootstrap: str, directory: Path) -> None:
        self.session = session
        self.directory = directory
        self.hand = Hand(bootstrap)
        self._brokers = {"kafka.bootstrap.servers": bootstrap}

    def fresh(self, what: str) -> Path:
        """A directory that is not there yet."""
        return self.directory / f"{what}-{next(_numbers)}"

    @contextmanager
    def topic(self, what: str, partition_count: int) -> Iterator[str]:
        """A topic for as long as it is needed."""
        name = self.hand.create(f"{what}-{next(_numbers)}", partition_count)
        yield name
        self.hand.delete(name)

    def read(self, side: Side, topic: str, columns: tuple[str, ...] | None = None) -> DataFrame:
        """A batch query over a topic, of all columns or of some."""
        return self._load(self.session.read, side, {"subscribe": topic}, columns)

    def stream(self, side: Side, topic: str, offsets_per_trigger: int) -> DataFrame:
        """A streaming query over a topic from its beginning."""
        options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(offsets_per_trigger)}
        return self._load(self.session.readStream, side, options, None)

    def _load(
        self,
        reader: DataFrameReader | DataStreamReader,
        side: Side,
        options: Mapping[str, str],
        columns: tuple[str, ...] | None,
    ) -> DataFrame:
        # Both are asked for the same guarantee; the connector's own default is to read what is not committed, too.
        asked = {**self._brokers, "kafka.isolation.level": "read_committed", **side.reading, **options}
        if columns is None:
            return reader.format(side.form).options(**asked).load()
        if side.form == "tidelog":
            return reader.format(side.form).options(**asked, columns=",".join(columns)).load()
        return reader.format(side.form).options(**asked).load().select(*columns)

    def drain(self, side: Side, frame: DataFrame, topic: str) -> list[dict[str, float]]:
        """Write a stream to a topic until there is no more. What each micro-batch had and took, in order: rows, and times in ms."""
        writer = frame.writeStream.format(side.form).options(**self._brokers, **side.writing, topic=topic)
        checkpoint = self.fresh("checkpoint")
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        _finish(query)
        return [
            {"rows": progress.numInputRows, **progress.durationMs}
            for progress in query.recentProgress
            if progress.numInputRows
        ]

    def fill(self, topic: str, partition_count: int, rows: int, value_bytes: int) -> None:
        """Put records with keys into a topic, in turn over its partitions."""
        failures: list[KafkaError] = []
        settings = {"linger.ms": 20, "batch.num.messages": RECORDS_PER_BATCH, "batch.size": 900_000}
        producer = Producer(
            {
                "bootstrap.servers": self._brokers["kafka.bootstrap.servers"],
                "queue.buffering.max.kbytes": 200_000,
                "on_delivery": lambda error, _message: failures.append(error) if error is not None else None,
                **settings,
            }
        )
        text = bytes(33 + each * 7 % 90 for each in range(value_bytes))
        for number in range(rows):
            value = (b"%012d" % number + text)[:value_bytes]
            _produce(producer, topic, number % partition_count, b"key-%08d" % number, value)
        if producer.flush(QUERY_TIMEOUT_S) or failures:
            raise RuntimeError(f"not everything was acknowledged: {failures[:3]}")


def _produce(producer: Producer, topic: str, partition: int, key: bytes, value: bytes) -> None:
    while True:
        try:
            producer.produce(topic, value, key, partition)
            break
        except BufferError:
            producer.poll(0.1)
    producer.poll(0)


def _finish(query: StreamingQuery) -> None:
    if not query.awaitTermination(QUERY_TIMEOUT_S):
        query.stop()
        raise RuntimeError(f"the query did not end within {QUERY_TIMEOUT_S} s")


@contextmanager
def bed(directory: Path, broker_count: int) -> Iterator[Bed]:
    """Start brokers and a session with the connector. Raises ToolMissing, NoJava or SparkMissing."""
    properties = {**_BROKER_SETTINGS, **(_LONELY if broker_count == 1 else {})}
    with TidelogCluster(directory / "brokers", properties, broker_count=broker_count) as cluster:
        settings = {**_SETTINGS, **connector_setting()}
        session = spark_session("tidelog benchmark", master=MASTER, settings=settings)
        session.sparkContext.setLogLevel("ERROR")
        made = Bed(session, cluster.bootstrap, directory)
        try:
            yield made
        finally:
            session.stop()
            made.hand.close()
