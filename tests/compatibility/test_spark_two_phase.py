"""Mode 2pc of the Spark sink against Apache Kafka, which does not keep prepared transactions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compatibility.apache_kafka import KafkaProcess
from tests.pipeline.hand import Hand
from tests.pipeline.sink.two_phase_rig import Query
from tidelog.pipeline.sink.errors import SinkFailed

pytestmark = [pytest.mark.compat, pytest.mark.timeout(180)]


def test_apache_kafka_is_refused_with_the_mode_that_works_there(kafka: KafkaProcess, tmp_path: Path) -> None:
    hand = Hand(kafka.bootstrap)
    query = Query(hand, hand.create("two-phase"), tmp_path / "checkpoint")
    with pytest.raises(SinkFailed, match=r"option commit\.mode: 2pc needs brokers .*KIP-939.* set it to batch"):
        query.write(0, run="a")
    assert hand.read("two-phase", committed_only=False) == []
    hand.close()
