"""Spark's own Kafka connector reads and writes our brokers; and our source, given the same options, reads the same rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.cluster.waiting import eventually
from tests.compatibility.apache_kafka import ToolMissing
from tests.compatibility.processes import TidelogCluster
from tests.compatibility.spark_connector import (
    BEGUN_MS,
    Connector,
    Seen,
    connector_jars,
    numbered,
    open_transaction,
    seen,
    session_with_connector,
)
from tests.pipeline.hand import Hand, Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.compat, pytest.mark.spark, pytest.mark.timeout(120)]

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
BROKER_SETTINGS: Final = {
    "auto.create.topics.enable": "false",
    "log.retention.ms": "-1",  # some records here are of long ago
    "tidelog.registry.session.timeout.ms": "3000",
    "replica.lag.time.max.ms": "3000",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogCluster]:
    """Three brokers; who kills one starts it again."""
    with TidelogCluster(tmp_path_factory.mktemp("cluster"), BROKER_SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def hand(cluster: TidelogCluster) -> Iterator[Hand]:
    """A client of the cluster beside Spark."""
    opened = Hand(cluster.bootstrap)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session of this process, with the connector."""
    try:
        connector_jars()
    except ToolMissing as missing:
        pytest.skip(str(missing))
    session = session_with_connector()
    yield session
    session.stop()


@pytest.fixture
def connector(spark: SparkSession, cluster: TidelogCluster) -> Connector:
    """Spark's own."""
    return Connector(spark, cluster.bootstrap)


@pytest.fixture
def ours(spark: SparkSession, cluster: TidelogCluster) -> Connector:
    """The source and sink of this project, in the same session."""
    return Connector(spark, cluster.bootstrap, "tidelog")


def values(rows: list[Seen]) -> set[bytes | None]:
    return {row.value for row in rows}


def arrived(hand: Hand, topic: str) -> list[bytes | None]:
    return [record.value for record in hand.read(topic)]


