"""produce, consume and topics against a running broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.shell import Shell

pytestmark = pytest.mark.slow


def test_lines_go_in_and_come_out(shell: Shell, topic: str) -> None:
    shell.ok("produce", "-t", topic, stdin=b"one\ntwo\n\nthree")
    assert shell.ok("consume", "-t", topic, "-e") == b"one\ntwo\n\nthree\n"


def test_keys_headers_and_nulls_survive_the_way_through_json(shell: Shell, topic: str) -> None:
    shell.ok("produce", "-t", topic, "-K", ":", "-Z", "-H", "a=1", stdin=b"k:v\ngone:\n")
    shell.ok("produce", "-t", topic, stdin=b"\xff\xfe")
    copied = shell.ok("consume", "-t", topic, "-e", "-J")
    shell.ok("produce", "-t", f"{topic}-copy", "-J", stdin=copied)
    again = shell.ok("consume", "-t", f"{topic}-copy", "-e", "-J")
    assert [json.loads(line) | {"topic": topic} for line in again.splitlines()] == list(
        map(json.loads, copied.splitlines())
    )
    first, second, third = map(json.loads, copied.splitlines())
    assert (first["key"], first["value"], first["headers"]) == ("k", "v", [{"name": "a", "value": "1"}])
    assert second["value"] is None
    assert third["value_base64"] == "//4="


def test_a_format_prints_what_kcat_would(shell: Shell, topic: str) -> None:
    shell.ok("produce", "-t", topic, "-k", "key", stdin=b"value")
    assert (
        shell.ok("consume", "-t", topic, "-e", "-f", r"%t-%p@%o %k=%s (%S)\n")
        == f"{topic}-0@0 key=value (5)\n".encode()
    )


@pytest.mark.parametrize(
    ("where", "printed"),
    [
        (["-o", "2"], b"2\n3\n"),
        (["-o", "-1"], b"3\n"),
        (["-o", "end"], b""),
        (["-o", "-99"], b"0\n1\n2\n3\n"),
        (["-c", "2"], b"0\n1\n"),
    ],
)
def test_reading_starts_and_ends_where_it_is_told(shell: Shell, topic: str, where: list[str], printed: bytes) -> None:
    shell.ok("produce", "-t", topic, stdin=b"0\n1\n2\n3\n")
    assert shell.ok("consume", "-t", topic, "-e", *where) == printed


@pytest.mark.parametrize("more", [[], ["-e"]], ids=["for ever", "to the end"])
def test_an_offset_that_is_not_there_is_named_with_those_that_are(shell: Shell, topic: str, more: list[str]) -> None:
    shell.ok("produce", "-t", topic, stdin=b"0\n1\n2\n3\n")
    assert shell("consume", "-t", topic, "-o", "99", *more) == b""
    assert shell.exit_code == 1
    assert f"{topic}-0 has no offset 99: it begins at 0 and ends before 4" in shell.errors


def test_a_partition_without_the_offset_is_left_out_aloud(shell: Shell, topic: str) -> None:
    shell.ok("topics", "create", topic, "--partitions", "2")
    shell.ok("produce", "-t", topic, "-p", "1", stdin=b"0\n1\n2\n")
    assert shell.ok("consume", "-t", topic, "-o", "1", "-e") == b"1\n2\n"
    assert f"{topic}-0 has no offset 1: it begins at 0 and ends before 0, and is left out" in shell.errors


def test_reading_between_two_times(shell: Shell, topic: str) -> None:
    lines = b"".join(b'{"value": "%d", "timestamp_ms": %d}\n' % (n, 1_700_000_000_000 + n) for n in range(5))
    shell.ok("produce", "-t", topic, "-J", stdin=lines)
    assert shell.ok("consume", "-t", topic, "-e", "-o", "s@1700000000001", "-o", "e@1700000000003") == b"1\n2\n"


def test_records_go_to_the_partition_that_was_named(shell: Shell, topic: str) -> None:
    shell.ok("topics", "create", topic, "--partitions", "3")
    shell.ok("produce", "-t", topic, "-p", "2", stdin=b"here")
    assert shell.ok("consume", "-t", topic, "-p", "2", "-e") == b"here\n"
    assert shell.ok("consume", "-t", topic, "-p", "1", "-e") == b""


def test_files_are_one_record_each_unless_their_lines_are_wanted(shell: Shell, topic: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1\n2\n")
    shell.ok("produce", "-t", topic, str(tmp_path / "a"))
    shell.ok("produce", "-t", topic, "-l", str(tmp_path / "a"))
    assert shell.ok("consume", "-t", topic, "-e", "-D", "|") == b"1\n2\n|1|2|"


def test_verbose_tells_where_each_record_is(shell: Shell, topic: str) -> None:
    assert shell.ok("produce", "-t", topic, "-v", stdin=b"a\nb\n") == f"{topic}-0@0\n{topic}-0@1\n".encode()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(shell: Shell, topic: str, codec: str) -> None:
    shell.ok("produce", "-t", topic, "-z", codec, stdin=b"squeeze " * 100)
    assert shell.ok("consume", "-t", topic, "-e") == b"squeeze " * 100 + b"\n"


def test_records_before_a_bad_line_are_sent(shell: Shell, topic: str) -> None:
    shell("produce", "-t", topic, "-J", stdin=b'{"value": "good"}\nnonsense\n')
    assert shell.exit_code == 2
    assert "not JSON" in shell.errors
    assert shell.ok("consume", "-t", topic, "-e") == b"good\n"


def test_a_topic_is_made_listed_described_and_deleted(shell: Shell, topic: str) -> None:
    shell.ok("topics", "create", topic, "--partitions", "2", "--config", "retention.ms=1000")
    assert topic in shell.ok("topics", "list").decode().split()
    [described] = json.loads(shell.ok("topics", "describe", topic, "--format", "json"))
    assert described["topic"] == topic
    assert [partition["leader"] for partition in described["partitions"]] == [1, 1]
    shell.ok("topics", "delete", topic)
    assert topic not in shell.ok("topics", "list").decode().split()


def test_making_a_topic_twice_fails_unless_that_is_fine(shell: Shell, topic: str) -> None:
    shell.ok("topics", "create", topic)
    shell("topics", "create", topic)
    assert shell.exit_code == 1
    assert "TOPIC_ALREADY_EXISTS" in shell.errors
    shell.ok("topics", "create", topic, "--if-not-exists")


def test_deleting_what_is_not_there_fails_unless_that_is_fine(shell: Shell, topic: str) -> None:
    shell("topics", "delete", topic)
    assert shell.exit_code == 1
    assert "UNKNOWN_TOPIC_OR_PARTITION" in shell.errors
    shell.ok("topics", "delete", topic, "--if-exists")


def test_describing_or_reading_what_is_not_there_fails_and_does_not_create_it(shell: Shell, topic: str) -> None:
    shell("topics", "describe", topic)
    assert shell.exit_code == 1
    shell("consume", "-t", topic, "-e")
    assert shell.exit_code == 1
    assert topic in shell.errors
    assert topic not in shell.ok("topics", "list").decode().split()


def test_describe_as_a_table_has_a_line_per_partition(shell: Shell, topic: str) -> None:
    shell.ok("topics", "create", topic, "--partitions", "2")
    heading, *lines = shell.ok("topics", "describe", topic).decode().splitlines()
    assert heading.split() == [
        "TOPIC",
        "PARTITION",
        "LEADER",
        "LEADER-EPOCH",
        "REPLICAS",
        "ISR",
        "LOG-START-OFFSET",
        "LOG-END-OFFSET",
    ]
    assert [line.split()[:3] for line in lines] == [[topic, "0", "1"], [topic, "1", "1"]]


def test_records_are_forgotten_up_to_an_offset_or_all(shell: Shell, topic: str) -> None:
    shell.ok("produce", "-t", topic, stdin=b"0\n1\n2\n3\n")
    [row] = json.loads(shell.ok("topics", "delete-records", topic, "--before", "2", "--format", "json"))
    assert row["log_start_offset"] == 2
    assert shell.ok("consume", "-t", topic, "-e") == b"2\n3\n"
    shell.ok("topics", "delete-records", topic, "--before", "end")
    assert shell.ok("consume", "-t", topic, "-e") == b""


def test_records_that_are_not_there_cannot_be_forgotten(shell: Shell, topic: str) -> None:
    shell.ok("produce", "-t", topic, stdin=b"0")
    assert b"OFFSET_OUT_OF_RANGE" in shell("topics", "delete-records", topic, "--before", "7")
    assert shell.exit_code == 1


def test_status_knows_the_cluster(shell: Shell, topic: str) -> None:
    shell.ok("produce", "-t", topic, stdin=b"x")
    content = json.loads(shell.ok("status", "--format", "json"))
    assert content["controller"] == 1
    assert content["size_bytes"] > 0
    assert content["troubles"] == []
    assert b"all partitions are in sync" in shell.ok("status")


def test_a_broker_can_be_called_by_another_name_than_its_own(shell: Shell, bootstrap: str) -> None:
    content = json.loads(shell.ok("status", "-b", bootstrap.replace("127.0.0.1", "localhost"), "--format", "json"))
    assert f"{content['brokers'][0]['host']}:{content['brokers'][0]['port']}" == bootstrap
    assert content["size_bytes"] is not None
    assert shell.errors == ""


@pytest.mark.parametrize(
    "words",
    [
        ["consume", "-t", "x", "-o", "middle"],
        ["consume", "-t", "x", "-f", "%q"],
        ["consume"],
        ["produce", "-t", "x", "-H", "nonsense"],
        ["produce", "-t", "x", "-X", "lingr.ms=1"],
        ["topics", "create", "x", "--partitions", "0"],
        ["topics"],
        ["topics", "alter", "x"],
        ["topics", "delete-records", "x", "--before", "now"],
        ["configs", "alter", "topic", "x"],
        ["configs", "describe", "broker", "x"],
    ],
)
def test_nonsense_is_refused_with_exit_code_2_before_anything_happens(shell: Shell, words: list[str]) -> None:
    assert shell(*words) == b""
    assert shell.exit_code == 2
    assert shell.errors
    assert "Traceback" not in shell.errors


def test_nobody_at_the_address_is_a_failure_with_a_sentence(shell: Shell) -> None:
    shell("produce", "-t", "x", "-b", "127.0.0.1:1", "-X", "max.block.ms=300", stdin=b"x")
    assert shell.exit_code == 1
    assert "127.0.0.1:1" in shell.errors
    assert "Traceback" not in shell.errors
