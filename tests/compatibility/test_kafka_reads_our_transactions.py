"""What Apache Kafka's own tools make of Tidelog's transactions beyond what `tidelog transactions` does: force, patterns, and the files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Final

import pytest

from tests.compatibility.apache_kafka import ToolMissing, jars
from tests.compatibility.committed_readers import read_by_confluent
from tests.compatibility.drivers import ClientError, tools_driver
from tests.compatibility.group_facts import create_topic
from tests.compatibility.processes import TidelogProcess
from tests.compatibility.test_kafka_group_tools import Tools
from tests.compatibility.transaction_facts import END, close_with_a_record
from tests.compatibility.transactional_clients import ConfluentTransactions

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(180)]
TOOL: Final = "org.apache.kafka.tools.TransactionsCommand"
DUMP: Final = "org.apache.kafka.tools.DumpLogSegments"
STATES: Final = "0-1-2-4-1-3-5-1-2-4"  # a commit, an abort and a commit after the id was made
Row = dict[str, str]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogProcess]:
    """A broker with one partition of `__transaction_state`."""
    settings = ("-X", "transaction.state.log.num.partitions=1")
    with TidelogProcess(tmp_path_factory.mktemp("tools") / "data", *settings) as process:
        yield process


@pytest.fixture(scope="module")
def tools(broker: TidelogProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    """Kafka's tools in one JVM."""
    try:
        driver = tools_driver(jars(), tmp_path_factory.mktemp("classes"))
    except ToolMissing as missing:
        pytest.skip(str(missing))
    with driver:
        yield Tools(driver, broker.bootstrap)


def rows_of(lines: Sequence[str]) -> list[Row]:
    """The rows of a table whose headings and cells have no spaces."""
    table = [line.split() for line in lines if line.strip()]
    return [dict(zip(table[0], cells, strict=False)) for cells in table[1:]]


def open_transaction(broker: TidelogProcess, topic: str) -> ConfluentTransactions:
    """One in partitions 0 and 1, after one that was committed and one that was aborted."""
    client = ConfluentTransactions(broker.bootstrap, topic)
    for end in (client.commit, client.abort, client.flush):
        client.begin()
        for partition in (0, 1):
            client.send(topic, partition, b"value")
        client.flush()
        end()
    return client


def test_kafka_picks_our_transactions_by_pattern_and_duration(tools: Tools, broker: TidelogProcess, topic: str) -> None:
    create_topic(broker.bootstrap, topic)

    def listed(*words: str) -> list[tuple[str, str]]:
        return [(row["TransactionalId"], row["TransactionState"]) for row in rows_of(tools(TOOL, "list", *words))]

    with closing(open_transaction(broker, topic)):
        assert listed("--transactional-id-pattern", f"{topic}.*") == [(topic, "Ongoing")]
        assert (topic, "Ongoing") in listed("--duration-filter", "0")
        assert listed("--duration-filter", "3600000") == []
        assert listed("--transactional-id-pattern", "nobody.*") == []
        (producer,) = rows_of(tools(TOOL, "describe-producers", "--topic", topic, "--partition", "0"))
        assert producer["CurrentTransactionStartOffset"] == "4"
        with pytest.raises(ClientError, match="the ID could not be found"):
            tools(TOOL, "describe", "--transactional-id", "nobody-knows")


def test_kafka_ends_our_transactions_by_force(tools: Tools, broker: TidelogProcess, topic: str) -> None:
    create_topic(broker.bootstrap, topic)
    with closing(open_transaction(broker, topic)):
        tools(TOOL, "forceTerminateTransaction", "--transactionalId", topic)
        close_with_a_record(broker.bootstrap, topic)
        assert read_by_confluent(broker.bootstrap, topic, 0, last=END) == [b"value", END]


def test_kafka_dump_log_decodes_our_files_of_transactions(tools: Tools, tmp_path: Path, topic: str) -> None:
    with TidelogProcess(tmp_path, "-X", "transaction.state.log.num.partitions=1") as broker:
        create_topic(broker.bootstrap, topic)
        with closing(open_transaction(broker, topic)) as client:
            client.commit()

    def dumped(partition: str, suffix: str, *words: str) -> str:
        files = ",".join(map(str, sorted((broker.log_dir / partition).glob(f"*{suffix}"))))
        said = "\n".join("\t".join(fields) for fields in tools.driver.ask(DUMP, *words, "--files", files))
        assert "isvalid: false" not in said
        return said

    log = dumped("__transaction_state-0", ".log", "--transaction-log-decoder")
    data = dumped(f"{topic}-0", ".log", "--deep-iteration", "--print-data-log")
    index = dumped(f"{topic}-0", ".txnindex")
    snapshot = dumped(f"{topic}-0", ".snapshot")

    assert {*re.findall(r'"transactionalId":"([^"]+)"', log)} == {topic}
    states = re.findall(r'"transactionStatus":(\d)', log)
    assert "-".join(state for state, _ in groupby(states)) == STATES
    assert re.findall(r"endTxnMarker: (\w+) coordinatorEpoch: 0", data) == ["COMMIT", "ABORT", "COMMIT"]
    assert re.findall(r"firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", index) == [("2", "3", "4")]
    assert re.search(r"producerId: \d+ .*currentTxnFirstOffset: OptionalLong.empty", snapshot), snapshot