class TestBatchQueries:
    """`spark.read.format("kafka")`."""

    def test_every_column_of_every_codec_is_read_as_it_was_sent(
        self, connector: Connector, hand: Hand, topic: str
    ) -> None:
        hand.create(topic, len(CODECS))
        expected = []
        for partition, codec in enumerate(CODECS):
            rows = [
                Row(b"x" * 2000, b"key", partition, BEGUN_MS, [("trace", b"\x00\xff"), ("trace", None), ("", b"")]),
                Row(None, None, partition, BEGUN_MS + 1),
                Row(b"", b"", partition, BEGUN_MS + 2),
            ]
            offsets = hand.send(topic, rows, compression_type=codec)
            for offset, row in zip(offsets, rows, strict=True):
                headers = tuple(row.headers)
                expected.append(Seen(row.key, row.value, topic, partition, offset, row.timestamp_ms or 0, 0, headers))

        found = seen(connector.read({"subscribe": topic, "includeHeaders": "true"}))

        assert found == expected

    def test_times_of_the_broker_are_told_as_such(self, connector: Connector, hand: Hand, topic: str) -> None:
        hand.create(topic, configs={"message.timestamp.type": "LogAppendTime"})
        hand.send(topic, [Row(b"old", timestamp_ms=BEGUN_MS)])

        (row,) = seen(connector.read({"subscribe": topic}))

        assert row.timestamp_type == 1
        assert row.timestamp_ms > BEGUN_MS

    def test_offsets_bound_what_is_read(self, connector: Connector, hand: Hand, topic: str) -> None:
        hand.create(topic, 2)
        hand.send(topic, numbered(20, partitions=2))
        bounds = {
            "startingOffsets": json.dumps({topic: {0: 3, 1: -2}}),
            "endingOffsets": json.dumps({topic: {0: 7, 1: -1}}),
        }

        found = seen(connector.read({"subscribe": topic, **bounds}))

        assert [(row.partition, row.offset) for row in found] == [(0, n) for n in range(3, 7)] + [
            (1, n) for n in range(10)
        ]

    @pytest.mark.parametrize("is_by_partition", [False, True], ids=["for-all", "by-partition"])
    def test_times_bound_what_is_read(
        self, connector: Connector, hand: Hand, topic: str, is_by_partition: bool
    ) -> None:
        hand.create(topic, 2)
        hand.send(topic, numbered(20, partitions=2))
        start, end = BEGUN_MS + 4500, BEGUN_MS + 11_000
        bounds = {"startingTimestamp": str(start), "endingTimestamp": str(end)}
        if is_by_partition:
            times = {"startingOffsetsByTimestamp": start, "endingOffsetsByTimestamp": end}
            bounds = {name: json.dumps({topic: {0: moment, 1: moment}}) for name, moment in times.items()}

        found = seen(connector.read({"subscribe": topic, **bounds}))

        assert values(found) == {b"value %d" % number for number in range(5, 11)}

    def test_patterns_and_assignments_choose_what_is_read(self, connector: Connector, hand: Hand, topic: str) -> None:
        for name in ("red", "green", "blue"):
            hand.create(f"{topic}-{name}", 2)
            hand.send(f"{topic}-{name}", [Row(f"{name} {index}".encode(), partition=index) for index in range(2)])

        by_pattern = seen(connector.read({"subscribePattern": f"{topic}-(red|blue)"}))
        assigned = seen(connector.read({"assign": json.dumps({f"{topic}-green": [1], f"{topic}-red": [0]})}))

        assert values(by_pattern) == {b"red 0", b"red 1", b"blue 0", b"blue 1"}
        assert values(assigned) == {b"green 1", b"red 0"}

    def test_a_topic_divided_into_many_tasks_is_read_whole(self, connector: Connector, hand: Hand, topic: str) -> None:
        hand.create(topic, 2)
        hand.send(topic, numbered(100, partitions=2))

        frame = connector.read({"subscribe": topic, "minPartitions": "6"})

        assert frame.rdd.getNumPartitions() >= 6
        assert len(seen(frame)) == 100

    def test_offsets_asked_for_in_the_older_way_are_the_same(
        self, connector: Connector, hand: Hand, topic: str
    ) -> None:
        hand.create(topic, 2)
        hand.send(topic, numbered(10, partitions=2))
        connector.session.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "true")
        try:
            assert len(seen(connector.read({"subscribe": topic}))) == 10
        finally:
            connector.session.conf.unset("spark.sql.streaming.kafka.useDeprecatedOffsetFetching")

    def test_records_that_were_deleted_are_passed_over_or_fail_the_query(
        self, connector: Connector, hand: Hand, topic: str
    ) -> None:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        hand.create(topic)
        hand.send(topic, numbered(10))
        hand.delete_records(topic, {0: 6})
        options = {"subscribe": topic, "startingOffsets": json.dumps({topic: {0: 2}})}

        found = seen(connector.read({**options, "failOnDataLoss": "false"}))

        assert [row.offset for row in found] == [6, 7, 8, 9]
        with pytest.raises((PySparkException, Py4JError)):
            seen(connector.read(options))


class TestTransactions:
    """What is committed is read, what is aborted or open is not, by those who ask for it."""

    def test_an_isolation_level_decides_what_is_read(
        self, connector: Connector, cluster: TidelogCluster, hand: Hand, topic: str
    ) -> None:
        hand.create(topic, 2)
        for partition in range(2):
            sent = [Row(b"committed", partition=partition)]
            hand.send_transaction(topic, sent, transactional_id=f"{topic}-1")
            hand.send_transaction(
                topic, [Row(b"aborted", partition=partition)], transactional_id=f"{topic}-2", commits=False
            )
            hand.send_transaction(topic, sent, transactional_id=f"{topic}-1")
        undecided = open_transaction(cluster.bootstrap, topic)
        try:
            committed = seen(connector.read({"subscribe": topic, "kafka.isolation.level": "read_committed"}))
            everything = seen(connector.read({"subscribe": topic}))
        finally:
            undecided.abort_transaction(30)

        assert [row.value for row in committed] == [b"committed"] * 4
        assert sorted(row.value or b"" for row in everything) == sorted(
            [b"aborted", b"committed", b"committed"] * 2 + [b"undecided"]
        )

    def test_a_stream_reads_committed_records_over_gaps(
        self, connector: Connector, hand: Hand, topic: str, tmp_path: Path
    ) -> None:
        hand.create(topic)
        hand.create(f"{topic}-out")
        for number in range(6):
            rows = [Row(b"%d %d" % (number, each)) for each in range(5)]
            hand.send_transaction(topic, rows, transactional_id=topic, commits=number % 2 == 0)
        options = {"subscribe": topic, "startingOffsets": "earliest", "kafka.isolation.level": "read_committed"}
        frame = connector.stream({**options, "maxOffsetsPerTrigger": "7"}).select("value")

        connector.catch_up(frame, {"topic": f"{topic}-out"}, tmp_path)

        assert arrived(hand, f"{topic}-out") == [b"%d %d" % (n, each) for n in (0, 2, 4) for each in range(5)]


