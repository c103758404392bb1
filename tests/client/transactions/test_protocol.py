"""What a transactional producer says, in which version, and what it makes of the answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.client.scripted_brokers import AS_USUAL
from tests.client.transactions.scripted_transactions import ScriptedTransactions, Silence
from tidelog.client import (
    GroupMetadata,
    Producer,
    TransactionPending,
    WrongUse,
)
from tidelog.model import BrokerId, ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.end_txn import EndTxnRequest
from tidelog.wire.messages.metadata import MetadataRequest

GROUP = GroupMetadata("g", 4, "me", None)
V1, V2 = 1, 2


async def two_commits(producer: Producer) -> None:
    await producer.init_transactions()
    for value in (b"a", b"b"):
        async with producer.transaction():
            await producer.send_and_wait("t", value, partition=0)


def test_version_two_adds_no_partitions_and_has_an_epoch_per_transaction() -> None:
    cluster = ScriptedTransactions(level=V2)
    cluster.run(two_commits)
    assert cluster.log == ["INIT_PRODUCER_ID", "PRODUCE", "END_TXN", "PRODUCE", "END_TXN"]
    assert cluster.written == [(0, 0), (1, 0)]
    assert cluster.ended == [(0, True), (1, True)]


def test_version_one_adds_every_partition_before_its_first_batch_and_keeps_its_epoch() -> None:
    cluster = ScriptedTransactions(level=V1)
    cluster.run(two_commits)
    transaction = ["ADD_PARTITIONS_TO_TXN", "PRODUCE", "END_TXN"]
    assert cluster.log == ["INIT_PRODUCER_ID", *transaction, *transaction]
    assert cluster.written == [(0, 0), (0, 1)]


@pytest.mark.parametrize(
    ("newest", "settings"),
    [
        ({}, {"tidelog_transaction_version_max": "1"}),
        ({ApiKey.END_TXN: 4}, {}),
        ({ApiKey.PRODUCE: 11}, {}),
        ({ApiKey.TXN_OFFSET_COMMIT: 4}, {}),
    ],
)
def test_version_one_is_spoken_where_one_side_knows_no_other(
    newest: dict[ApiKey, int], settings: dict[str, str]
) -> None:
    cluster = ScriptedTransactions(level=V2)
    cluster.newest |= newest
    cluster.run(two_commits, **settings)
    assert cluster.log.count("ADD_PARTITIONS_TO_TXN") == 2


def test_an_empty_transaction_is_not_worth_a_word() -> None:
    async def story(producer: Producer) -> None:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.commit_transaction()
        producer.begin_transaction()
        await producer.send_offsets_to_transaction({}, GROUP)
        await producer.abort_transaction()

    cluster = ScriptedTransactions()
    cluster.run(story)
    assert cluster.log == ["INIT_PRODUCER_ID"]


@pytest.mark.parametrize("level", [V1, V2])
def test_a_commit_whose_answer_is_lost_is_asked_for_again_and_is_one_commit(level: int) -> None:
    cluster = ScriptedTransactions(level=level)
    cluster.twist(ApiKey.END_TXN, Silence.DONE)
    cluster.run(two_commits)
    assert cluster.log.count("END_TXN") == 3
    assert [is_committed for _, is_committed in cluster.ended] == ([True, True] if level == V2 else [True])
    assert len(cluster.written) == 2


def test_a_commit_without_an_answer_is_pending_and_the_next_call_learns_its_outcome() -> None:
    async def story(producer: Producer) -> None:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send("t", b"a", partition=0)
        with pytest.raises(TransactionPending, match="not known; call it again"):
            await producer.commit_transaction()
        with pytest.raises(WrongUse, match=r"commit_transaction\(\) must be called again"):
            await producer.abort_transaction()
        with pytest.raises(WrongUse):
            producer.begin_transaction()
        await producer.commit_transaction()
        producer.begin_transaction()

    cluster = ScriptedTransactions()
    cluster.twist(ApiKey.END_TXN, Silence.DONE, *[Silence.UNHEARD] * 3)
    cluster.run(story, max_block_ms="3500")
    assert cluster.ended == [(0, True)]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    ],
)
@pytest.mark.parametrize("key", [ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN])
def test_what_may_pass_is_asked_again(key: ApiKey, code: ErrorCode) -> None:
    cluster = ScriptedTransactions(level=V1)
    cluster.twist(key, code, code)
    cluster.run(two_commits)
    assert cluster.log.count(key.name) == 2 + (1 if key is ApiKey.INIT_PRODUCER_ID else 2)
    assert cluster.written == [(0, 0), (0, 1)]


def test_a_transaction_that_is_being_ended_is_waited_for_briefly() -> None:
    cluster = ScriptedTransactions()
    cluster.twist(ApiKey.END_TXN, ErrorCode.CONCURRENT_TRANSACTIONS)
    cluster.run(two_commits)
    first, second, _ = cluster.brokers.times(EndTxnRequest)
    assert second - first < 50


def test_the_coordinator_is_looked_for_again_when_it_has_moved() -> None:
    async def story(producer: Producer) -> None:
        await producer.init_transactions()
        cluster.node = 3
        async with producer.transaction():
            await producer.send("t", b"a", partition=0)

    cluster = ScriptedTransactions()
    cluster.run(story)
    assert [node for node, _ in cluster.brokers.requests(EndTxnRequest)] == [2, 3]


def test_a_plain_producer_has_no_transactions() -> None:
    async def story(producer: Producer) -> None:
        with pytest.raises(WrongUse, match=r"transactional\.id is not set"):
            producer.begin_transaction()
        await producer.send_and_wait("t", b"a", partition=0)

    cluster = ScriptedTransactions()
    cluster.run(story, transactional_id="")
    assert cluster.written == []


def test_outside_of_a_transaction_nothing_is_sent() -> None:
    async def story(producer: Producer) -> None:
        with pytest.raises(WrongUse, match=r"init_transactions\(\)"):
            await producer.send("t", b"a", partition=0)
        await producer.init_transactions()
        with pytest.raises(WrongUse, match="has no transaction"):
            await producer.send("t", b"a", partition=0)

    cluster = ScriptedTransactions()
    cluster.run(story)
    assert "PRODUCE" not in cluster.log


def test_a_commit_that_its_caller_gave_up_is_asked_for_again() -> None:
    async def story(producer: Producer) -> None:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send("t", b"a", partition=0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await producer.commit_transaction()
        await producer.commit_transaction()
        producer.begin_transaction()

    cluster = ScriptedTransactions()
    cluster.twist(ApiKey.END_TXN, Silence.DONE)
    cluster.run(story)
    assert cluster.ended == [(0, True)]


def test_of_two_commits_at_a_time_the_second_finds_nothing_to_commit() -> None:
    async def story(producer: Producer) -> None:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send("t", b"a", partition=0)
        outcomes = await asyncio.gather(
            producer.commit_transaction(), producer.commit_transaction(), return_exceptions=True
        )
        assert outcomes[0] is None
        assert isinstance(outcomes[1], WrongUse)

    cluster = ScriptedTransactions()
    cluster.run(story)
    assert cluster.ended == [(0, True)]


def test_a_record_that_waits_for_its_topic_does_not_get_into_the_next_transaction() -> None:
    cluster = ScriptedTransactions()

    async def story(producer: Producer) -> None:
        is_known, is_asked = asyncio.Event(), asyncio.Event()

        async def tell_late(node: BrokerId, request: MetadataRequest) -> Any:
            if request.topics:
                is_asked.set()
                await is_known.wait()
            return AS_USUAL

        cluster.brokers.scripts[ApiKey.METADATA] = tell_late
        await producer.init_transactions()
        producer.begin_transaction()
        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(refused_as_late(producer))
            await is_asked.wait()
            await producer.commit_transaction()
            producer.begin_transaction()
            is_known.set()
            await sending
        await producer.commit_transaction()

    async def refused_as_late(producer: Producer) -> None:
        with pytest.raises(WrongUse, match="has ended: the record was not sent"):
            await producer.send("t", b"a", partition=0)

    cluster.run(story)
    assert (cluster.written, cluster.ended) == ([], [])
