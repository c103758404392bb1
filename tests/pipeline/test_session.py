"""The ground all tests of the pipeline stand on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.pipeline.hand import Hand, Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
def test_what_the_hand_sends_it_reads(hand: Hand, topic: str) -> None:
    hand.create(topic, 2)
    hand.send(topic, [Row(b"a", partition=0), Row(b"b", key=b"k", partition=1, headers=[("h", b"1")])])
    hand.send_transaction(topic, [Row(b"never", partition=0)], transactional_id=topic, commits=False)
    assert [record.value for record in hand.read(topic)] == [b"a", b"b"]
    assert hand.end_offsets(topic) == {0: 3, 1: 1}


@pytest.mark.spark
@pytest.mark.timeout(180)
def test_spark_starts(spark: SparkSession) -> None:
    assert spark.range(3).count() == 3
