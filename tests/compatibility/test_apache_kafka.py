"""The oracle itself: Apache Kafka starts here, and its files are read back by its own tools."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.compatibility.apache_kafka import KafkaProcess, dump_log

pytestmark = [pytest.mark.compat, pytest.mark.slow]


def test_kafka_writes_files_its_own_dump_reads(kafka: KafkaProcess, topic: str) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(topic, key=b"k", value=b"v")
    assert producer.flush(20) == 0

    said = dump_log(kafka.log_dir / f"{topic}-0" / "00000000000000000000.log", deep=True)

    assert "isvalid: true" in said
    assert "key: k payload: v" in said


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_tidelog_log_dump_says_of_kafkas_segments_what_kafka_says(kafka: KafkaProcess, topic: str, codec: str) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "compression.type": codec, "enable.idempotence": True})
    for number in range(20):
        producer.produce(topic, key=b"key", value=b"value-%d" % number, headers={"h": b"1"})
    assert producer.flush(20) == 0
    segment = kafka.log_dir / f"{topic}-0" / "00000000000000000000.log"

    ours, theirs = tidelog_dump(segment), dump_log(segment, deep=True)

    assert facts(ours) == facts(theirs)
    assert len(facts(ours)) >= 21


def test_tidelog_log_dump_finds_kafkas_other_files_sound(kafka: KafkaProcess, topic: str) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(topic, value=b"x")
    assert producer.flush(20) == 0
    directory = kafka.log_dir / f"{topic}-0"
    said = tidelog_dump(
        *directory.glob("*.index"), *directory.glob("*.timeindex"), directory / "leader-epoch-checkpoint"
    )
    assert "leaderEpoch: 0 startOffset: 0" in said


def tidelog_dump(*files: Path) -> str:
    command = [sys.executable, "-m", "tidelog", "log", "dump", "--records", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def facts(said: str) -> list[dict[str, str]]:
    """Every batch and record line as its `name: value` pairs, so that spelling counts and spacing does not."""
    lines = [line for line in said.splitlines() if line.startswith(("baseOffset", "| "))]
    pairs = [dict(re.findall(r"(\w+): (\S+)", line)) for line in lines]
    return [pair | {"deleteHorizonMs": "-"} if "deleteHorizonMs" in pair else pair for pair in pairs]
