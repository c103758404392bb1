"""Transactions step by step on a cluster of three processes, and what is in which log after each step.

First a producer alone, then the cycle of reading, processing and writing; each fails first, and succeeds the second time.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.cli.shell import Shell
from tests.compatibility.processes import TidelogUp
from tidelog.client import Committed, ConsumedRecord, Consumer, ConsumerConfig, Producer, ProducerConfig
from tidelog.runtime import Runtime
from tidelog.runtime.real import real_runtime

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

T = TypeVar("T")

TOPIC, OUT = "tp_tx_01", "tp_tx_out_01"
ALONE, CYCLE = "my_tx_id", "tx_id_02"
GROUP = "consumer_grp_02"
EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[TidelogUp]:
    with TidelogUp(tmp_path / "data") as up:
        yield up


@pytest.fixture
def shell(cluster: TidelogUp, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(cluster.bootstrap, capfdbinary, monkeypatch)


@pytest.fixture
def story(cluster: TidelogUp) -> Callable[[Callable[[Runtime], Awaitable[T]]], T]:
    """Runs a program against the cluster."""

    def run(program: Callable[[Runtime], Awaitable[T]]) -> T:
        async def play() -> T:
            runtime = real_runtime()
            try:
                return await program(runtime)
            finally:
                runtime.disk.close()

        return asyncio.run(play())

    return run


def producing(bootstrap: str, name: str) -> ProducerConfig:
    return ProducerConfig.from_properties({"bootstrap.servers": bootstrap, "transactional.id": name})


def read(shell: Shell, topic: str, isolation_level: str) -> list[bytes]:
    return shell.ok("consume", "-t", topic, "-X", f"isolation.level={isolation_level}", "-e").splitlines()


def steps(shell: Shell, name: str) -> list[tuple[int, list[str]]]:
    """What the transaction log says of an id, record by record: its state and its partitions."""
    lines = shell.ok("consume", "-t", "__transaction_state", "--formatter", "transactions", "-J", "-e").splitlines()
    values = [one["value"]["data"] for one in map(json.loads, lines) if one["key"]["data"]["transactionalId"] == name]
    return [(value["transactionStatus"], _partitions(value)) for value in values]


def _partitions(value: dict[str, Any]) -> list[str]:
    topics = value["transactionPartitions"] or []
    return [f"{topic['topic']}:{index}" for topic in topics for index in topic["partitionIds"]]


def described(shell: Shell, name: str) -> dict[str, Any]:
    (row,) = json.loads(shell.ok("transactions", "describe", "--transactional-id", name, "--format", "json"))
    found: dict[str, Any] = row
    return found


@pytest.fixture
def one_of_two_counts(
    shell: Shell, cluster: TidelogUp, story: Callable[[Callable[[Runtime], Awaitable[Any]]], Any]
) -> None:
    """A topic of two records: the program failed after the first, and committed the second."""
    shell.ok("topics", "create", TOPIC, "--partitions", "1", "--replication-factor", "3")

    async def failing(producer: Producer) -> None:
        async with producer.transaction():
            await producer.send_and_wait(TOPIC, b"tx_msg_01")
            _ = 1 / 0

    async def fail_then_succeed(runtime: Runtime) -> None:
        async with Producer.connect(producing(cluster.bootstrap, ALONE), runtime) as producer:
            await producer.init_transactions()
            with pytest.raises(ZeroDivisionError):
                await failing(producer)
            async with producer.transaction():
                await producer.send(TOPIC, b"tx_msg_02")

    story(fail_then_succeed)


@pytest.mark.usefixtures("one_of_two_counts")
def test_records_count_when_they_are_committed_and_never_if_the_program_fails(shell: Shell, cluster: TidelogUp) -> None:
    assert read(shell, TOPIC, "read_uncommitted") == [b"tx_msg_01", b"tx_msg_02"]
    assert read(shell, TOPIC, "read_committed") == [b"tx_msg_02"]
    part = [f"{TOPIC}:0"]
    assert steps(shell, ALONE) == [
        (EMPTY, []),
        (ONGOING, part),
        (PREPARE_ABORT, part),
        (COMPLETE_ABORT, []),
        (ONGOING, part),
        (PREPARE_COMMIT, part),
        (COMPLETE_COMMIT, []),
    ]
    dumped = shell.ok("log", "dump", "--records", *map(str, sorted(cluster.data.glob(f"broker-1/{TOPIC}-0/*.log"))))
    marks = [
        line.partition("endTxnMarker: ")[2].split()[0] for line in dumped.decode().splitlines() if "Marker" in line
    ]
    assert marks == ["ABORT", "COMMIT"]


@pytest.mark.usefixtures("one_of_two_counts")
def test_what_was_read_and_what_was_written_count_together_though_the_coordinator_dies(
    shell: Shell, cluster: TidelogUp, story: Callable[[Callable[[Runtime], Awaitable[Any]]], Any]
) -> None:
    shell.ok("topics", "create", OUT, "--partitions", "1", "--replication-factor", "3")
    (located,) = json.loads(shell.ok("transactions", "locate", "--transactional-id", CYCLE, "--format", "json"))
    properties = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": GROUP,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
        "isolation.level": "read_committed",
    }
    config = ConsumerConfig.from_properties(properties)

    async def cycle(producer: Producer, consumer: Consumer, before_commit: Callable[[], object]) -> None:
        records: list[ConsumedRecord] = []
        while not records:
            records = await consumer.poll(timeout_ms=1_000)
        async with producer.transaction():
            for record in records:
                await producer.send_and_wait(OUT, record.value, key=record.key)
            offsets = {one.topic_partition: Committed(one.offset + 1) for one in records}
            await producer.send_offsets_to_transaction(offsets, consumer.group.metadata())
            before_commit()

    async def fail(runtime: Runtime) -> None:
        async with (
            Consumer.connect(config, runtime) as consumer,
            Producer.connect(producing(cluster.bootstrap, CYCLE), runtime) as producer,
        ):
            await producer.init_transactions()
            consumer.group.subscribe([TOPIC])
            with pytest.raises(ZeroDivisionError):
                await cycle(producer, consumer, lambda: 1 / 0)

    async def succeed(runtime: Runtime) -> None:
        async with (
            Consumer.connect(config, runtime) as consumer,
            Producer.connect(producing(cluster.bootstrap, CYCLE), runtime) as producer,
        ):
            await producer.init_transactions()
            consumer.group.subscribe([TOPIC])
            kill = signal.SIGKILL
            await cycle(producer, consumer, lambda: cluster.signal_broker(located["coordinator"], kill))

    story(fail)
    assert read(shell, OUT, "read_committed") == []
    story(succeed)
    assert read(shell, OUT, "read_uncommitted") == [b"tx_msg_02", b"tx_msg_02"]
    assert read(shell, OUT, "read_committed") == [b"tx_msg_02"]
    (row,) = json.loads(shell.ok("groups", "describe", GROUP, "--format", "json"))
    assert (row["topic"], row["current_offset"], row["log_end_offset"]) == (TOPIC, 3, 4)  # the last offset is a marker
    found = described(shell, CYCLE)
    assert (found["state"], found["topic_partitions"]) == ("CompleteCommit", [])
    seen = [state for state, _ in steps(shell, CYCLE)]
    assert seen[-2:] == [PREPARE_COMMIT, COMPLETE_COMMIT]
    assert COMPLETE_ABORT in seen
