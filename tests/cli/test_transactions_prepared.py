"""`tidelog transactions abort-prepared` against a running broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.shell import Shell
from tests.compatibility.processes import TidelogProcess
from tests.raw_transactions import opened, written
from tidelog.client import ClientConfig, Cluster, TransactionKeeper
from tidelog.client.bridge import Bridge
from tidelog.model import ErrorCode, ProducerIdentity, TopicPartition
from tidelog.runtime.real import real_runtime

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    options = ("-X", "transaction.two.phase.commit.enable=true")
    with TidelogProcess(tmp_path_factory.mktemp("prepared") / "data", *options) as process:
        yield process.bootstrap


@pytest.fixture
def partition(shell: Shell, topic: str) -> TopicPartition:
    shell.ok("topics", "create", topic)
    return TopicPartition(topic, 0)


def committed(shell: Shell, partition: TopicPartition) -> bytes:
    return shell.ok("consume", "-t", partition.topic, "-X", "isolation.level=read_committed", "-e")


def commit(bootstrap: str, name: str, producer: ProducerIdentity) -> ErrorCode:
    return written(bootstrap, lambda raw: raw.end(name, producer, is_committed=True))


def adopt(bootstrap: str, name: str) -> None:
    """As a driver does that dies afterwards."""

    async def adopt() -> None:
        config, runtime = ClientConfig.from_properties({"bootstrap.servers": bootstrap}), real_runtime()
        async with Cluster(config, runtime) as cluster:
            assert (await TransactionKeeper(cluster, config, runtime).adopt([name]))[name] is not None

    with Bridge() as bridge:
        bridge.run(adopt(), timeout_s=90)


def test_all_that_a_query_has_left_is_aborted_and_nothing_else(
    shell: Shell, bootstrap: str, topic: str, partition: TopicPartition
) -> None:
    ours = [f"{topic}-1", f"{topic}-2"]
    writers = {name: opened(bootstrap, name, partition, is_two_phase=True) for name in ours}
    other = opened(bootstrap, f"{topic}x-1", partition, is_two_phase=True)
    alive = opened(bootstrap, f"{topic}-3", partition)
    adopt(bootstrap, ours[1])
    said = shell.ok("transactions", "abort-prepared", "--prefix", f"{topic}-").decode()
    assert said.splitlines() == [f"aborted the transaction of {name}" for name in ours]
    assert [commit(bootstrap, *each) for each in writers.items()] == [ErrorCode.PRODUCER_FENCED] * 2
    assert commit(bootstrap, f"{topic}x-1", other) is ErrorCode.NONE
    assert commit(bootstrap, f"{topic}-3", alive) is ErrorCode.NONE
    assert committed(shell, partition) == b"one\ntwo\n" * 2


def test_where_nothing_is_prepared_nothing_is_done(shell: Shell, topic: str) -> None:
    assert shell("transactions", "abort-prepared", "--prefix", f"{topic}-") == b""
    assert (shell.exit_code, f"whose id begins with {topic}-" in shell.errors) == (0, True)


def test_a_prefix_must_be_named(shell: Shell) -> None:
    for words in ([], ["--prefix", ""]):
        shell("transactions", "abort-prepared", *words)
        assert (shell.exit_code, "--prefix" in shell.errors) == (2, True)
