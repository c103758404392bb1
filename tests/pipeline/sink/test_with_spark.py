"""The sink under real Spark: replays, groups, bad input, and what Spark tells its tasks."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.pipeline.hand import Hand, Row
from tests.pipeline.sink.looking import committed, lag, open_transactions
from tests.pipeline.starting import start_query
from tidelog.model import TopicPartition
from tidelog.pipeline.sink.ledger import marker_group

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

AWAIT_S = 200


def source_of(spark: SparkSession, hand: Hand, topic: str, **options: str) -> DataFrame:
    """Keys and values of a topic, and which partition they are of under a name that the sink does not heed."""
    reader = spark.readStream.format("tidelog").option("kafka.bootstrap.servers", hand.bootstrap)
    return (
        reader.options(subscribe=topic, startingOffsets="earliest", **options)
        .load()
        .selectExpr("key", "value", "partition as shard")
    )


def run(rows: DataFrame, hand: Hand, checkpoint: str, **options: str) -> StreamingQuery:
    """Write all that there is now; the query, which has ended."""
    name = options.pop("queryName", None)
    writer = rows.writeStream.format("tidelog").option("kafka.bootstrap.servers", hand.bootstrap)
    writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    query = start_query((writer if name is None else writer.queryName(name)).options(**options))
    assert query.awaitTermination(AWAIT_S), query.lastProgress
    return query


def replay_last(checkpoint: str) -> int:
    """Make Spark believe that it died after the sink's last commit; the micro-batch that it will repeat."""
    commits = Path(checkpoint) / "commits"
    last = max(int(file.name) for file in commits.iterdir() if file.name.isdecimal())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    return last


def values(hand: Hand, topic: str) -> Counter[bytes]:
    return Counter(record.value or b"" for record in hand.read(topic))


@pytest.fixture
def source(hand: Hand, topic: str) -> str:
    """A topic of 4 partitions with 400 records."""
    name = hand.create(f"{topic}-in", 4)
    hand.send(name, [Row(b"%d" % index, partition=index % 4) for index in range(400)])
    return name


EXPECTED = Counter({b"%d" % index: 1 for index in range(400)})


def test_rows_are_there_once_through_replays_and_the_query_is_a_group_without_lag(
    spark: SparkSession, hand: Hand, topic: str, source: str, checkpoint: str
) -> None:
    out = hand.create(topic, 3)
    rows = source_of(spark, hand, source, maxOffsetsPerTrigger="150")
    run(rows, hand, checkpoint, topic=out, queryName=f"group-of-{topic}")
    assert values(hand, out) == EXPECTED
    for _ in range(2):
        replay_last(checkpoint)
        run(rows, hand, checkpoint, topic=out, queryName=f"group-of-{topic}")
    assert values(hand, out) == EXPECTED
    assert lag(hand.bootstrap, f"group-of-{topic}") == 0
    hand.send(source, [b"late"] * 7)
    assert lag(hand.bootstrap, f"group-of-{topic}") == 7
    assert not list((Path(checkpoint) / "sink-staging").iterdir())


@pytest.mark.proof
def test_a_query_from_one_cluster_to_another_is_a_group_without_lag_there(
    spark: SparkSession, hand: Hand, two_phase_hand: Hand, source: str, checkpoint: str
) -> None:
    out = two_phase_hand.create(source, 4)  # by the name that it has there
    rows = source_of(spark, hand, source, maxOffsetsPerTrigger="150")
    run(rows, two_phase_hand, checkpoint, topic=out, queryName=f"mirror-of-{out}")
    assert values(two_phase_hand, out) == EXPECTED
    assert committed(two_phase_hand.bootstrap, f"mirror-of-{out}") == {}


@pytest.mark.proof
def test_a_replay_with_another_number_of_partitions_writes_nothing(
    spark: SparkSession, hand: Hand, topic: str, source: str, checkpoint: str
) -> None:
    out = hand.create(topic, 2)
    rows = source_of(spark, hand, source)
    run(rows.repartition(3), hand, checkpoint, topic=out)
    replay_last(checkpoint)
    run(rows.repartition(1), hand, checkpoint, topic=out)
    assert values(hand, out) == EXPECTED


