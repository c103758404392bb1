"""Apache Kafka's `kafka-transactions`, in Java, against Tidelog: it sees what `tidelog transactions` sees, and ends what hangs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest

from tests.cli.shell import Shell
from tests.compatibility.apache_kafka import ToolMissing, jars
from tests.compatibility.drivers import Driver, tools_driver
from tests.compatibility.processes import TidelogProcess
from tests.raw_transactions import opened, written
from tidelog.model import ProducerIdentity, TopicPartition

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(180)]

TOOL: Final = "org.apache.kafka.tools.TransactionsCommand"
CONSOLE: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
FORMATTER: Final = "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"
UNKNOWN_TO_ALL: Final = ProducerIdentity(4_000_000, 2)


class Tools(NamedTuple):
    """Kafka's tools in one JVM, told where the broker is."""

    driver: Driver
    bootstrap: str

    def transactions(self, *words: str) -> list[dict[str, str]]:
        """The rows that `kafka-transactions` prints, by heading."""
        lines = ["\t".join(fields) for fields in self.driver.ask(TOOL, "--bootstrap-server", self.bootstrap, *words)]
        table = [line.split("\t") for line in lines if "\t" in line]
        cells = [[cell.strip() for cell in row if cell.strip()] for row in table]
        return [dict(zip(cells[0], row, strict=False)) for row in cells[1:]]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogProcess]:
    """A broker that lets transactions hang, which none does that is not told to."""
    options = ("-X", "transaction.partition.verification.enable=false", "-X", "transaction.state.log.num.partitions=4")
    with TidelogProcess(tmp_path_factory.mktemp("transactions") / "data", *options) as process:
        yield process


@pytest.fixture(scope="module")
def tools(broker: TidelogProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    try:
        driver = tools_driver(jars(), tmp_path_factory.mktemp("tools"))
    except ToolMissing as missing:
        pytest.skip(str(missing))
    with driver:
        yield Tools(driver, broker.bootstrap)


@pytest.fixture
def shell(broker: TidelogProcess, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(broker.bootstrap, capfdbinary, monkeypatch)


@pytest.fixture
def partition(shell: Shell, topic: str) -> TopicPartition:
    shell.ok("topics", "create", topic)
    return TopicPartition(topic, 0)


def ours(shell: Shell, *words: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(shell.ok("transactions", *words, "--format", "json"))
    return rows


def test_both_tools_list_and_describe_the_same(
    tools: Tools, shell: Shell, broker: TidelogProcess, partition: TopicPartition
) -> None:
    opened(broker.bootstrap, "listed", partition)
    listed = {row["TransactionalId"]: row for row in tools.transactions("list")}
    (mine,) = ours(shell, "list", "--transactional-id-pattern", "listed")
    assert listed["listed"] == {
        "TransactionalId": "listed",
        "Coordinator": str(mine["coordinator"]),
        "ProducerId": str(mine["producer_id"]),
        "TransactionState": mine["state"],
    }
    (theirs,) = tools.transactions("describe", "--transactional-id", "listed")
    (mine,) = ours(shell, "describe", "--transactional-id", "listed")
    assert (theirs["ProducerId"], theirs["ProducerEpoch"]) == (str(mine["producer_id"]), str(mine["producer_epoch"]))
    assert theirs["CurrentTransactionStartTimeMs"] == str(mine["start_ms"])
    assert theirs["TransactionTimeoutMs"] == str(mine["timeout_ms"])
    assert theirs["TopicPartitions"] == f"{partition.topic}-0"


def test_kafkas_tool_finds_and_aborts_what_hangs(
    tools: Tools, shell: Shell, broker: TidelogProcess, partition: TopicPartition
) -> None:
    opened(broker.bootstrap, "alive", partition)
    written(broker.bootstrap, lambda raw: raw.write(UNKNOWN_TO_ALL, partition, b"lost"))
    (theirs,) = tools.transactions("find-hanging", "--topic", partition.topic)
    (mine,) = ours(shell, "find-hanging", "--topic", partition.topic)
    assert (theirs["ProducerId"], theirs["StartOffset"]) == (str(mine["producer_id"]), str(mine["start_offset"]))
    where = ("--topic", partition.topic, "--partition", "0", "--start-offset", theirs["StartOffset"])
    tools.transactions("abort", *where)
    assert ours(shell, "find-hanging", "--topic", partition.topic) == []
    (held,) = ours(shell, "describe", "--topic", partition.topic)
    assert held["transactional_id"] == "alive"


def test_both_consoles_print_the_transaction_log_alike(
    tools: Tools, shell: Shell, broker: TidelogProcess, partition: TopicPartition
) -> None:
    producer = opened(broker.bootstrap, "printed", partition)
    pair = ("--producer-id", str(producer.producer_id), "--producer-epoch", str(producer.producer_epoch))
    shell.ok("transactions", "commit", "--transactional-id", "printed", *pair)
    mine = (
        shell.ok("consume", "-t", "__transaction_state", "--formatter", "transactions", "-J", "-e")
        .decode()
        .splitlines()
    )
    everything = ("--from-beginning", "--timeout-ms", "4000", "--max-messages", str(len(mine)))
    asked = tools.driver.ask(
        CONSOLE,
        "--bootstrap-server",
        tools.bootstrap,
        "--topic",
        "__transaction_state",
        "--formatter",
        FORMATTER,
        *everything,
    )
    # Kafka's formatter ends no line.
    theirs = "".join("\t".join(fields) for fields in asked).replace('}{"key"', '}\n{"key"').splitlines()
    assert sorted(theirs) == sorted(mine)
    assert any('"clientTransactionVersion":2' in line for line in theirs)