class TestStreams:
    """`readStream` and `writeStream` with `.format("kafka")`: what is read here is written to another topic."""

    def test_available_now_goes_in_steps_and_the_next_run_goes_on_from_there(
        self, connector: Connector, hand: Hand, topic: str, tmp_path: Path
    ) -> None:
        hand.create(topic, 2)
        hand.create(f"{topic}-out", 2)
        hand.send(topic, numbered(40, partitions=2))
        options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "10"}
        frame = connector.stream(options).select("key", "value")

        first = connector.catch_up(frame, {"topic": f"{topic}-out"}, tmp_path)
        hand.send(topic, numbered(5, partitions=2, first=40))
        second = connector.catch_up(frame, {"topic": f"{topic}-out"}, tmp_path)

        assert (first, second) == ([10, 10, 10, 10], [5])
        assert sorted(arrived(hand, f"{topic}-out"), key=str) == sorted(
            (b"value %d" % number for number in range(45)), key=str
        )

    def test_a_running_query_sees_records_and_partitions_as_they_come(
        self, connector: Connector, hand: Hand, topic: str, tmp_path: Path
    ) -> None:
        query = self._copying(connector, hand, topic, tmp_path)
        try:
            hand.send(topic, [b"first"])
            eventually(lambda: arrived(hand, f"{topic}-out") == [b"first"], "the first record is copied")
            hand.grow(topic, 2)
            hand.send(topic, [Row(b"second", partition=1)])
            eventually(lambda: len(arrived(hand, f"{topic}-out")) == 2, "the record of a new partition is copied")
        finally:
            query.stop()
        assert arrived(hand, f"{topic}-out") == [b"first", b"second"]

    def test_a_running_query_outlives_the_kill_of_a_leader(
        self, connector: Connector, cluster: TidelogCluster, hand: Hand, topic: str, tmp_path: Path
    ) -> None:
        query = self._copying(connector, hand, topic, tmp_path)
        try:
            hand.send(topic, [b"before"])
            eventually(lambda: arrived(hand, f"{topic}-out") == [b"before"], "a record is copied")
            leader = hand.leader_of(topic)
            cluster.kill(leader)
            try:
                hand.send(topic, [b"after"])
                eventually(
                    lambda: not query.isActive or b"after" in arrived(hand, f"{topic}-out"),
                    "a record is copied without the leader",
                    timeout_s=90,  # the Java clients' own bounds are 30 and 60 s
                )
            finally:
                cluster.restart(leader)
            assert query.isActive, query.exception()
        finally:
            query.stop()

    def _copying(self, connector: Connector, hand: Hand, topic: str, checkpoint: Path) -> StreamingQuery:
        hand.create(topic)
        hand.create(f"{topic}-out")
        frame = connector.stream({"subscribe": topic, "startingOffsets": "earliest"}).select("value")
        return connector.start(frame, {"topic": f"{topic}-out"}, checkpoint)


