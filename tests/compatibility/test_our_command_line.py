"""Our command line against Apache Kafka, beside kcat and Kafka's own tools."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compatibility.apache_kafka import KafkaProcess, dump_log, run_tool
from tests.compatibility.message import BASE_TIMESTAMP_MS, CODECS, messages
from tests.compatibility.test_python_clients import confluent_consume, confluent_produce

pytestmark = [pytest.mark.compat, pytest.mark.slow]

#: Everything a record has, in the tokens kcat and ours share.
EVERYTHING = r"%t %p %o %T %K %S [%k] [%s] {%h}\n"


class CommandLine:
    """`tidelog` in a process of its own, pointed at one Kafka."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def run(self, *words: str, stdin: str = "", exit_code: int = 0) -> str:
        """What it printed; on stderr when it should fail."""
        command = [sys.executable, "-m", "tidelog", *words, "-b", self.bootstrap]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == exit_code, done.stdout + done.stderr
        return done.stderr if exit_code else done.stdout


@pytest.fixture
def ours(kafka: KafkaProcess) -> CommandLine:
    return CommandLine(kafka.bootstrap)


@pytest.mark.parametrize("codec", CODECS)
def test_kafka_stores_what_produce_sends(ours: CommandLine, kafka: KafkaProcess, topic: str, codec: str) -> None:
    lines = [f"k{number}:value {number}" for number in range(100)]
    ours.run("topics", "create", topic)
    ours.run("produce", "-t", topic, "-K", ":", "-z", codec, "-H", "a=1", stdin="\n".join(lines))

    received = confluent_consume(kafka.bootstrap, topic, 100)
    assert [b"%s:%s" % (each.key, each.value) for each in received] == [line.encode() for line in lines]
    assert {each.headers for each in received} == {(("a", b"1"),)}
    said = dump_log(kafka.log_dir / f"{topic}-0" / f"{0:020}.log")
    assert f"compresscodec: {codec}" in said
    assert "isvalid: false" not in said


@pytest.mark.parametrize("codec", CODECS)
def test_consume_prints_what_kcat_prints(
    ours: CommandLine, kafka: KafkaProcess, kcat_path: str, topic: str, codec: str
) -> None:
    confluent_produce(kafka.bootstrap, topic, codec, messages())
    printed = ours.run("consume", "-t", topic, "-e", "-f", EVERYTHING)
    assert printed == kcat(kcat_path, kafka, "-C", "-t", topic, "-e", "-q", "-f", EVERYTHING)
    assert len(printed.splitlines()) == len(messages())


@pytest.mark.parametrize(
    "where",
    [
        ["-o", "-3"],
        ["-o", "50"],
        ["-o", f"s@{BASE_TIMESTAMP_MS + 48}"],
        ["-o", f"s@{BASE_TIMESTAMP_MS + 10}", "-c", "2"],
    ],
    ids=" ".join,
)
def test_consume_starts_where_kcat_starts(
    ours: CommandLine, kafka: KafkaProcess, kcat_path: str, topic: str, where: list[str]
) -> None:
    confluent_produce(kafka.bootstrap, topic, "zstd", messages())
    printed = ours.run("consume", "-t", topic, "-p", "0", "-e", "-f", r"%o\n", *where)
    assert printed == kcat(kcat_path, kafka, "-C", "-t", topic, "-p", "0", "-e", "-q", "-f", r"%o\n", *where)
    assert printed


def test_a_topic_is_copied_with_all_its_records_have(ours: CommandLine, kafka: KafkaProcess, topic: str) -> None:
    confluent_produce(kafka.bootstrap, topic, "lz4", messages())
    ours.run("topics", "create", f"{topic}-copy")
    printed = ours.run("consume", "-t", topic, "-e", "-J")
    assert len(printed.splitlines()) == len(messages())
    ours.run("produce", "-t", f"{topic}-copy", "-J", stdin=printed)
    assert confluent_consume(kafka.bootstrap, f"{topic}-copy", len(messages())) == messages()


def test_a_file_is_one_record(ours: CommandLine, kafka: KafkaProcess, topic: str, tmp_path: Path) -> None:
    picture = tmp_path / "picture"
    picture.write_bytes(bytes(range(256)) * 1000)
    ours.run("topics", "create", topic)
    ours.run("produce", "-t", topic, str(picture))
    (received,) = confluent_consume(kafka.bootstrap, topic, 1)
    assert received.value == picture.read_bytes()


