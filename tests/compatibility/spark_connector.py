"""Spark's own Kafka connector, from Maven: the other way between a topic and Spark, with the Java client under it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import confluent_kafka

from tests.compatibility.apache_kafka import POM, ROOT, fetched, version
from tests.pipeline.hand import Row
from tidelog.pipeline.session import spark_session
from tidelog.records.record import RecordHeader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CONNECTOR_POM: Final = POM.with_name("spark-pom.xml")
QUERY_TIMEOUT_S: Final = 60
BEGUN_MS: Final = 1_700_000_000_000
_CALL_TIMEOUT_S: Final = 90
_SETTINGS: Final = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.pollingDelay": "50ms",
}


def connector_jars() -> Path:
    """The directory with the connector's jars, without those that PySpark brings; fetched on first use. Raises ToolMissing."""
    return fetched(CONNECTOR_POM, ROOT / ".cache" / f"spark-kafka-{version(CONNECTOR_POM)}")


def connector_setting() -> dict[str, str]:
    """What a session is started with, to know the connector."""
    return {"spark.jars": ",".join(str(jar) for jar in sorted(connector_jars().glob("*.jar")))}


def session_with_connector() -> SparkSession:
    """The session of this process, which knows the connector, whoever started it."""
    wanted = connector_setting()
    session = spark_session("tidelog and the connector", settings={**_SETTINGS, **wanted})
    session.sparkContext.setLogLevel("ERROR")
    if session.sparkContext.getConf().get("spark.jars", "") != wanted["spark.jars"]:
        for jar in wanted["spark.jars"].split(","):
            session.sql(f"ADD JAR '{jar}'")
    return session


def numbered(count: int, *, partitions: int = 1, first: int = 0) -> list[Row]:
    """Records a second apart, in turn over the partitions."""
    return [
        Row(
            b"value %d" % number,
            key=b"key %d" % number,
            partition=number % partitions,
            timestamp_ms=BEGUN_MS + 1000 * number,
        )
        for number in range(first, first + count)
    ]


def open_transaction(bootstrap: str, topic: str) -> confluent_kafka.Producer:
    """A producer that has sent a record to partition 0, and not decided yet."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-open"})
    producer.init_transactions(_CALL_TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"undecided", partition=0)
    assert producer.flush(_CALL_TIMEOUT_S) == 0
    return producer


class Seen(NamedTuple):
    """A row of a topic."""

    key: bytes | None
    value: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    headers: tuple[RecordHeader, ...] = ()


class Connector:
    """Queries over topics of one cluster, by a format of Spark: the connector's is `kafka`."""

    def __init__(self, session: SparkSession, bootstrap: str, form: str = "kafka") -> None:
        self.session = session
        self._form = form
        self._brokers = {"kafka.bootstrap.servers": bootstrap}

    def read(self, options: dict[str, str]) -> DataFrame:
        """A batch query."""
        return self.session.read.format(self._form).options(**self._brokers, **options).load()

    def stream(self, options: dict[str, str]) -> DataFrame:
        """A streaming query."""
        return self.session.readStream.format(self._form).options(**self._brokers, **options).load()

    def write(self, frame: DataFrame, options: dict[str, str] | None = None) -> None:
        """Write the rows of a batch query."""
        frame.write.format(self._form).options(**self._brokers, **(options or {})).mode("append").save()

    def start(self, frame: DataFrame, options: dict[str, str], checkpoint: Path) -> StreamingQuery:
        """Write the rows of a streaming query as they come."""
        writer = frame.writeStream.format(self._form).options(**self._brokers, **options)
        return writer.option("checkpointLocation", str(checkpoint)).start()

    def catch_up(self, frame: DataFrame, options: dict[str, str], checkpoint: Path) -> list[int]:
        """Write the rows that there are now, and end; how many rows each micro-batch had."""
        writer = frame.writeStream.format(self._form).options(**self._brokers, **options)
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        assert query.awaitTermination(QUERY_TIMEOUT_S), query.status
        return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


def seen(frame: DataFrame) -> list[Seen]:
    """All rows, by topic, partition and offset."""
    columns = ["key", "value", "topic", "partition", "offset", "unix_millis(timestamp)", "timestampType"]
    with_headers = "headers" in frame.columns
    rows = frame.selectExpr(*columns, *(["headers"] if with_headers else [])).collect()
    return sorted((_seen(row) for row in rows), key=lambda row: (row.topic, row.partition, row.offset))


def _seen(row: tuple[object, ...]) -> Seen:
    key, value, topic, partition, offset, timestamp_ms, timestamp_type, *rest = row
    headers = tuple((name, _bytes(content)) for name, content in (rest[0] or ())) if rest else ()  # type: ignore[attr-defined]
    return Seen(_bytes(key), _bytes(value), topic, partition, offset, timestamp_ms, timestamp_type, headers)  # type: ignore[arg-type]


def _bytes(content: object) -> bytes | None:
    return bytes(content) if isinstance(content, bytes | bytearray) else None
