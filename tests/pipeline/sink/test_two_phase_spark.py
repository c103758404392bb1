"""Mode 2pc under real Spark: streams, replays, jobs, tasks that fail."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster.waiting import eventually
from tests.pipeline.hand import Hand, Row
from tests.pipeline.sink.looking import lag, open_transactions
from tests.pipeline.starting import start_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

AWAIT_S = 120
EXPECTED = Counter({b"%d" % index: 1 for index in range(400)})


@pytest.fixture
def source(two_phase_hand: Hand, topic: str) -> str:
    """A topic of 4 partitions with 400 records."""
    name = two_phase_hand.create(f"{topic}-in", 4)
    two_phase_hand.send(name, [Row(b"%d" % index, partition=index % 4) for index in range(400)])
    return name


def source_of(spark: SparkSession, hand: Hand, topic: str, **options: str) -> DataFrame:
    reader = spark.readStream.format("tidelog").option("kafka.bootstrap.servers", hand.bootstrap)
    return reader.options(subscribe=topic, startingOffsets="earliest", **options).load().select("key", "value")


def started(rows: DataFrame, hand: Hand, checkpoint: str, topic: str) -> StreamingQuery:
    options = {
        "kafka.bootstrap.servers": hand.bootstrap,
        "checkpointLocation": checkpoint,
        "commit.mode": "2pc",
        "topic": topic,
        "sink.id": f"sink-of-{topic}",
    }
    return start_query(rows.writeStream.format("tidelog").options(**options).trigger(availableNow=True))


def run(rows: DataFrame, hand: Hand, checkpoint: str, topic: str) -> None:
    """Write all that there is now."""
    assert started(rows, hand, checkpoint, topic).awaitTermination(AWAIT_S)


def replay_last(checkpoint: str) -> None:
    """Make Spark believe that it died after the sink's last commit."""
    commits = Path(checkpoint) / "commits"
    last = max(int(file.name) for file in commits.iterdir() if file.name.isdecimal())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)


def open_ids(hand: Hand, topic: str) -> list[str]:
    names = [row.transactional_id for row in open_transactions(hand.bootstrap)]
    return [name for name in names if name.startswith(f"sink-of-{topic}")]


def values(hand: Hand, topic: str) -> Counter[bytes]:
    """What readers of committed records get, once all transactions of the sink have ended."""
    eventually(lambda: not open_ids(hand, topic), f"no transaction of the sink of {topic} is open")
    return Counter(record.value or b"" for record in hand.read(topic))


@pytest.mark.proof
def test_a_stream_is_written_once_through_replays_and_is_a_group_without_lag(
    spark: SparkSession, two_phase_hand: Hand, topic: str, source: str, checkpoint: str
) -> None:
    out = two_phase_hand.create(topic, 3)
    rows = source_of(spark, two_phase_hand, source, maxOffsetsPerTrigger="150")
    run(rows, two_phase_hand, checkpoint, out)
    assert values(two_phase_hand, out) == EXPECTED
    for partition_count in (1, 3):
        replay_last(checkpoint)
        run(rows.repartition(partition_count), two_phase_hand, checkpoint, out)
    assert values(two_phase_hand, out) == EXPECTED
    assert lag(two_phase_hand.bootstrap, f"sink-of-{out}") == 0
    assert not list((Path(checkpoint) / "sink-manifest").iterdir())


@pytest.mark.proof
def test_a_task_that_fails_leaves_nothing_visible_and_nothing_open_and_the_replay_writes_all(
    spark: SparkSession, two_phase_hand: Hand, topic: str, source: str, checkpoint: str
) -> None:
    out = two_phase_hand.create(topic, 2)
    rows = source_of(spark, two_phase_hand, source)
    failing = rows.selectExpr("key", "if(value = binary('399'), raise_error('as planned'), value) as value")
    with pytest.raises(Exception, match="as planned"):
        run(failing, two_phase_hand, checkpoint, out)
    assert values(two_phase_hand, out) == Counter()
    run(rows, two_phase_hand, checkpoint, out)
    assert values(two_phase_hand, out) == EXPECTED


def test_a_batch_job_is_written_whole(spark: SparkSession, two_phase_hand: Hand, topic: str, tmp_path: Path) -> None:
    out = two_phase_hand.create(topic, 2)
    options = {
        "kafka.bootstrap.servers": two_phase_hand.bootstrap,
        "commit.mode": "2pc",
        "topic": out,
        "staging.dir": str(tmp_path / "staging"),
        "sink.id": f"sink-of-{out}",
    }
    rows = spark.range(400).selectExpr("string(id) as value").repartition(3)
    rows.write.format("tidelog").mode("append").options(**options).save()
    assert values(two_phase_hand, out) == EXPECTED


@pytest.mark.proof
def test_brokers_that_do_not_allow_two_phases_are_told_of_in_the_querys_error(
    spark: SparkSession, hand: Hand, topic: str, checkpoint: str
) -> None:
    source = hand.create(f"{topic}-in")
    hand.send(source, [b"1"])
    query = started(source_of(spark, hand, source), hand, checkpoint, hand.create(topic))
    with pytest.raises(Exception, match=r"option commit\.mode: 2pc must be allowed by the brokers at .*batch"):
        query.awaitTermination(AWAIT_S)
