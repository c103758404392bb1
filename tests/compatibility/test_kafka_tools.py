"""Apache Kafka's own tools, in Java, against Tidelog's files and Tidelog's broker."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.compatibility.apache_kafka import TOOL_TIMEOUT_S, dump_log, java, run_tool
from tests.compatibility.processes import TidelogProcess

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.usefixtures("kafka_jars")]

FIRST_SEGMENT = "00000000000000000000"


def produce(bootstrap: str, topic: str, values: list[bytes], **settings: object) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, **{key.replace("_", "."): value for key, value in settings.items()}}
    )
    for value in values:
        producer.produce(topic, key=b"key", value=value, headers={"h": b"1"})
    assert producer.flush(20) == 0


def files_of(tidelog: TidelogProcess, topic: str, suffix: str) -> Path:
    return tidelog.log_dir / f"{topic}-0" / f"{FIRST_SEGMENT}{suffix}"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_kafka_dump_log_reads_our_segments(tidelog: TidelogProcess, topic: str, codec: str) -> None:
    values = [f"value-{number}" for number in range(50)]
    # Our own client: librdkafka sends lz4 only to brokers that have FindCoordinator, and else quietly nothing compressed.
    command = [
        sys.executable,
        "-m",
        "tidelog",
        "produce",
        "-b",
        tidelog.bootstrap,
        "-t",
        topic,
        "-z",
        codec,
        "-k",
        "key",
    ]
    subprocess.run(command, input="\n".join(values), text=True, timeout=TOOL_TIMEOUT_S, check=True)

    said = dump_log(files_of(tidelog, topic, ".log"), deep=True)

    assert "isvalid: false" not in said
    assert f"compresscodec: {codec}" in said
    assert re.findall(r"payload: (\S+)", said) == values
    assert re.findall(r"offset: (\d+) CreateTime", said) == [str(number) for number in range(50)]


def test_kafka_dump_log_finds_our_indexes_sane(tmp_path: Path) -> None:
    options = ("-X", "log.index.interval.bytes=100", "-X", "log.segment.bytes=20000")
    with TidelogProcess(tmp_path, *options) as broker:
        for round_number in range(30):
            produce(broker.bootstrap, "indexed", [b"%d" % round_number * 100])
        directory = broker.log_dir / "indexed-0"
    segments = sorted(directory.glob("*.log"))
    assert segments

    said = dump_log(*segments, *sorted(directory.glob("*.index")), *sorted(directory.glob("*.timeindex")))

    assert "offset: " in said
    assert not re.search(r"mismatch|Found timestamp|out of order|isvalid: false|Exception", said, re.IGNORECASE), said


def test_kafka_dump_log_reads_our_producer_snapshots(tmp_path: Path) -> None:
    with TidelogProcess(tmp_path) as broker:
        produce(broker.bootstrap, "snapped", [b"a", b"b"], enable_idempotence=True)
        directory = broker.log_dir / "snapped-0"
    [snapshot] = directory.glob("*.snapshot")  # written by the clean stop

    said = dump_log(snapshot)

    assert re.search(r"producerId: \d+ producerEpoch: 0 .*lastSequence: 1", said), said


def test_java_console_clients_produce_and_consume(tidelog: TidelogProcess, topic: str) -> None:
    command = java("org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", tidelog.bootstrap, "--topic", topic)
    done = subprocess.run(
        command, input="one\ntwo\n", capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr

    where = (
        "--topic",
        topic,
        "--partition",
        "0",
        "--offset",
        "earliest",
        "--max-messages",
        "2",
        "--timeout-ms",
        "20000",
    )
    said = run_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", tidelog.bootstrap, *where)

    assert said.splitlines() == ["one", "two"]


def test_java_admin_creates_lists_and_deletes_topics(tidelog: TidelogProcess, topic: str) -> None:
    def topics(*arguments: str) -> str:
        return run_tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", tidelog.bootstrap, *arguments)

    topics("--create", "--topic", topic, "--partitions", "3", "--replication-factor", "1")
    assert topic in topics("--list").split()
    topics("--delete", "--topic", topic)
    assert topic not in topics("--list").split()


def test_java_get_offsets_knows_both_ends(tidelog: TidelogProcess, topic: str) -> None:
    produce(tidelog.bootstrap, topic, [b"x", b"y", b"z"])

    def offsets(time: str) -> str:
        where = ("--bootstrap-server", tidelog.bootstrap, "--topic", topic, "--time", time)
        return run_tool("org.apache.kafka.tools.GetOffsetShell", *where).strip()

    assert offsets("earliest") == f"{topic}:0:0"
    assert offsets("latest") == f"{topic}:0:3"


def test_java_client_understands_our_api_versions(tidelog: TidelogProcess) -> None:
    said = run_tool("org.apache.kafka.tools.BrokerApiVersionsCommand", "--bootstrap-server", tidelog.bootstrap)
    assert re.search(r"Produce\(0\): 0 to 1\d", said), said
