"""Offsets of a group that count with a transaction."""

from __future__ import annotations

import asyncio

import pytest

from tests.client.scripted_brokers import T0
from tests.client.transactions.scripted_transactions import ScriptedTransactions, Silence
from tidelog.client import (
    CommitFailed,
    Committed,
    GroupMetadata,
    Producer,
    TransactionFailed,
    TransactionPending,
    WrongUse,
)
from tidelog.model import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

GROUP = GroupMetadata("g", 4, "me", None)
OFFSETS = {T0: Committed(10, 2, "note")}
V1, V2 = 1, 2


def test_offsets_go_in_the_name_of_the_member_that_consumed_them() -> None:
    async def story(producer: Producer) -> None:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send_offsets_to_transaction(OFFSETS, GROUP)

    cluster = ScriptedTransactions(level=V2)
    cluster.run(story)
    assert cluster.log == ["INIT_PRODUCER_ID", "TXN_OFFSET_COMMIT", "END_TXN"]
    ((_, request),) = cluster.brokers.requests(TxnOffsetCommitRequest)
    assert (request.group_id, request.generation_id, request.member_id) == ("g", 4, "me")
    ((row,),) = [topic.partitions for topic in request.topics]
    assert (row.committed_offset, row.committed_leader_epoch, row.committed_metadata) == (10, 2, "note")


def test_in_version_one_the_group_joins_first() -> None:
    async def story(producer: Producer) -> None:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send_offsets_to_transaction(OFFSETS, GROUP)

    cluster = ScriptedTransactions(level=V1)
    cluster.run(story)
    assert cluster.log == ["INIT_PRODUCER_ID", "ADD_OFFSETS_TO_TXN", "TXN_OFFSET_COMMIT", "END_TXN"]


@pytest.mark.parametrize(
    "code", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID]
)
def test_who_is_no_member_any_more_commits_nothing(code: ErrorCode) -> None:
    async def story(producer: Producer) -> None:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send("t", b"a", partition=0)
        with pytest.raises(CommitFailed, match=code.name):
            await producer.send_offsets_to_transaction(OFFSETS, GROUP)
        await producer.abort_transaction()
        producer.begin_transaction()

    cluster = ScriptedTransactions()
    cluster.twist(ApiKey.TXN_OFFSET_COMMIT, code)
    cluster.run(story)
    assert cluster.ended == [(0, False)]


def test_offsets_of_unknown_fate_are_not_committed() -> None:
    async def story(producer: Producer) -> None:
        await producer.init_transactions()
        producer.begin_transaction()
        with pytest.raises(TransactionPending):
            await producer.send_offsets_to_transaction(OFFSETS, GROUP)
        with pytest.raises(TransactionFailed, match="may be missing"):
            await producer.commit_transaction()
        await producer.abort_transaction()

    cluster = ScriptedTransactions()
    cluster.twist(ApiKey.TXN_OFFSET_COMMIT, *[Silence.UNHEARD] * 9)
    cluster.run(story, max_block_ms="2500")
    assert cluster.ended == [(0, False)]


def test_offsets_that_wait_for_their_turn_do_not_get_into_the_next_transaction() -> None:
    async def story(producer: Producer) -> None:
        async def commit_and_begin() -> None:
            await producer.commit_transaction()
            producer.begin_transaction()

        async def refused() -> None:
            with pytest.raises(WrongUse, match="has ended for which offsets were to be sent"):
                await producer.send_offsets_to_transaction(OFFSETS, GROUP)

        await producer.init_transactions()
        producer.begin_transaction()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(producer.send_offsets_to_transaction(OFFSETS, GROUP))
            tasks.create_task(commit_and_begin())
            tasks.create_task(refused())
        await producer.commit_transaction()

    cluster = ScriptedTransactions()
    cluster.run(story)
    assert cluster.ended == [(0, True)]
    assert len(cluster.brokers.requests(TxnOffsetCommitRequest)) == 1
