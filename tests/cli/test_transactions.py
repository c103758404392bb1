"""`tidelog transactions` against a running broker: what an operator asks, and what can be ended from outside."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.shell import Shell
from tests.compatibility.processes import TidelogProcess
from tests.raw_transactions import opened, written
from tidelog.model import ErrorCode, ProducerIdentity, TopicPartition

pytestmark = pytest.mark.slow

UNKNOWN_TO_ALL = ProducerIdentity(4_000_000, 2)


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker that lets transactions hang, which none does that is not told to."""
    settings = ("transaction.partition.verification.enable=false", "transaction.two.phase.commit.enable=true")
    options = [word for setting in settings for word in ("-X", setting)]
    with TidelogProcess(tmp_path_factory.mktemp("transactions") / "data", *options) as process:
        yield process.bootstrap


@pytest.fixture
def name(topic: str) -> str:
    return f"writer-of-{topic}"


@pytest.fixture
def partition(shell: Shell, topic: str) -> TopicPartition:
    shell.ok("topics", "create", topic)
    return TopicPartition(topic, 0)


def left_hanging(bootstrap: str, partition: TopicPartition, producer: ProducerIdentity = UNKNOWN_TO_ALL) -> None:
    written(bootstrap, lambda raw: raw.write(producer, partition, b"lost"))


def committed(shell: Shell, partition: TopicPartition) -> bytes:
    return shell.ok("consume", "-t", partition.topic, "-X", "isolation.level=read_committed", "-e")