class TestWriting:
    """`df.write.format("kafka")`."""

    def test_rows_arrive_as_they_were_written(self, connector: Connector, hand: Hand, topic: str) -> None:
        for name in ("red", "blue"):
            hand.create(f"{topic}-{name}", 3)
        rows = [
            (f"{topic}-red", 2, b"k", b"v", [("trace", b"\x00\xff"), ("", b"")]),
            (f"{topic}-red", 0, None, b"w", None),
            (f"{topic}-blue", 1, b"", None, []),
        ]
        schema = (
            "topic string, partition int, key binary, value binary, headers array<struct<key: string, value: binary>>"
        )

        connector.write(connector.session.createDataFrame(rows, schema))

        found = [record for name in ("red", "blue") for record in hand.read(f"{topic}-{name}")]
        assert {(*record.topic_partition, record.key, record.value, record.headers) for record in found} == {
            (name, partition, key, value, tuple(headers or ())) for name, partition, key, value, headers in rows
        }

    @pytest.mark.parametrize("codec", CODECS)
    def test_rows_of_every_codec_go_where_our_producer_sends_them(
        self, connector: Connector, hand: Hand, topic: str, codec: str
    ) -> None:
        hand.create(topic, 5)
        hand.create(f"{topic}-ours", 5)
        frame = connector.session.range(200).selectExpr("concat('key ', id) as key", "repeat('value ', 20) as value")

        connector.write(frame, {"topic": topic, "kafka.compression.type": codec})
        hand.send(f"{topic}-ours", [Row(b"value " * 20, b"key %d" % number) for number in range(200)])

        theirs, ours = (
            {(record.topic_partition.index, record.key, record.value) for record in hand.read(name)}
            for name in (topic, f"{topic}-ours")
        )
        assert len(theirs) == 200
        assert theirs == ours


class TestOneWord:
    """Moving a query from the connector to our source and sink is a change of one word."""

    @pytest.mark.parametrize(
        "options",
        [
            {"subscribe": "TOPIC"},
            {"subscribe": "TOPIC", "includeHeaders": "true"},
            {"subscribePattern": "TOPIC.*"},
            {"assign": '{"TOPIC": [1]}'},
            {"subscribe": "TOPIC", "startingOffsets": '{"TOPIC": {"0": 4, "1": -2}}'},
            {"subscribe": "TOPIC", "endingOffsets": '{"TOPIC": {"0": 4, "1": -1}}'},
            {"subscribe": "TOPIC", "startingTimestamp": str(BEGUN_MS + 6500), "endingTimestamp": str(BEGUN_MS + 9000)},
            {"subscribe": "TOPIC", "minPartitions": "5", "failOnDataLoss": "false"},
        ],
        ids=lambda options: "-".join(list(options)[-2:]),
    )
    def test_the_same_options_give_the_same_rows(
        self, connector: Connector, ours: Connector, hand: Hand, topic: str, options: dict[str, str]
    ) -> None:
        hand.create(topic, 2)
        hand.send(topic, numbered(20, partitions=2))
        hand.send_transaction(topic, [Row(b"aborted", partition=1)], transactional_id=topic, commits=False)
        hand.send(topic, [Row(None, None, 1, BEGUN_MS + 20_000, [("trace", b"1"), ("trace", None)])])
        asked = {name: text.replace("TOPIC", topic) for name, text in options.items()}
        asked["kafka.isolation.level"] = "read_committed"

        theirs, mine = connector.read(asked), ours.read(asked)

        assert _columns(mine) == _columns(theirs)
        assert seen(mine) == seen(theirs) != []

    @pytest.mark.parametrize("reads_with_ours", [False, True], ids=["connector-to-ours", "ours-to-connector"])
    def test_a_stream_read_by_one_is_written_by_the_other(
        self, connector: Connector, ours: Connector, hand: Hand, topic: str, tmp_path: Path, reads_with_ours: bool
    ) -> None:
        reader, writer = (ours, connector) if reads_with_ours else (connector, ours)
        hand.create(topic, 2)
        hand.create(f"{topic}-out", 2)
        hand.send(topic, numbered(40, partitions=2))
        options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "20"}
        frame = reader.stream({**options, "includeHeaders": "true"}).select("key", "value", "headers")

        rows_of_each = writer.catch_up(frame, {"topic": f"{topic}-out"}, tmp_path)

        assert rows_of_each == [20, 20]
        found = seen(connector.read({"subscribe": f"{topic}-out", "kafka.isolation.level": "read_committed"}))
        assert sorted((row.key, row.value) for row in found) == sorted((row.key, row.value) for row in numbered(40))


def _columns(frame: DataFrame) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]
