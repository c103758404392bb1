"""`spark.read.format("tidelog-segments")`: found without being registered, one row per record batch."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.audit.planted import Planted, batch, log_of, marker, run
from tidelog.pipeline.segments.columns import TYPES
from tidelog.records.compression import Codec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def directories(tmp_path: Path) -> str:
    planted = Planted(tmp_path, brokers=[4, 5])
    planted.add(
        "orders",
        log_of([batch(0, epoch=2, producer=(7, 1, 30), is_transactional=True, codec=Codec.LZ4), marker(5, (7, 1))]),
    )
    planted.add("orders", log_of(run(1)).with_batches([*run(1), b"\x05" * 70]), log_of(run(1)), partition=1)
    planted.add("other", log_of(run(3)))
    return ",".join(planted.write())


def test_every_batch_is_a_row_and_so_is_what_is_none(spark: SparkSession, directories: str) -> None:
    frame = spark.read.format("tidelog-segments").option("dir", directories).option("topic", "orders").load()
    assert dict(frame.dtypes) == TYPES
    rows = {(row["replica"], row["partition"], row["position"]): row.asDict() for row in frame.collect()}
    size = rows["4", 0, 0]["size"]
    assert sorted(rows) == [
        ("4", 0, 0),
        ("4", 0, size),
        ("4", 1, 0),
        ("4", 1, len(run(1)[0])),
        ("5", 0, 0),
        ("5", 0, size),
        ("5", 1, 0),
    ]
    first = rows["5", 0, 0]
    expected = {
        "broker": 5, "segment": "00000000000000000000.log", "base_offset": 0, "last_offset": 4, "leader_epoch": 2,
        "crc_ok": True, "record_count": 5, "producer_id": 7, "producer_epoch": 1, "base_sequence": 30,
        "is_transactional": True, "control_type": None, "codec": "lz4", "reason": None,
    }  # fmt: skip
    assert {name: first[name] for name in expected} == expected
    assert first["max_timestamp"].astimezone(UTC) == datetime.fromtimestamp(1_700_000_000.004, UTC)
    assert (rows["4", 0, size]["control_type"], rows["4", 0, size]["base_sequence"]) == ("COMMIT", -1)
    assert first["digest"] == rows["4", 0, 0]["digest"]
    nothing = rows["4", 1, len(run(1)[0])]
    assert (nothing["reason"], nothing["size"], nothing["base_offset"]) == (
        "no batch: record format 5 where only 2 can be",
        70,
        None,
    )


def test_sql_sees_the_columns_and_partitions_it_asks_for(spark: SparkSession, directories: str) -> None:
    reader = spark.read.format("tidelog-segments").schema("topic string, record_count int, partition int")
    frame = reader.option("dir", directories).option("partition", "0").load()
    counted = spark.sql(
        "SELECT topic, sum(record_count) AS records FROM {rows} GROUP BY topic ORDER BY topic", rows=frame
    )
    assert [tuple(row) for row in counted.collect()] == [("orders", 12), ("other", 30)]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [({}, "Option dir: it must name"), ({"dir": "/no/such/place"}, "there is no such directory")],
)
def test_a_wrong_option_is_refused_with_its_sentence(
    spark: SparkSession, options: dict[str, str], sentence: str
) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match=sentence):
        spark.read.format("tidelog-segments").options(**options).load().collect()
