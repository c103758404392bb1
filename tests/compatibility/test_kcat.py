"""kcat, as Debian ships it, against Tidelog."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.compatibility.message import BASE_TIMESTAMP_MS, CODECS, Message, messages
from tests.compatibility.processes import RunningProcess, TidelogProcess
from tests.compatibility.test_python_clients import confluent_consume, confluent_produce, stored_codecs

pytestmark = [pytest.mark.compat, pytest.mark.slow]


def kcat(path: str, broker: TidelogProcess, *arguments: str, stdin: str = "") -> str:
    command = [path, "-b", broker.bootstrap, "-m", "10", *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("codec", CODECS)
def test_kcat_produces_and_consumes(tidelog: TidelogProcess, topic: str, kcat_path: str, codec: str) -> None:
    lines = [f"k{number}:" + f"v{number}" * 100 for number in range(100)]  # librdkafka compresses only what shrinks
    kcat(kcat_path, tidelog, "-P", "-t", topic, "-K", ":", "-z", codec, stdin="\n".join(lines))
    assert kcat(kcat_path, tidelog, "-C", "-t", topic, "-e", "-q", "-K", ":").splitlines() == lines
    assert stored_codecs(tidelog.bootstrap, topic) == {codec}


@pytest.mark.parametrize("setting", ["acks=0", "acks=1", "acks=all", "enable.idempotence=true"])
def test_kcat_may_ask_for_any_acknowledgement(
    tidelog: TidelogProcess, topic: str, kcat_path: str, setting: str
) -> None:
    lines = [f"v{number}" for number in range(100)]
    kcat(kcat_path, tidelog, "-P", "-t", topic, "-X", setting, stdin="\n".join(lines))
    assert kcat(kcat_path, tidelog, "-C", "-t", topic, "-c", "100", "-q").splitlines() == lines


def test_kcat_sends_headers_and_nulls(tidelog: TidelogProcess, topic: str, kcat_path: str) -> None:
    options = ["-K", ":", "-H", "a=1", "-H", "b=", "-H", "c", "-Z"]
    kcat(kcat_path, tidelog, "-P", "-t", topic, *options, stdin="k:v\nk:\n")
    headers = (("a", b"1"), ("b", b""), ("c", None))
    received = confluent_consume(tidelog.bootstrap, topic, 2)
    assert [(each.key, each.value, each.headers) for each in received] == [(b"k", b"v", headers), (b"k", None, headers)]


def test_kcat_prints_all_a_record_has(tidelog: TidelogProcess, topic: str, kcat_path: str) -> None:
    headed = Message(b"k", b"v", (("a", b"1"), ("b", b"2")), BASE_TIMESTAMP_MS)
    confluent_produce(tidelog.bootstrap, topic, "lz4", [headed, Message(None, None, (), BASE_TIMESTAMP_MS + 1)])
    printed = kcat(kcat_path, tidelog, "-C", "-t", topic, "-e", "-q", "-f", r"%t %p %o %T %k/%K %s/%S %h\n")
    assert printed.splitlines() == [
        f"{topic} 0 0 {BASE_TIMESTAMP_MS} k/1 v/1 a=1,b=2",
        f"{topic} 0 1 {BASE_TIMESTAMP_MS + 1} /-1 /-1 ",
    ]
    first, second = map(json.loads, kcat(kcat_path, tidelog, "-C", "-t", topic, "-e", "-q", "-J").splitlines())
    assert (first["offset"], first["tstype"], first["ts"], first["broker"]) == (0, "create", BASE_TIMESTAMP_MS, 1)
    assert (first["key"], first["payload"], first["headers"]) == ("k", "v", ["a", "1", "b", "2"])
    assert (second["key"], second["payload"]) == (None, None)


def test_kcat_reads_the_last_records_and_from_a_time(tidelog: TidelogProcess, topic: str, kcat_path: str) -> None:
    kcat(kcat_path, tidelog, "-P", "-t", topic, stdin="a\nb\nc")
    assert kcat(kcat_path, tidelog, "-C", "-t", topic, "-e", "-q", "-o", "-1") == "c\n"
    assert kcat(kcat_path, tidelog, "-C", "-t", topic, "-e", "-q", "-o", "s@0") == "a\nb\nc\n"


def test_kcat_reads_between_two_times_and_finds_them(tidelog: TidelogProcess, topic: str, kcat_path: str) -> None:
    confluent_produce(tidelog.bootstrap, topic, "zstd", messages())
    start, end = BASE_TIMESTAMP_MS + 10, BASE_TIMESTAMP_MS + 20
    words = ["-C", "-t", topic, "-p", "0", "-q", "-o", f"s@{start}", "-o", f"e@{end}", "-f", r"%o\n"]
    assert kcat(kcat_path, tidelog, *words).split() == [str(offset) for offset in range(10, 20)]
    assert kcat(kcat_path, tidelog, "-Q", "-t", f"{topic}:0:{start}").strip() == f"{topic} [0] offset 10"


def test_kcat_sends_a_file_as_one_record(tidelog: TidelogProcess, topic: str, kcat_path: str, tmp_path: Path) -> None:
    picture = tmp_path / "picture"
    picture.write_bytes(bytes(range(256)) * 3000)
    kcat(kcat_path, tidelog, "-P", "-t", topic, "-p", "0", str(picture))
    (received,) = confluent_consume(tidelog.bootstrap, topic, 1)
    assert received.value == picture.read_bytes()


def test_kcat_follows_a_topic(tidelog: TidelogProcess, topic: str, kcat_path: str) -> None:
    kcat(kcat_path, tidelog, "-P", "-t", topic, stdin="before")
    command = [kcat_path, "-b", tidelog.bootstrap, "-C", "-t", topic, "-u"]
    with RunningProcess(command) as consumer:
        consumer.wait_for("^before$")
        consumer.wait_for("Reached end of topic")
        kcat(kcat_path, tidelog, "-P", "-t", topic, stdin="after")
        consumer.wait_for("^after$")


def test_kcat_lists_the_cluster(tidelog: TidelogProcess, topic: str, kcat_path: str) -> None:
    kcat(kcat_path, tidelog, "-P", "-t", topic, stdin="x")
    listed = json.loads(kcat(kcat_path, tidelog, "-L", "-J"))
    assert [broker["name"] for broker in listed["brokers"]] == [tidelog.bootstrap]
    assert topic in [each["topic"] for each in listed["topics"]]
