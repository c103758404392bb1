"""Apache Kafka's console and performance tools, in Java, against Tidelog."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.compatibility.apache_kafka import TOOL_TIMEOUT_S, java, run_tool
from tests.compatibility.message import BASE_TIMESTAMP_MS, CODECS, Message
from tests.compatibility.processes import RunningProcess, TidelogProcess
from tests.compatibility.test_python_clients import confluent_consume, confluent_produce, stored_codecs

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.usefixtures("kafka_jars")]


def console_produce(broker: TidelogProcess, topic: str, lines: list[str], *options: str) -> None:
    words = ("--bootstrap-server", broker.bootstrap, "--topic", topic, *options)
    command = java("org.apache.kafka.tools.ConsoleProducer", *words)
    said = subprocess.run(
        command, input="\n".join(lines), capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False
    )
    assert said.returncode == 0, said.stderr
    assert "ERROR" not in said.stdout + said.stderr


def console_consumer(broker: TidelogProcess, topic: str, *options: str) -> list[str]:
    words = ("--bootstrap-server", broker.bootstrap, "--topic", topic, "--partition", "0", *options)
    return ["org.apache.kafka.tools.consumer.ConsoleConsumer", *words]


@pytest.mark.parametrize("codec", CODECS)
def test_console_producer_sends_keys_headers_and_nulls(tidelog: TidelogProcess, topic: str, codec: str) -> None:
    reading = ["parse.key=true", "parse.headers=true", "key.separator=|", "null.marker=NULL"]
    options = [word for each in reading for word in ("--reader-property", each)]
    lines = ["a:1,b:2\tk1|value", "NULL\tk2|NULL", "NULL\tNULL|no key"]
    console_produce(tidelog, topic, lines, *options, "--compression-codec", codec)

    received = confluent_consume(tidelog.bootstrap, topic, 3)
    assert [(each.key, each.value, each.headers) for each in received] == [
        (b"k1", b"value", (("a", b"1"), ("b", b"2"))),
        (b"k2", None, ()),
        (None, b"no key", ()),
    ]
    assert stored_codecs(tidelog.bootstrap, topic) == {codec}


def test_console_consumer_prints_all_a_record_has(tidelog: TidelogProcess, topic: str) -> None:
    headed = Message(b"k", b"v", (("a", b"1"), ("b", b"2")), BASE_TIMESTAMP_MS)
    confluent_produce(tidelog.bootstrap, topic, "zstd", [headed, Message(None, None, (), BASE_TIMESTAMP_MS + 1)])
    shown = ["timestamp", "key", "offset", "partition", "headers"]
    printing = [word for name in shown for word in ("--formatter-property", f"print.{name}=true")]
    where = ["--offset", "earliest", "--max-messages", "2", "--timeout-ms", "20000"]

    said = run_tool(*console_consumer(tidelog, topic, *printing, *where))

    assert said.splitlines() == [
        f"CreateTime:{BASE_TIMESTAMP_MS}\tPartition:0\tOffset:0\ta:1,b:2\tk\tv",
        f"CreateTime:{BASE_TIMESTAMP_MS + 1}\tPartition:0\tOffset:1\tNO_HEADERS\tnull\tnull",
    ]


def test_console_consumer_starts_at_an_offset_and_reads_what_is_committed(tidelog: TidelogProcess, topic: str) -> None:
    sent = [Message(None, b"v%d" % number, (), BASE_TIMESTAMP_MS) for number in range(10)]
    confluent_produce(tidelog.bootstrap, topic, "lz4", sent)
    where = ["--offset", "7", "--max-messages", "3", "--timeout-ms", "20000", "--isolation-level", "read_committed"]
    assert run_tool(*console_consumer(tidelog, topic, *where)).splitlines() == ["v7", "v8", "v9"]


def test_console_consumer_follows_a_topic(tidelog: TidelogProcess, topic: str) -> None:
    first, second = (Message(None, word, (), BASE_TIMESTAMP_MS) for word in (b"before", b"after"))
    confluent_produce(tidelog.bootstrap, topic, "none", [first])
    with RunningProcess(java(*console_consumer(tidelog, topic, "--offset", "earliest"))) as consumer:
        consumer.wait_for("^before$")
        confluent_produce(tidelog.bootstrap, topic, "none", [second])
        consumer.wait_for("^after$")


def test_producer_performance_counts_what_is_there_afterwards(tidelog: TidelogProcess, topic: str) -> None:
    count = 50_000
    words = ["--bootstrap-server", tidelog.bootstrap, "--topic", topic, "--num-records", str(count)]
    said = run_tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *words,
        "--record-size",
        "100",
        "--throughput",
        "-1",
        "--command-property",
        "acks=all",
    )

    assert re.search(rf"^{count} records sent, [\d.]+ records/sec", said, re.MULTILINE), said
    assert get_offsets(tidelog, "--topic-partitions", f"{topic}:0", "--time", "latest") == [f"{topic}:0:{count}"]


def test_verifiable_producer_hears_of_every_record(tidelog: TidelogProcess, topic: str) -> None:
    words = ["--bootstrap-server", tidelog.bootstrap, "--topic", topic, "--max-messages", "100", "--acks", "-1"]
    said = run_tool("org.apache.kafka.tools.VerifiableProducer", *words)
    assert said.count("producer_send_success") == 100
    assert '"sent":100,"acked":100' in said
    received = confluent_consume(tidelog.bootstrap, topic, 100)
    assert [each.value for each in received] == [b"%d" % number for number in range(100)]


def test_get_offsets_finds_ends_times_and_the_latest_time(tidelog: TidelogProcess, topic: str) -> None:
    times = (3000, 9000, 5000)
    confluent_produce(tidelog.bootstrap, topic, "none", [Message(None, b"v", (), time) for time in times])
    found = {
        time: get_offsets(tidelog, "--topic", topic, "--time", time) for time in ("-1", "-2", "max-timestamp", "4000")
    }
    assert found == {
        "-1": [f"{topic}:0:3"],
        "-2": [f"{topic}:0:0"],
        "max-timestamp": [f"{topic}:0:1"],
        "4000": [f"{topic}:0:1"],
    }


def get_offsets(broker: TidelogProcess, *options: str) -> list[str]:
    words = ("--bootstrap-server", broker.bootstrap, *options)
    return run_tool("org.apache.kafka.tools.GetOffsetShell", *words).splitlines()