def test_topics_are_made_told_and_deleted(ours: CommandLine, kafka: KafkaProcess, topic: str) -> None:
    ours.run("topics", "create", topic, "--partitions", "3", "--config", "retention.ms=86400000")
    theirs = run_tool(
        "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", kafka.bootstrap, "--describe", "--topic", topic
    )
    assert "PartitionCount: 3" in theirs
    assert "retention.ms=86400000" in theirs

    (described,) = json.loads(ours.run("topics", "describe", topic, "--format", "json"))
    assert described["topic"] == topic
    assert [(each["partition"], each["leader"]) for each in described["partitions"]] == [(0, 1), (1, 1), (2, 1)]
    assert topic in ours.run("topics", "list").split()
    ours.run("topics", "delete", topic)
    assert topic not in ours.run("topics", "list").split()


def test_a_topic_gets_partitions_and_other_settings(ours: CommandLine, topic: str) -> None:
    ours.run("topics", "create", topic, "-c", "retention.bytes=123456")
    ours.run("topics", "alter", topic, "-p", "3", "-c", "segment.bytes=2000000", "--delete-config", "retention.bytes")
    ours.run(
        "configs", "alter", "topic", topic, "--set", "max.message.bytes=5000", "--append", "cleanup.policy=compact"
    )

    (described,) = json.loads(ours.run("topics", "describe", topic, "--format", "json"))
    assert len(described["partitions"]) == 3
    settings = settings_of(ours, "topic", topic)
    assert (settings["segment.bytes"], settings["max.message.bytes"]) == ("2000000", "5000")
    assert settings["cleanup.policy"] == "delete,compact"
    assert "retention.bytes" not in settings
    refused = ours.run("configs", "alter", "topic", topic, "--set", "max.message.bytes=many", exit_code=1)
    assert "INVALID_CONFIG" in refused


def test_the_settings_of_a_broker_are_shown(ours: CommandLine) -> None:
    assert settings_of(ours, "broker", "1")["log.retention.ms"] == "-1"


def settings_of(ours: CommandLine, kind: str, name: str) -> dict[str, str]:
    described = json.loads(ours.run("configs", "describe", kind, name, "--format", "json"))
    return {each["name"]: each["value"] for each in described}


def test_records_before_an_offset_are_forgotten(ours: CommandLine, kafka: KafkaProcess, topic: str) -> None:
    confluent_produce(kafka.bootstrap, topic, "none", messages())
    ours.run("topics", "delete-records", topic, "--before", "20")
    assert ours.run("consume", "-t", topic, "-e", "-f", r"%o\n").split() == [str(offset) for offset in range(20, 54)]


def test_status_tells_who_is_there_and_how_much_they_hold(ours: CommandLine, kafka: KafkaProcess, topic: str) -> None:
    confluent_produce(kafka.bootstrap, topic, "none", messages())
    told = json.loads(ours.run("status", "--format", "json"))
    assert (told["controller"], told["offline_partitions"], told["troubles"]) == (1, 0, [])
    assert [(each["broker"], each["port"]) for each in told["brokers"]] == [(1, kafka.port)]
    assert told["size_bytes"] >= (kafka.log_dir / f"{topic}-0" / f"{0:020}.log").stat().st_size


def test_what_kafka_refuses_is_said(ours: CommandLine, topic: str) -> None:
    assert "TOPIC_ALREADY_EXISTS" in _twice(ours, topic)
    assert "INVALID_CONFIG" in ours.run("topics", "create", f"{topic}-2", "-c", "retention.ms=soon", exit_code=1)
    assert "never-made" in ours.run("topics", "delete", "never-made", exit_code=1)
    assert "never-made" in ours.run("consume", "-t", "never-made", "-e", exit_code=1)


def _twice(ours: CommandLine, topic: str) -> str:
    ours.run("topics", "create", topic)
    return ours.run("topics", "create", topic, exit_code=1)


def kcat(path: str, broker: KafkaProcess, *arguments: str) -> str:
    command = [path, "-b", broker.bootstrap, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
