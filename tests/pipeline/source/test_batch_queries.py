"""`spark.read.format("tidelog")`."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from tests.compatibility.processes import TidelogCluster
from tests.pipeline.hand import Hand, Row
from tests.pipeline.source.queries import reader, refusal, values
from tidelog.pipeline.source.contact import SILENCE_TIMEOUT_MS
from tidelog.testing.ports import free_ports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

OFFICIAL = (
    "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int"
)


def test_columns_are_those_of_sparks_own_source_for_kafka(
    spark: SparkSession, cluster: TidelogCluster, hand: Hand, topic: str
) -> None:
    hand.create(topic, 1)
    hand.send(topic, [Row(b"v", key=b"k", timestamp_ms=1_700_000_000_123, headers=[("h", b"1"), ("n", None)])])
    hand.send(topic, [Row(None)])
    plain = reader(spark, cluster, subscribe=topic).load()
    assert plain.schema.simpleString() == OFFICIAL + ">"
    frame = reader(spark, cluster, subscribe=topic, includeHeaders="true").load()
    assert frame.schema.simpleString() == OFFICIAL + ",headers:array<struct<key:string,value:binary>>>"
    first, second = frame.orderBy("offset").collect()
    when = frame.orderBy("offset").selectExpr("unix_millis(timestamp) AS at").first()
    assert (bytes(first.key), bytes(first.value), first.topic, first.partition, first.offset) == (
        b"k",
        b"v",
        topic,
        0,
        0,
    )
    assert when is not None
    assert when["at"] == 1_700_000_000_123
    assert first.timestamp.astimezone(UTC) == datetime.fromtimestamp(1_700_000_000.123, UTC)
    assert first.timestampType == 0
    assert [(each.key, each.value and bytes(each.value)) for each in first.headers] == [("h", b"1"), ("n", None)]
    assert (second.key, second.value, second.headers) == (None, None, None)


def test_a_topic_with_times_of_the_broker_says_so(
    spark: SparkSession, cluster: TidelogCluster, hand: Hand, topic: str
) -> None:
    hand.create(topic, 1, {"message.timestamp.type": "LogAppendTime"})
    hand.send(topic, [Row(b"v", timestamp_ms=5)])
    (row,) = reader(spark, cluster, subscribe=topic, columns="timestamp,timestampType").load().collect()
    assert row.timestampType == 1
    assert row.timestamp.year > 2000


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_are_read(
    spark: SparkSession, cluster: TidelogCluster, hand: Hand, topic: str, codec: str
) -> None:
    hand.create(topic, 2)
    sent = [b"%d" % at for at in range(500)]
    hand.send(topic, [Row(value, key=value) for value in sent], compression_type=codec)
    assert values(reader(spark, cluster, subscribe=topic).load()) == sorted(sent)


def test_only_the_columns_of_a_schema_are_read(
    spark: SparkSession, cluster: TidelogCluster, hand: Hand, topic: str
) -> None:
    hand.create(topic, 1)
    hand.send(topic, [Row(b"v", key=b"k")])
    for frame in (
        reader(spark, cluster, subscribe=topic).schema("value binary, key binary").load(),
        reader(spark, cluster, subscribe=topic, columns="value,key").load(),
    ):
        assert frame.columns == ["value", "key"]
        assert [tuple(map(bytes, row)) for row in frame.collect()] == [(b"v", b"k")]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("value string", "column value is binary, not string"),
        ("valeu binary", "there is no column 'valeu'; did you mean value?"),
        ("value binary not null", "leave out NOT NULL"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused(
    spark: SparkSession, cluster: TidelogCluster, hand: Hand, topic: str, schema: str, said: str
) -> None:
    hand.create(topic, 1)
    assert said in refusal(lambda: reader(spark, cluster, subscribe=topic).schema(schema).load().collect())


def test_offsets_and_times_bound_a_query(spark: SparkSession, cluster: TidelogCluster, hand: Hand, topic: str) -> None:
    hand.create(topic, 2)
    hand.send(
        topic, [Row(b"%d-%d" % (p, at), partition=p, timestamp_ms=1000 + at) for p in range(2) for at in range(5)]
    )
    by_offset = reader(
        spark,
        cluster,
        subscribe=topic,
        startingOffsets=f'{{"{topic}":{{"0":3,"1":-2}}}}',
        endingOffsets=f'{{"{topic}":{{"0":-1,"1":2}}}}',
    )
    assert values(by_offset.load()) == [b"0-3", b"0-4", b"1-0", b"1-1"]
    by_time = reader(spark, cluster, subscribe=topic, startingTimestamp="1002", endingTimestamp="1003")
    assert values(by_time.load()) == [b"0-2", b"1-2"]


def test_partitions_and_patterns_choose_what_is_read(
    spark: SparkSession, cluster: TidelogCluster, hand: Hand, topic: str
) -> None:
    hand.create(topic, 2)
    hand.create(f"{topic}-other", 1)
    hand.send(topic, [Row(b"0", partition=0), Row(b"1", partition=1)])
    hand.send(f"{topic}-other", [b"other"])
    assert values(reader(spark, cluster, assign=f'{{"{topic}":[1]}}').load()) == [b"1"]
    assert values(reader(spark, cluster, subscribePattern=f"{topic}-o.*").load()) == [b"other"]
    assert values(reader(spark, cluster, subscribe=f"{topic},{topic}-other").load()) == [b"0", b"1", b"other"]


def test_undecided_and_aborted_records_are_not_read(
    spark: SparkSession, cluster: TidelogCluster, hand: Hand, topic: str
) -> None:
    hand.create(topic, 1)
    hand.send_transaction(topic, [b"aborted"], transactional_id=topic, commits=False)
    hand.send(topic, [b"plain"])
    with hand.open_transaction(topic, [b"undecided"], transactional_id=topic):
        assert values(reader(spark, cluster, subscribe=topic).load()) == [b"plain"]
        loose = reader(spark, cluster, subscribe=topic, kafka__isolation__level="read_uncommitted")
        assert values(loose.load()) == [b"aborted", b"plain", b"undecided"]


def test_many_partitions_make_few_tasks(spark: SparkSession, cluster: TidelogCluster, hand: Hand, topic: str) -> None:
    hand.create(topic, 12)
    hand.send(topic, [Row(b"x", partition=at % 12) for at in range(120)])
    counts = [
        reader(spark, cluster, subscribe=topic, **options).load().rdd.getNumPartitions()
        for options in ({"maxPartitions": "3"}, {"minPartitions": "20"}, {"maxRecordsPerPartition": "5"})
    ]
    assert counts[0] == 3
    assert counts[1] >= 20
    assert counts[2] >= 24
    assert reader(spark, cluster, subscribe=topic, minPartitions="20").load().count() == 120


def test_a_topic_without_records_has_no_rows(
    spark: SparkSession, cluster: TidelogCluster, hand: Hand, topic: str
) -> None:
    hand.create(topic, 3)
    assert reader(spark, cluster, subscribe=topic).load().count() == 0


def test_a_query_may_take_less_than_there_is(
    spark: SparkSession, cluster: TidelogCluster, hand: Hand, topic: str
) -> None:
    hand.create(topic, 1)
    hand.send(topic, [Row(bytes(1000)) for _ in range(5000)])
    frame = reader(spark, cluster, subscribe=topic).load()
    assert len(frame.take(3)) == 3
    assert frame.count() == 5000


def test_sql_reads_topics(spark: SparkSession, cluster: TidelogCluster, hand: Hand, topic: str) -> None:
    hand.create(topic, 1)
    hand.send(topic, [b"v"])
    options = f"`kafka.bootstrap.servers` '{cluster.bootstrap}', subscribe '{topic}'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW topic_in_sql USING tidelog OPTIONS ({options})")
    assert spark.sql("SELECT CAST(value AS STRING) v FROM topic_in_sql").collect()[0].v == "v"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffsetz": "earliest"}, "did you mean startingOffsets?"),
        ({"failOnDataLoss": "maybe"}, "Option failOnDataLoss: 'maybe' is not accepted, but true or false is"),
        ({"kafka__security__protocol": "SSL"}, "Option kafka.security.protocol: tidelog speaks to brokers without"),
        ({"kafka__sasl__mechanism": "PLAIN"}, "Option kafka.sasl.mechanism"),
        ({"assign": '{"x":[0]}'}, "set exactly one of subscribe, subscribePattern and assign"),
    ],
)
def test_wrong_options_are_refused_when_a_query_is_written(
    spark: SparkSession, cluster: TidelogCluster, topic: str, options: dict[str, str], said: str
) -> None:
    assert said in refusal(lambda: reader(spark, cluster, subscribe=topic, **options).load())


def test_a_topic_that_does_not_exist_is_named(spark: SparkSession, cluster: TidelogCluster, topic: str) -> None:
    said = refusal(lambda: reader(spark, cluster, subscribe=topic).load().collect())
    assert f"Option subscribe: topic '{topic}' does not exist at {cluster.bootstrap}" in said


def test_an_offset_out_of_range_is_named(spark: SparkSession, cluster: TidelogCluster, hand: Hand, topic: str) -> None:
    hand.create(topic, 1)
    hand.send(topic, [b"a", b"b"])
    place = f'{{"{topic}":{{"0":7}}}}'
    said = refusal(lambda: reader(spark, cluster, subscribe=topic, startingOffsets=place).load().collect())
    assert f"Option startingOffsets: offset 7 of {topic}-0 is out of range, which is from 0 to 2" in said


@pytest.mark.timed
def test_brokers_that_cannot_be_reached_are_named_within_seconds(spark: SparkSession, topic: str) -> None:
    (port,) = free_ports(1)
    options = {"kafka.bootstrap.servers": f"127.0.0.1:{port}", "subscribe": topic}
    said = refusal(lambda: spark.read.format("tidelog").options(**options).load().collect())
    found = re.search(r"no broker of the option kafka.bootstrap.servers answered within ([0-9]+) s", said)
    assert found is not None  # Spark's own first steps take long, and are not what this is about
    assert int(found[1]) <= SILENCE_TIMEOUT_MS / 1000
    assert f"127.0.0.1:{port}: Connection refused" in said
