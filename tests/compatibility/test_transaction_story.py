"""What clients, leaders and operators do to transactions, done to Apache Kafka and to Tidelog: the same answers, and the same logs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path

import pytest

from tests.compatibility.apache_kafka import KafkaProcess
from tests.compatibility.processes import TidelogProcess
from tests.compatibility.transaction_story import tell_all
from tests.compatibility.transaction_teller import Teller

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(180), pytest.mark.usefixtures("kafka_jars")]
SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "log.retention.ms": "-1",
    "offsets.topic.num.partitions": "1",
}


def told_to(bootstrap: str) -> list[str]:
    with Teller(bootstrap) as teller:
        return tell_all(teller)


def test_transactions_are_answered_as_kafka_answers_them_code_by_code(tmp_path: Path) -> None:
    options = [f"-X{name}={value}" for name, value in SETTINGS.items()]
    with (
        KafkaProcess(tmp_path / "kafka", properties=SETTINGS) as kafka,
        TidelogProcess(tmp_path / "tidelog", *options) as tidelog,
        ThreadPoolExecutor(2) as pool,
    ):
        ours, theirs = pool.map(told_to, (tidelog.bootstrap, kafka.bootstrap))
    assert len(theirs) > 200
    differences = [
        f"{number}: {mine!r} instead of {wanted!r}"
        for number, (mine, wanted) in enumerate(zip_longest(ours, theirs))
        if mine != wanted
    ]
    assert differences == []
