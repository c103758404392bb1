"""Transactions that are left open on purpose, and who ends them."""

from __future__ import annotations

import pytest

from tests.client.transactions.scripted_transactions import PRODUCER_ID, ScriptedTransactions, Silence
from tidelog.client import (
    ClientConfig,
    Cluster,
    PreparedTransaction,
    Producer,
    ProducerFenced,
    TransactionAborted,
    TransactionPending,
    TransactionRefused,
    UnsupportedApi,
    WrongUse,
    finish_transaction,
)
from tidelog.model import ErrorCode
from tidelog.runtime import Runtime
from tidelog.wire.api import ApiKey

V1, V2 = 1, 2


def test_closing_a_producer_aborts_what_is_open_and_leaves_what_is_prepared() -> None:
    async def leaves_open(producer: Producer) -> None:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send("t", b"a", partition=0)

    async def leaves_prepared(producer: Producer) -> str:
        await leaves_open(producer)
        return str(await producer.prepare_transaction())

    cluster = ScriptedTransactions()
    cluster.run(leaves_open)
    assert cluster.ended == [(0, False)]
    other = ScriptedTransactions()
    assert other.run(leaves_prepared) == f"{PRODUCER_ID}:0:orders"
    assert other.ended == []


@pytest.mark.parametrize(("written_epoch", "is_committed"), [(4, True), (3, False)])
def test_a_kept_transaction_is_committed_if_it_is_the_one_written_down(written_epoch: int, is_committed: bool) -> None:
    async def story(producer: Producer) -> bool:
        await producer.init_transactions(keep_prepared=True)
        written = PreparedTransaction(transactional_id="orders", producer_id=PRODUCER_ID, producer_epoch=written_epoch)
        return await producer.complete_transaction(written)

    cluster = ScriptedTransactions()
    cluster.epoch, cluster.ongoing = 4, (PRODUCER_ID, 4)
    assert cluster.run(story, transaction_two_phase_commit_enable="true") is is_committed
    assert cluster.ended == [(5, is_committed)]  # in the name of who keeps it


def test_where_nothing_was_left_there_is_nothing_to_complete() -> None:
    async def story(producer: Producer) -> bool:
        await producer.init_transactions(keep_prepared=True)
        done = await producer.complete_transaction(PreparedTransaction(transactional_id="orders"))
        producer.begin_transaction()
        return done

    cluster = ScriptedTransactions()
    assert not cluster.run(story, transaction_two_phase_commit_enable="true")
    assert cluster.ended == []


def test_two_phases_need_version_two_of_the_protocol() -> None:
    async def story(producer: Producer) -> None:
        with pytest.raises(UnsupportedApi):
            await producer.init_transactions()

    ScriptedTransactions(level=V1).run(story, transaction_two_phase_commit_enable="true")
    old = ScriptedTransactions()
    old.newest[ApiKey.INIT_PRODUCER_ID] = 5
    old.run(story, transaction_two_phase_commit_enable="true")


def test_only_two_phases_keep_what_is_prepared() -> None:
    async def story(producer: Producer) -> None:
        with pytest.raises(WrongUse, match=r"transaction\.two\.phase\.commit\.enable"):
            await producer.init_transactions(keep_prepared=True)

    ScriptedTransactions().run(story)


@pytest.mark.parametrize("level", [V1, V2])
def test_whoever_knows_the_name_finishes_a_transaction(level: int) -> None:
    prepared = PreparedTransaction(transactional_id="orders", producer_id=PRODUCER_ID, producer_epoch=4)
    cluster = ScriptedTransactions(level=level)
    cluster.twist(ApiKey.END_TXN, ErrorCode.NOT_COORDINATOR, Silence.DONE)

    async def story(runtime: Runtime) -> None:
        config = ClientConfig.from_properties({"bootstrap.servers": cluster.brokers.bootstrap})
        async with Cluster(config, runtime) as client:
            await finish_transaction(client, config, runtime, prepared, is_committed=True)
            empty = PreparedTransaction(transactional_id="orders")
            await finish_transaction(client, config, runtime, empty, is_committed=True)
            cluster.twist(ApiKey.END_TXN, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE)
            with pytest.raises(ProducerFenced):
                await finish_transaction(client, config, runtime, prepared, is_committed=True)
            with pytest.raises(TransactionRefused):
                await finish_transaction(client, config, runtime, prepared, is_committed=False)

    cluster.brokers.run(story)
    assert cluster.ended == [(4, True)]


def test_records_of_a_prepared_transaction_do_not_slip_into_the_next_one() -> None:
    async def story(producer: Producer) -> None:
        await producer.init_transactions()
        producer.begin_transaction()
        lost = await producer.send("t", b"a", partition=0)
        with pytest.raises(TransactionPending):
            await producer.prepare_transaction()
        await producer.init_transactions()
        with pytest.raises(TransactionAborted):
            await lost
        async with producer.transaction():
            await producer.send("t", b"b", partition=0)

    cluster = ScriptedTransactions()
    cluster.twist(ApiKey.PRODUCE, *[Silence.UNHEARD] * 3)
    cluster.run(story, max_block_ms="1500")
    assert cluster.written == [(1, 0)]