@pytest.mark.proof
def test_a_full_refresh_under_the_same_sink_id_writes_everything_again(
    spark: SparkSession, hand: Hand, topic: str, source: str, checkpoint: str
) -> None:
    out = hand.create(topic)
    rows = source_of(spark, hand, source)
    run(rows, hand, checkpoint, topic=out, **{"sink.id": topic})
    shutil.rmtree(checkpoint)
    run(rows, hand, checkpoint, topic=out, **{"sink.id": topic})
    assert values(hand, out) == EXPECTED + EXPECTED
    assert committed(hand.bootstrap, marker_group(topic)) == {TopicPartition(out, 0): 1}


@pytest.mark.proof
def test_an_aggregation_in_complete_mode_is_written_whole_every_time(
    spark: SparkSession, hand: Hand, topic: str, source: str, checkpoint: str
) -> None:
    out = hand.create(topic)
    counts = source_of(spark, hand, source, maxOffsetsPerTrigger="200").groupBy("shard").count()
    rows = counts.selectExpr("string(shard) as key", "string(count) as value")
    writer = rows.writeStream.format("tidelog").outputMode("complete").option("topic", out)
    writer = writer.option("kafka.bootstrap.servers", hand.bootstrap).option("checkpointLocation", checkpoint)
    assert start_query(writer.trigger(availableNow=True)).awaitTermination(AWAIT_S)
    last = {record.key: record.value for record in hand.read(out)}
    assert last == {b"%d" % index: b"100" for index in range(4)}


@pytest.mark.proof
def test_two_queries_of_one_session_do_not_fence_each_other(
    spark: SparkSession, hand: Hand, topic: str, source: str, tmp_path: Path
) -> None:
    outs = [hand.create(f"{topic}-{name}") for name in "ab"]
    rows = source_of(spark, hand, source, maxOffsetsPerTrigger="50")
    queries = [
        start_query(
            rows.writeStream.format("tidelog")
            .options(
                **{"kafka.bootstrap.servers": hand.bootstrap, "topic": out, "checkpointLocation": str(tmp_path / out)}
            )
            .trigger(availableNow=True)
        )
        for out in outs
    ]
    assert all(query.awaitTermination(AWAIT_S) for query in queries)
    assert [values(hand, out) for out in outs] == [EXPECTED, EXPECTED]


def test_a_batch_job_is_written_whole_with_all_its_columns(
    spark: SparkSession, hand: Hand, topic: str, tmp_path: Path
) -> None:
    one, other = hand.create(f"{topic}-1", 2), hand.create(f"{topic}-2", 2)
    rows = spark.range(100).selectExpr(
        f"if(id % 2 = 0, '{one}', '{other}') as topic",
        "string(id) as key",
        "if(id = 4, null, binary(string(id))) as value",
        "if(id = 7, 1, null) as partition",
        "array(named_struct('key', 'h', 'value', binary('x'))) as headers",
        "current_timestamp() as ignored",
    )
    options = {"kafka.bootstrap.servers": hand.bootstrap, "staging.dir": str(tmp_path / "staging")}
    rows.write.format("tidelog").mode("append").options(**options).save()
    found = {record.key: record for record in hand.read(one) + hand.read(other)}
    assert sorted(int(key or b"") for key in found) == list(range(100))
    assert found[b"4"].value is None
    assert (found[b"7"].topic_partition, found[b"7"].headers) == (TopicPartition(other, 1), (("h", b"x"),))
    assert not list((tmp_path / "staging").iterdir())
    assert not [each for each in open_transactions(hand.bootstrap) if "write" in each.transactional_id]


def test_at_least_once_repeats_rows_where_exactly_once_does_not(
    spark: SparkSession, hand: Hand, topic: str, source: str, checkpoint: str
) -> None:
    out = hand.create(topic)
    rows = source_of(spark, hand, source)
    for _ in range(2):
        run(rows, hand, checkpoint, topic=out, queryName=topic, **{"commit.mode": "at-least-once"})
        replay_last(checkpoint)
    assert values(hand, out) == EXPECTED + EXPECTED
    assert lag(hand.bootstrap, topic) == 0


