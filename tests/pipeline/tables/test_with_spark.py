"""Tables under real Spark: topics to every format, replays, dead letters, batch jobs, bad input, declared sinks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.hand import Hand, Row
from tests.pipeline.starting import start_query
from tests.pipeline.tables.driving import FORMATS, ids, read_by_library, table_options
from tidelog.pipeline.tables.json_rows import json_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.proof, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

AWAIT_S = 300
PIPELINE_S = 500
SCHEMA = "id BIGINT NOT NULL, price DECIMAL(10,2), at TIMESTAMP, tags ARRAY<STRING>, sizes MAP<STRING, INT>"
COUNT = 200
BROKEN = {
    b"{": "not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
    b'{"price": 1}': "id: missing, and must not be",
    b'{"id": "x"}': "id: expected bigint, got text 'x'",
    b'{"id": 9223372036854775808}': "id: number 9223372036854775808 does not fit into bigint",
}


@pytest.fixture
def orders(hand: Hand, topic: str) -> str:
    """A topic with rows, and records that are none."""
    name = hand.create(f"{topic}-orders", 2)
    good = [
        {"id": each, "price": 1.25, "at": "2026-01-02T03:04:05Z", "tags": ["a", None], "sizes": {"m": each}}
        for each in range(COUNT)
    ]
    values = [*(json.dumps(each).encode() for each in good), *BROKEN]
    hand.send(name, [Row(value, key=b"key-%d" % at, partition=at % 2) for at, value in enumerate(values)])
    return name


def stream(spark: SparkSession, hand: Hand, topic: str) -> DataFrame:
    reader = spark.readStream.format("tidelog").option("kafka.bootstrap.servers", hand.bootstrap)
    return reader.options(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="150").load()


def run(rows: DataFrame, form: str, checkpoint: Path, options: Mapping[str, str]) -> None:
    writer = rows.writeStream.format(form).options(**options).option("checkpointLocation", str(checkpoint))
    query = start_query(writer.trigger(availableNow=True))
    assert query.awaitTermination(AWAIT_S), query.status


def forget_last_commit(checkpoint: Path) -> None:
    """As if the driver had died after the sink's last commit."""
    last = max(int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdecimal())
    (checkpoint / "commits" / str(last)).unlink()
    (checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)


def test_a_topic_is_in_every_table_once_and_what_is_no_row_in_the_dead_letter_topic(
    spark: SparkSession, hand: Hand, topic: str, orders: str, tmp_path: Path
) -> None:
    dead = hand.create(f"{topic}-dead")
    read = json_rows(stream(spark, hand, orders), SCHEMA, keep=["offset"])
    for table_format in FORMATS:
        home = tmp_path / table_format
        home.mkdir()
        options = table_options(table_format, home, partition__by="day(at)")
        for _ in range(2):
            run(read.rows, "tidelog-table", home / "checkpoint", options)
            forget_last_commit(home / "checkpoint")
        assert ids(table_format, home) == Counter(range(COUNT))
    row = next(each for each in read_by_library("delta", tmp_path / "delta").to_pylist() if each["id"] == 7)
    assert (str(row["price"]), row["tags"], row["sizes"]) == ("1.25", ["a", None], [("m", 7)])
    run(read.rejects, "tidelog", tmp_path / "dead", {"kafka.bootstrap.servers": hand.bootstrap, "topic": dead})
    records = hand.read(dead)
    found = {record.value: (dict(record.headers)["tidelog.reason"] or b"").decode() for record in records}
    assert found == BROKEN
    assert len(records) == len(BROKEN)
    by_key = {record.key: {name: (value or b"").decode() for name, value in record.headers} for record in records}
    assert by_key[b"key-200"].items() >= {
        ("tidelog.topic", orders),
        ("tidelog.partition", "0"),
        ("tidelog.offset", "100"),
    }


def test_a_batch_job_is_written_once_and_another_schema_refused_before_a_row_is(
    spark: SparkSession, tmp_path: Path
) -> None:
    options = table_options("delta", tmp_path)
    for _ in range(2):
        job = spark.range(5).write.format("tidelog-table").options(**options, txnAppId="nightly", txnVersion="1")
        job.mode("append").save()
    assert ids("delta", tmp_path) == Counter(range(5))
    wrong = spark.range(5).selectExpr("string(id) AS id")
    with pytest.raises(Exception, match="column 'id' is bigint there, and string here"):
        wrong.write.format("tidelog-table").options(**options).mode("append").save()
    with pytest.raises(Exception, match="does not overwrite tables"):
        spark.range(5).write.format("tidelog-table").options(**options).mode("overwrite").save()
    with pytest.raises(Exception, match="tidelog-table only writes"):
        spark.read.format("tidelog-table").options(**options).load()


@pytest.mark.timeout(2 * PIPELINE_S + 60)
def test_a_table_is_a_sink_of_a_declared_pipeline(tmp_path: Path) -> None:
    """Run twice by Spark's own runner: the second time there is nothing to do. Lines of a file stand for records."""
    (tmp_path / "transformations").mkdir()
    (tmp_path / "spark-pipeline.yml").write_text(
        f"name: orders\nstorage: file://{tmp_path}/storage\nlibraries:\n  - glob:\n      include: transformations/**\n"
    )
    (tmp_path / "records").mkdir()
    lines = [*(json.dumps({"id": each, "at": "2026-01-02T03:04:05Z"}) for each in range(COUNT)), "{"]
    (tmp_path / "records" / "lines.txt").write_text("\n".join(lines))
    sink = table_options("iceberg", tmp_path, partition__by="day(at)")
    definition = _DEFINITION.format(sink=sink, records=str(tmp_path / "records"), schema=SCHEMA)
    (tmp_path / "transformations" / "flow.py").write_text(definition)
    for _ in range(2):
        run_pipeline(tmp_path / "spark-pipeline.yml")
        assert ids("iceberg", tmp_path) == Counter(range(COUNT))


def run_pipeline(spec: Path) -> None:
    """To its end; whatever it started ends with it."""
    runner = [str(Path(sys.executable).parent / "spark-pipelines"), "run", "--spec", str(spec)]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    log = spec.with_suffix(".log")
    with log.open("w") as output:
        process = subprocess.Popen(runner, env=environment, stdout=output, stderr=output, start_new_session=True)
        try:
            code = process.wait(PIPELINE_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert code == 0, log.read_text()[-4000:]


_DEFINITION = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from tidelog.pipeline.tables.json_rows import json_rows

spark = SparkSession.active()
dp.create_sink("orders", format="tidelog-table", options={sink!r})

@dp.append_flow(target="orders", name="to_orders")
def to_orders():
    records = spark.readStream.text({records!r})
    return json_rows(records, {schema!r}).rows
"""