def rows(shell: Shell, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(shell.ok("transactions", *words, "--format", "json"))
    return found


# Looking.


def test_an_open_transaction_is_shown_with_the_readers_it_keeps_waiting(
    shell: Shell, bootstrap: str, name: str, partition: TopicPartition
) -> None:
    shell.ok("produce", "-t", partition.topic, stdin=b"before\n")
    producer = opened(bootstrap, name, partition)
    shell.ok("produce", "-t", partition.topic, stdin=b"behind\n")
    assert committed(shell, partition) == b"before\n"

    found = shell.ok("transactions", "describe", "--transactional-id", name).decode()
    heads = [line.split() for line in found.splitlines() if line.isupper() and "TOPIC" in line]
    assert heads == [
        ["COORDINATOR", "TRANSACTIONAL-ID", "PRODUCER-ID", "PRODUCER-EPOCH", "STATE", "TIMEOUT-MS", "START", "DURATION",
         "TOPIC-PARTITIONS"],
        ["TRANSACTIONAL-ID", "TOPIC", "PARTITION", "START-OFFSET", "LAST-STABLE-OFFSET", "HOLDS-BACK", "WAITING"],
    ]  # fmt: skip
    assert found.splitlines()[-1].split() == [name, partition.topic, "0", "1", "1", "yes", "3"]
    (row,) = rows(shell, "describe", "--transactional-id", name)
    assert (row["producer_id"], row["producer_epoch"], row["state"]) == (*producer, "Ongoing")
    assert row["topic_partitions"] == [f"{partition.topic}:0"]
    assert (row["partitions"][0]["start_offset"], row["partitions"][0]["is_holding"]) == (1, True)

    (held,) = rows(shell, "describe", "--topic", partition.topic, "--partition", "0")
    assert (held["transactional_id"], held["last_stable_offset"], held["waiting"]) == (name, 1, 3)
    assert held["since_ms"] == row["start_ms"]
    assert held["topic"] in {each["topic"] for each in rows(shell, "list", "--holding")}


def test_a_partition_that_nobody_holds_back_is_shown_without_a_holder(shell: Shell, partition: TopicPartition) -> None:
    (held,) = rows(shell, "describe", "--topic", partition.topic)
    assert (held["transactional_id"], held["waiting"]) == (None, 0)
    assert partition.topic not in {each["topic"] for each in rows(shell, "list", "--holding")}


def test_transactional_ids_are_listed_by_what_is_asked_for(
    shell: Shell, bootstrap: str, name: str, partition: TopicPartition
) -> None:
    producer = opened(bootstrap, name, partition)
    heads, *_ = shell.ok("transactions", "list").decode().splitlines()
    assert heads.split() == ["TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID", "STATE"]
    wanted = {"transactional_id": name, "coordinator": 1, "producer_id": producer.producer_id, "state": "Ongoing"}
    assert rows(shell, "list", "--transactional-id-pattern", f"{name[:-1]}.") == [wanted]
    assert rows(shell, "list", "--producer-id", str(producer.producer_id), "--state", "ongoing,empty") == [wanted]
    assert wanted in rows(shell, "list", "--duration-filter", "0")
    assert wanted not in rows(shell, "list", "--state", "completecommit")


def test_the_tab_key_knows_transactional_ids(
    shell: Shell, bootstrap: str, name: str, partition: TopicPartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidelog.cli.completion.ANSWER_WITHIN_MS", 20_000)
    opened(bootstrap, name, partition)
    line = f"tidelog transactions describe --transactional-id {name[:-2]}"
    assert shell.ok("completion", "bash", "--line", line).decode().splitlines() == [name]


def test_an_id_that_nobody_uses_is_told_of_on_stderr(shell: Shell) -> None:
    assert shell("transactions", "describe", "--transactional-id", "nobody") == b""
    assert (shell.exit_code, "nobody: TRANSACTIONAL_ID_NOT_FOUND" in shell.errors) == (1, True)


def test_the_producers_of_a_partition_are_shown(shell: Shell, bootstrap: str, partition: TopicPartition) -> None:
    left_hanging(bootstrap, partition)
    (row,) = rows(shell, "describe-producers", "--topic", partition.topic, "--partition", "0")
    assert (row["producer_id"], row["producer_epoch"], row["last_sequence"], row["start_offset"]) == (
        *UNKNOWN_TO_ALL,
        0,
        0,
    )


def test_the_transaction_log_is_printed_step_by_step(
    shell: Shell, bootstrap: str, name: str, partition: TopicPartition
) -> None:
    producer = opened(bootstrap, name, partition)
    shell.ok("transactions", "commit", "--transactional-id", name, *pair(producer))
    lines = shell.ok("consume", "-t", "__transaction_state", "--formatter", "transactions", "-J", "-e").splitlines()
    mine = [one["value"] for one in map(json.loads, lines) if one["key"]["data"]["transactionalId"] == name]
    assert [one["data"]["transactionStatus"] for one in mine] == [0, 1, 2, 4]
    assert [one["data"]["transactionPartitions"] for one in mine] == [
        None,
        [{"topic": partition.topic, "partitionIds": [0]}],
        [{"topic": partition.topic, "partitionIds": [0]}],
        [],
    ]


def test_the_coordinator_of_an_id_is_located_by_the_hash_of_its_name(shell: Shell) -> None:
    (row,) = rows(shell, "locate", "--transactional-id", "my_tx_id")
    assert (row["transactional_id"], row["formula"]) == ("my_tx_id", "abs(-462871453) % 50 = 3")
    assert (row["partition"], row["coordinator"], row["replicas"]) == (3, 1, [1])


# What hangs.


def test_a_hanging_transaction_is_found_and_aborted(shell: Shell, bootstrap: str, partition: TopicPartition) -> None:
    left_hanging(bootstrap, partition)
    shell.ok("produce", "-t", partition.topic, stdin=b"behind\n")
    assert committed(shell, partition) == b""
    (held,) = rows(shell, "describe", "--topic", partition.topic)
    assert (held["state"], held["transactional_id"], held["since_ms"], held["waiting"]) == ("hanging", None, 1_000, 2)

    where = ["--topic", partition.topic, "--partition", "0"]
    (row,) = rows(shell, "find-hanging", *where)
    assert f"abort --topic {partition.topic} --partition 0 --start-offset 0" in shell.errors
    assert (row["producer_id"], row["producer_epoch"], row["start_offset"]) == (*UNKNOWN_TO_ALL, 0)
    assert shell.ok("transactions", "abort", *where, "--start-offset", "0").startswith(b"aborted the transaction of")
    assert rows(shell, "find-hanging", *where) == []
    assert committed(shell, partition) == b"behind\n"


def test_a_hanging_transaction_whose_first_records_were_deleted_is_shown_and_aborted(
    shell: Shell, bootstrap: str, partition: TopicPartition
) -> None:
    left_hanging(bootstrap, partition)
    shell.ok("produce", "-t", partition.topic, stdin=b"behind\n")
    shell.ok("topics", "delete-records", partition.topic, "--before", "1")
    (held,) = rows(shell, "describe", "--topic", partition.topic)
    assert (held["state"], held["producer_id"], held["since_ms"], held["waiting"]) == ("hanging", 4_000_000, None, 1)
    assert partition.topic in [row["topic"] for row in rows(shell, "list", "--holding")]
    where = ["--topic", partition.topic, "--partition", "0"]
    assert [row["start_offset"] for row in rows(shell, "find-hanging", *where)] == [0]
    shell.ok("transactions", "abort", *where, "--start-offset", "0")
    assert committed(shell, partition) == b"behind\n"


def test_a_hanging_transaction_is_aborted_by_its_producer_as_of_old(
    shell: Shell, bootstrap: str, partition: TopicPartition
) -> None:
    left_hanging(bootstrap, partition)
    where = ["--topic", partition.topic, "--partition", "0", *pair(UNKNOWN_TO_ALL)]
    shell.ok("transactions", "abort", *where, "--coordinator-epoch", "-1")
    assert rows(shell, "find-hanging", "--topic", partition.topic) == []


def test_only_partitions_of_a_broker_are_searched_if_one_is_named(
    shell: Shell, bootstrap: str, partition: TopicPartition
) -> None:
    left_hanging(bootstrap, partition)
    assert [row["topic"] for row in rows(shell, "find-hanging", "--topic", partition.topic, "--broker-id", "1")] == [
        partition.topic
    ]
    assert rows(shell, "find-hanging", "--broker-id", "9") == []


def test_what_was_written_to_lately_is_not_said_to_hang(
    shell: Shell, bootstrap: str, partition: TopicPartition
) -> None:
    left_hanging(bootstrap, partition)
    decades = str(100 * 365 * 24 * 60)
    assert rows(shell, "find-hanging", "--topic", partition.topic, "--max-transaction-timeout", decades) == []


def test_a_transaction_that_its_coordinator_knows_is_not_torn(
    shell: Shell, bootstrap: str, name: str, partition: TopicPartition
) -> None:
    opened(bootstrap, name, partition)
    shell("transactions", "abort", "--topic", partition.topic, "--partition", "0", "--start-offset", "0")
    assert (shell.exit_code, f"say --transactional-id {name}" in shell.errors) == (1, True)
    shell("transactions", "abort", "--topic", partition.topic, "--partition", "0", "--start-offset", "1")
    assert (shell.exit_code, "no open transaction begins at offset 1" in shell.errors) == (1, True)


# Ending.


def test_a_live_transaction_is_aborted_and_its_producer_fenced(
    shell: Shell, bootstrap: str, name: str, partition: TopicPartition
) -> None:
    producer = opened(bootstrap, name, partition)
    said = shell.ok("transactions", "abort", "--transactional-id", name)
    assert said.decode().endswith(f"(id {producer.producer_id}, epoch {producer.producer_epoch}) is fenced\n")
    late = written(bootstrap, lambda raw: raw.end(name, producer, is_committed=True))
    assert late is ErrorCode.PRODUCER_FENCED
    assert committed(shell, partition) == b""
    shell("transactions", "abort", "--transactional-id", name)
    assert (shell.exit_code, "there is nothing to abort; its state is Empty" in shell.errors) == (1, True)


def test_an_id_that_nobody_uses_is_not_brought_to_life_by_aborting(shell: Shell) -> None:
    shell("transactions", "abort", "--transactional-id", "a-typo")
    assert (shell.exit_code, "a-typo: TRANSACTIONAL_ID_NOT_FOUND" in shell.errors) == (1, True)
    assert rows(shell, "list", "--transactional-id-pattern", "a-typo") == []


def test_a_prepared_transaction_is_committed_under_the_pair_it_was_prepared_under(
    shell: Shell, bootstrap: str, name: str, partition: TopicPartition
) -> None:
    producer = opened(bootstrap, name, partition, is_two_phase=True)
    shell("transactions", "commit", "--transactional-id", name, *pair(ProducerIdentity(producer.producer_id, 99)))
    assert (shell.exit_code, "PRODUCER_FENCED" in shell.errors) == (1, True)
    said = shell.ok("transactions", "commit", "--transactional-id", name, *pair(producer))
    assert said.decode() == f"committed the transaction of {name}\n"
    assert committed(shell, partition) == b"one\ntwo\n"


@pytest.mark.parametrize(("verb", "records"), [("commit", b"one\ntwo\n"), ("abort", b"")])
def test_a_prepared_transaction_is_ended_under_the_pair_it_was_prepared_under_when_who_kept_it_is_dead(
    shell: Shell, bootstrap: str, name: str, partition: TopicPartition, verb: str, records: bytes
) -> None:
    producer = opened(bootstrap, name, partition, is_two_phase=True)
    written(bootstrap, lambda raw: raw.init(name, keeps=True))
    wrong = ProducerIdentity(producer.producer_id, 99)
    shell("transactions", verb, "--transactional-id", name, *pair(wrong))
    assert (shell.exit_code, "PRODUCER_FENCED" in shell.errors) == (1, True)
    (row,) = rows(shell, "describe", "--transactional-id", name)
    assert (row["state"], row["producer_epoch"]) == ("Ongoing", producer.producer_epoch)
    said = shell.ok("transactions", verb, "--transactional-id", name, *pair(producer)).decode()
    assert said in {f"committed the transaction of {name}\n", f"aborted the transaction of {name}\n"}
    assert committed(shell, partition) == records


def test_a_prepared_transaction_is_aborted_under_the_pair_it_was_prepared_under(
    shell: Shell, bootstrap: str, name: str, partition: TopicPartition
) -> None:
    producer = opened(bootstrap, name, partition, is_two_phase=True)
    shell.ok("transactions", "abort", "--transactional-id", name, *pair(producer))
    assert committed(shell, partition) == b""
    assert [row["state"] for row in rows(shell, "describe", "--transactional-id", name)] == ["CompleteAbort"]


@pytest.mark.parametrize(("answer", "is_aborted"), [(b"y\n", True), (b"\n", False)])
def test_who_sits_at_a_terminal_is_asked_before_a_producer_is_fenced(
    shell: Shell, bootstrap: str, name: str, partition: TopicPartition, answer: bytes, is_aborted: bool
) -> None:
    opened(bootstrap, name, partition)
    command = [sys.executable, "-m", "tidelog", "transactions", "abort", "-b", bootstrap, "--transactional-id", name]
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        while b"[y/N]" not in said:
            said += os.read(ours, 4096)
        os.write(ours, answer)
        out, _ = process.communicate(timeout=120)
    os.close(ours)
    assert (process.returncode == 0, b"aborted" in out) == (is_aborted, is_aborted)
    (row,) = rows(shell, "describe", "--transactional-id", name)
    assert (row["state"] != "Ongoing") is is_aborted


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["describe", "--transactional-id", "a", "--partition", "1"], "--partition goes with --topic"),
        (["find-hanging", "--partition", "1"], "--partition goes with --topic"),
        (["abort", "--topic", "t"], "--topic goes with --partition"),
        (["abort", "--topic", "t", "--partition", "0"], "(or --start-offset alone)"),
        (["abort", "--topic", "t", "--partition", "0", "--producer-id", "1"], "--producer-epoch, --coordinator-epoch"),
        (["abort", "--transactional-id", "a", "--producer-id", "1"], "missing: --producer-epoch"),
        (["abort", "--transactional-id", "a", "--start-offset", "1"], "go with --topic"),
        (["abort"], "one of the arguments"),
        (["commit", "--transactional-id", "a"], "--producer-id"),
        (["list", "--duration-filter", "long"], "not a number of milliseconds"),
    ],
)
def test_what_makes_no_sense_is_refused(shell: Shell, words: list[str], complaint: str) -> None:
    assert shell("transactions", *words) == b""
    assert shell.exit_code == 2
    assert complaint in shell.errors


def pair(producer: ProducerIdentity) -> list[str]:
    return ["--producer-id", str(producer.producer_id), "--producer-epoch", str(producer.producer_epoch)]
