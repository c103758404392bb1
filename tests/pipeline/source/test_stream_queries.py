"""`spark.readStream.format("tidelog")`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.waiting import eventually
from tests.compatibility.processes import TidelogCluster
from tests.pipeline.hand import Hand, Row
from tests.pipeline.source.queries import END_S, Seen, refusal, stream_reader
from tests.pipeline.starting import start_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def numbered(start: int, end: int, partition: int | None = None) -> list[Row]:
    return [Row(b"%d" % at, partition=partition) for at in range(start, end)]


def end_of(
    progress: Any,
) -> dict[str, dict[str, int]]:  # Spark's progress is a dictionary, or an object that acts as one
    decoded = json.loads(progress["sources"][0]["endOffset"])
    return {topic: positions for topic, positions in decoded.items() if not topic.startswith("@")}


def test_available_now_reads_in_bounded_micro_batches_and_ends(
    spark: SparkSession, cluster: TidelogCluster, hand: Hand, topic: str, checkpoint: str
) -> None:
    hand.create(topic, 2)
    hand.send(topic, numbered(0, 100))
    frame = stream_reader(spark, cluster, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="30").load()
    seen = Seen()
    query = seen.read_available(frame, checkpoint)
    sizes = [progress["numInputRows"] for progress in query.recentProgress]
    assert sum(sizes) == 100
    assert max(sizes) <= 30
    assert seen.numbers == list(range(100))


def test_the_lag_is_in_the_progress(
    spark: SparkSession, cluster: TidelogCluster, hand: Hand, topic: str, checkpoint: str
) -> None:
    hand.create(topic, 1)
    hand.send(topic, numbered(0, 50))
    frame = stream_reader(spark, cluster, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="20").load()
    query = Seen().read_available(frame, checkpoint)
    source = query.recentProgress[0]["sources"][0]
    assert json.loads(source["latestOffset"]) == {topic: {"0": 50}}
    assert end_of(query.recentProgress[0]) == {topic: {"0": 20}}


def test_what_comes_is_read_also_from_new_partitions(
    spark: SparkSession, cluster: TidelogCluster, hand: Hand, topic: str, checkpoint: str
) -> None:
    hand.create(topic, 1)
    hand.send(topic, numbered(900, 910))  # before the query, which begins at the latest record
    frame = stream_reader(spark, cluster, subscribe=topic).load()
    seen = Seen()
    with seen.reading(frame, checkpoint) as query:
        eventually(lambda: query.lastProgress is not None, "the query has begun", timeout_s=END_S)
        hand.send(topic, numbered(0, 10))
        eventually(lambda: seen.numbers == list(range(10)), "new records are read", timeout_s=END_S)
        hand.grow(topic, 2)
        hand.send(topic, numbered(10, 20, partition=1))
        eventually(lambda: seen.numbers == list(range(20)), "a new partition is read", timeout_s=END_S)


def test_a_query_goes_on_where_its_checkpoint_says(
    spark: SparkSession, cluster: TidelogCluster, hand: Hand, topic: str, checkpoint: str
) -> None:
    hand.create(topic, 2)
    seen = Seen()
    for run in range(3):
        hand.send(topic, numbered(10 * run, 10 * run + 10))
        frame = stream_reader(spark, cluster, subscribe=topic, startingOffsets="earliest").load()
        seen.read_available(frame, checkpoint)
    assert seen.numbers == list(range(30))


@pytest.mark.proof
def test_a_query_that_began_at_latest_reads_what_came_while_it_was_down(
    spark: SparkSession, cluster: TidelogCluster, hand: Hand, topic: str, checkpoint: str
) -> None:
    hand.create(topic, 1)
    frame = stream_reader(spark, cluster, subscribe=topic).load()
    Seen().read_available(frame, checkpoint)  # begins at the latest record, which is none, and writes that down
    hand.send(topic, numbered(0, 10))
    seen = Seen()
    seen.read_available(frame, checkpoint)
    assert seen.numbers == list(range(10))


@pytest.mark.proof
def test_the_first_micro_batch_is_repeated_from_where_it_began(
    spark: SparkSession, cluster: TidelogCluster, hand: Hand, topic: str, checkpoint: str
) -> None:
    from pyspark.errors import StreamingQueryException

    hand.create(topic, 1)
    frame = stream_reader(spark, cluster, subscribe=topic, startingTimestamp="1").option(
        "startingOffsetsByTimestampStrategy", "latest"
    )
    hand.send(topic, numbered(0, 10))

    def fail(_frame: DataFrame, _micro_batch_id: int) -> None:
        raise ValueError("on purpose")

    query = frame.load().writeStream.foreachBatch(fail).option("checkpointLocation", checkpoint)
    with pytest.raises(StreamingQueryException, match="on purpose"):
        start_query(query.trigger(availableNow=True)).awaitTermination(END_S)
    hand.send(topic, numbered(10, 15))
    seen = Seen()
    # Asked again, the query would begin at the latest record by now.
    seen.read_available(stream_reader(spark, cluster, subscribe=topic).load(), checkpoint)
    assert seen.numbers == list(range(15))


@pytest.mark.proof
def test_windows_close_with_micro_batches_that_read_nothing(
    spark: SparkSession, cluster: TidelogCluster, hand: Hand, topic: str, checkpoint: str
) -> None:
    hand.create(topic, 1)
    hand.send(topic, [Row(b"x", timestamp_ms=at * 1000) for at in (1, 2, 3, 100)])
    frame = stream_reader(spark, cluster, subscribe=topic, startingOffsets="earliest").load()
    windows = (
        frame.withWatermark("timestamp", "5 seconds")
        .groupBy("timestamp")
        .count()
        .selectExpr("CAST(unix_millis(timestamp) AS STRING) AS value", "`count`")
    )
    seen = Seen()
    seen.read_available(windows, checkpoint)
    assert {(row.value, row["count"]) for row in seen.rows} == {("1000", 1), ("2000", 1), ("3000", 1)}


@pytest.mark.proof
def test_two_sources_share_a_query(
    spark: SparkSession, cluster: TidelogCluster, hand: Hand, topic: str, checkpoint: str
) -> None:
    for at in range(2):
        hand.create(f"{topic}-{at}", 1)
        hand.send(f"{topic}-{at}", numbered(10 * at, 10 * at + 10))
    first, second = (
        stream_reader(spark, cluster, subscribe=f"{topic}-{at}", startingOffsets="earliest").load() for at in range(2)
    )
    seen = Seen()
    seen.read_available(first.union(second), checkpoint)
    assert seen.numbers == list(range(20))


@pytest.mark.proof
@pytest.mark.parametrize("fails", [True, False])
def test_records_deleted_before_they_were_read_end_the_query_or_are_passed_over(
    spark: SparkSession, cluster: TidelogCluster, hand: Hand, topic: str, checkpoint: str, fails: bool
) -> None:
    hand.create(topic, 1)
    hand.send(topic, numbered(0, 10))
    options = {"subscribe": topic, "startingOffsets": "earliest", "failOnDataLoss": str(fails).lower()}
    seen = Seen()
    seen.read_available(stream_reader(spark, cluster, **options).load(), checkpoint)
    hand.send(topic, numbered(10, 20))
    hand.delete_records(topic, {0: 15})
    frame = stream_reader(spark, cluster, **options).load()
    if fails:
        said = refusal(lambda: seen.read_available(frame, checkpoint))
        assert f"{topic}-0 begins at offset 15, and 10 to 14 are deleted" in said
        assert "set the option failOnDataLoss to false" in said
    else:
        seen.read_available(frame, checkpoint)
        assert seen.numbers == [*range(10), *range(15, 20)]


@pytest.mark.proof
def test_a_query_outlives_the_death_of_a_leader(
    spark: SparkSession, cluster: TidelogCluster, hand: Hand, topic: str, checkpoint: str
) -> None:
    hand.create(topic, 3)
    hand.send(topic, numbered(0, 30))
    frame = stream_reader(spark, cluster, subscribe=topic, startingOffsets="earliest").load()
    seen = Seen()
    with seen.reading(frame, checkpoint):
        eventually(lambda: seen.numbers == list(range(30)), "what was there is read", timeout_s=END_S)
        leader = hand.leader_of(topic)
        cluster.kill(leader)
        try:
            hand.send(topic, numbered(30, 60))
            eventually(lambda: seen.numbers == list(range(60)), "what comes is read", timeout_s=END_S)
        finally:
            cluster.restart(leader)
            eventually(lambda: hand.broker_count() == 3, "the broker is back", timeout_s=END_S)


def test_wrong_options_are_refused_when_the_query_is_written_or_starts(
    spark: SparkSession, cluster: TidelogCluster, topic: str, checkpoint: str
) -> None:
    assert "did you mean startingOffsets?" in refusal(
        lambda: stream_reader(spark, cluster, subscribe=topic, startingOffset="latest").load()
    )
    ending = stream_reader(spark, cluster, subscribe=topic, endingOffsets="latest").load()
    assert "a streaming query has no end" in refusal(lambda: Seen().read_available(ending, checkpoint))


@pytest.mark.proof
def test_a_topic_that_does_not_exist_ends_the_query_at_once(
    spark: SparkSession, cluster: TidelogCluster, topic: str, checkpoint: str
) -> None:
    frame = stream_reader(spark, cluster, subscribe=topic).load()
    said = refusal(lambda: Seen().read_available(frame, checkpoint))
    assert f"Option subscribe: topic '{topic}' does not exist" in said