BAD_COLUMNS = [
    ("id as value", "value must be binary or string, got bigint"),
    ("'v' as value, 1.5 as key", r"key must be binary or string, got decimal\(2,1\)"),
    ("'v' as value, id as partition", "partition must be int, got bigint"),
    (
        "'v' as value, array('x') as headers",
        r"headers must be array<struct<key:string,value:binary>>, got array<string>",
    ),
    ("'v' as other", "there is no column value among other"),
]


@pytest.mark.parametrize(("columns", "message"), BAD_COLUMNS)
def test_columns_that_cannot_be_written_are_named(
    columns: str, message: str, spark: SparkSession, hand: Hand, topic: str
) -> None:
    writer = spark.range(2).selectExpr(*columns.split(", ")).write.format("tidelog").mode("append")
    with pytest.raises(Exception, match=message):
        writer.options(**{"kafka.bootstrap.servers": hand.bootstrap, "topic": topic}).save()


def bad_options(hand: Hand, topic: str) -> list[tuple[dict[str, str], str]]:
    good = {"kafka.bootstrap.servers": hand.bootstrap, "topic": topic}
    return [
        ({**good, "topic": f"{topic}-nope"}, f"topic '{topic}-nope', named by the option topic.* does not exist"),
        ({**good, "commit.mod": "batch"}, r"Option commit\.mod: .* did you mean commit\.mode"),
        ({**good, "commit.mode": "twice"}, r"Option commit\.mode: 'twice' is not accepted"),
        ({**good, "kafka.transactional.id": "x"}, r"Option kafka\.transactional\.id: .*sink\.id"),
        ({**good, "kafka.compression.type": "zip"}, r"Option kafka\.compression\.type: 'zip'"),
        ({**good, "kafka.bootstrap.servers": "127.0.0.1:1"}, r"kafka\.bootstrap\.servers answered"),
        ({"kafka.bootstrap.servers": hand.bootstrap}, "nothing says where to write: set the option topic"),
    ]


@pytest.mark.proof
def test_options_that_cannot_be_used_are_named(spark: SparkSession, hand: Hand, topic: str) -> None:
    hand.create(topic)
    rows = spark.range(1).selectExpr("'v' as value")
    for options, message in bad_options(hand, topic):
        with pytest.raises(Exception, match=message):
            rows.write.format("tidelog").mode("append").options(**options).save()
    with pytest.raises(Exception, match=r"cannot be overwritten: write with \.mode\('append'\)"):
        rows.write.format("tidelog").mode("overwrite").options(**bad_options(hand, topic)[-1][0], topic=topic).save()
    assert values(hand, topic) == Counter()


@pytest.mark.proof
def test_spark_itself_names_the_mode_where_none_was_said(spark: SparkSession, hand: Hand, topic: str) -> None:
    writer = spark.range(1).selectExpr("'v' as value").write.format("tidelog").option("topic", topic)
    with pytest.raises(Exception, match=r'"tidelog" cannot be written in the "ErrorIfExists" mode.*"Append"'):
        writer.option("kafka.bootstrap.servers", hand.bootstrap).save()


@pytest.mark.proof
def test_what_spark_tells_its_tasks_is_what_the_sink_builds_upon(
    spark: SparkSession, hand: Hand, topic: str, source: str, checkpoint: str
) -> None:
    from pyspark import TaskContext

    def told(batches: Any) -> Any:
        import pyarrow as pa

        context = TaskContext.get()
        assert context is not None
        names = ("sql.streaming.queryId", "spark.jobGroup.id", "streaming.sql.batchId")
        text = "|".join(str(context.getLocalProperty(name)) for name in names)
        for _ in batches:
            yield pa.RecordBatch.from_arrays([pa.array([text])], names=["value"])

    out = hand.create(topic)
    rows = source_of(spark, hand, source).select("value").mapInArrow(told, "value string")
    query = run(rows, hand, checkpoint, topic=out)
    assert set(values(hand, out)) == {f"{query.id}|{query.runId}|0".encode()}
