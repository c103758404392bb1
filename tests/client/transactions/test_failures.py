"""What becomes of a transaction, and of its producer, when something is refused."""

from __future__ import annotations

import pytest

from tests.client.scripted_brokers import T0
from tests.client.transactions.scripted_transactions import PRODUCER_ID, ScriptedTransactions, Silence
from tests.client.transactions.story import pass_time
from tidelog.client import (
    ClientClosed,
    Cluster,
    Committed,
    DeliveryTimeout,
    GroupMetadata,
    ProduceFailed,
    Producer,
    ProducerFenced,
    TransactionAborted,
    TransactionFailed,
    TransactionPending,
    TransactionRefused,
)
from tidelog.model import ErrorCode
from tidelog.runtime import Runtime
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest

GROUP = GroupMetadata("g", 4, "me", None)
OFFSETS = {T0: Committed(10, 2, "note")}
V1, V2 = 1, 2


async def offsets_and_commit(producer: Producer) -> None:
    await producer.send_offsets_to_transaction(OFFSETS, GROUP)
    await producer.commit_transaction()


def test_who_is_fenced_after_a_lost_answer_is_told_that_the_commit_may_have_counted() -> None:
    async def story(producer: Producer) -> None:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send("t", b"a", partition=0)
        with pytest.raises(ProducerFenced, match="whether it was committed before is not known"):
            await producer.commit_transaction()

    cluster = ScriptedTransactions()
    cluster.twist(ApiKey.END_TXN, Silence.DONE, ErrorCode.PRODUCER_FENCED)
    cluster.run(story)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ],
)
@pytest.mark.parametrize("level", [V1, V2])
def test_after_a_refused_batch_the_transaction_is_aborted_and_the_producer_goes_on_in_another_epoch(
    level: int, code: ErrorCode
) -> None:
    async def story(producer: Producer) -> None:
        await producer.init_transactions()
        producer.begin_transaction()
        lost = await producer.send("t", b"a", partition=0)
        with pytest.raises(TransactionFailed, match=code.name):
            await producer.commit_transaction()
        with pytest.raises(ProduceFailed):
            await lost
        with pytest.raises(TransactionFailed):
            await producer.send("t", b"b", partition=0)
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("t", b"c", partition=0)

    cluster = ScriptedTransactions(level=level)
    cluster.twist(ApiKey.PRODUCE, code)
    cluster.run(story)
    assert cluster.ended == [(0, False), (1, True)]
    assert cluster.written == [(1, 0)]
    assert cluster.log.count("INIT_PRODUCER_ID") == (2 if level == V1 else 1)


def test_in_version_one_the_new_epoch_is_asked_for_in_the_name_of_the_old_one() -> None:
    async def story(producer: Producer) -> None:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send("t", b"a", partition=0)
        await producer.flush()
        await producer.abort_transaction()

    cluster = ScriptedTransactions(level=V1)
    cluster.twist(ApiKey.PRODUCE, ErrorCode.INVALID_TXN_STATE)
    cluster.run(story)
    first, second = [request for _, request in cluster.brokers.requests(InitProducerIdRequest)]
    assert (first.producer_id, first.producer_epoch) == (-1, -1)
    assert (second.producer_id, second.producer_epoch) == (PRODUCER_ID, 0)


def test_a_record_that_expires_makes_the_transaction_fail() -> None:
    async def story(producer: Producer) -> None:
        await producer.init_transactions()
        producer.begin_transaction()
        lost = await producer.send("t", b"a", partition=0)
        with pytest.raises(DeliveryTimeout):
            await lost
        with pytest.raises(TransactionFailed, match="not acknowledged"):
            await producer.commit_transaction()
        await producer.abort_transaction()

    cluster = ScriptedTransactions()
    cluster.twist(ApiKey.PRODUCE, *[Silence.UNHEARD] * 5)
    cluster.run(story, delivery_timeout_ms="1500")
    assert cluster.ended == [(0, False)]


@pytest.mark.parametrize("level", [V1, V2])
def test_an_abort_takes_what_has_not_left_and_waits_for_what_is_on_the_wire(level: int) -> None:
    async def story(producer: Producer) -> None:
        await producer.init_transactions()
        producer.begin_transaction()
        lost = await producer.send("t", b"a", partition=0)
        await cluster.heard(ApiKey.PRODUCE)
        await producer.abort_transaction()
        with pytest.raises(TransactionAborted):
            await lost

    cluster = ScriptedTransactions(level=level)
    cluster.twist(ApiKey.PRODUCE, Silence.UNHEARD)
    cluster.run(story)
    assert cluster.log.count("PRODUCE") == 1
    assert cluster.ended == [(0, False)]
    assert cluster.epoch == 1  # what was on the wire may still arrive, and must find itself fenced


def test_whom_the_coordinator_has_forgotten_is_given_another_name_by_an_abort() -> None:
    async def story(producer: Producer) -> None:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send("t", b"a", partition=0)
        with pytest.raises(TransactionFailed, match="INVALID_PRODUCER_ID_MAPPING"):
            await producer.commit_transaction()
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("t", b"b", partition=0)

    cluster = ScriptedTransactions()
    cluster.twist(ApiKey.PRODUCE, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    cluster.run(story)
    assert cluster.ended == [(1, True)]
    assert cluster.written == [(1, 0)]


def test_an_abort_of_what_the_coordinator_never_heard_of_needs_another_epoch_in_version_one() -> None:
    async def story(producer: Producer) -> None:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send("t", b"a", partition=0)
        await cluster.heard(ApiKey.ADD_PARTITIONS_TO_TXN)
        await producer.abort_transaction()
        producer.begin_transaction()

    cluster = ScriptedTransactions(level=V1)
    cluster.twist(ApiKey.ADD_PARTITIONS_TO_TXN, Silence.UNHEARD)
    cluster.twist(ApiKey.END_TXN, ErrorCode.INVALID_TXN_STATE)
    cluster.run(story)
    assert cluster.epoch == 1


@pytest.mark.parametrize(
    ("key", "level"),
    [
        (ApiKey.END_TXN, V1),
        (ApiKey.END_TXN, V2),
        (ApiKey.ADD_PARTITIONS_TO_TXN, V1),
        (ApiKey.ADD_OFFSETS_TO_TXN, V1),
        (ApiKey.TXN_OFFSET_COMMIT, V2),
    ],
)
@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_fenced_producer_hears_it_whatever_it_calls(key: ApiKey, level: int, code: ErrorCode) -> None:
    async def story(producer: Producer) -> None:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send("t", b"a", partition=0)
        with pytest.raises(ProducerFenced, match=code.name):
            await offsets_and_commit(producer)
        for call in (
            producer.commit_transaction(),
            producer.abort_transaction(),
            producer.send("t", b"b", partition=0),
        ):
            with pytest.raises(ProducerFenced):
                await call

    cluster = ScriptedTransactions(level=level)
    cluster.twist(key, code)
    cluster.run(story)


def test_who_may_not_use_the_id_is_refused_for_good() -> None:
    async def story(producer: Producer) -> None:
        for _ in range(2):
            with pytest.raises(TransactionRefused, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
                await producer.init_transactions()

    cluster = ScriptedTransactions()
    cluster.twist(ApiKey.INIT_PRODUCER_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    cluster.run(story)
    assert cluster.log == ["INIT_PRODUCER_ID"]


def test_a_commit_that_comes_too_late_is_told_so_and_the_producer_goes_on_after_an_abort() -> None:
    async def story(producer: Producer) -> None:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send("t", b"a", partition=0)
        with pytest.raises(TransactionFailed, match="perhaps it timed out"):
            await producer.commit_transaction()
        await producer.abort_transaction()
        producer.begin_transaction()

    cluster = ScriptedTransactions()
    cluster.twist(ApiKey.END_TXN, ErrorCode.INVALID_TXN_STATE)
    cluster.run(story)
    assert cluster.ended == [(0, False)]


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE])
def test_whoever_waits_for_records_that_never_leave_hears_why_at_once(code: ErrorCode) -> None:
    async def story(producer: Producer) -> None:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send("t", b"a", partition=0)
        with pytest.raises((TransactionFailed, TransactionRefused), match=code.name):
            await producer.commit_transaction()

    cluster = ScriptedTransactions(level=V1)
    cluster.twist(ApiKey.ADD_PARTITIONS_TO_TXN, code)
    cluster.run(story, max_block_ms="60000", delivery_timeout_ms="200000")
    assert "PRODUCE" not in cluster.log
    assert cluster.brokers.world.loop.time() < 5


def test_the_doubt_about_a_commit_outlives_the_call_that_got_no_answer() -> None:
    async def story(producer: Producer) -> None:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send("t", b"a", partition=0)
        with pytest.raises(TransactionPending):
            await producer.commit_transaction()
        with pytest.raises(ProducerFenced, match="whether it was committed before is not known"):
            await producer.commit_transaction()

    cluster = ScriptedTransactions()
    cluster.twist(ApiKey.END_TXN, Silence.UNHEARD, ErrorCode.PRODUCER_FENCED)
    cluster.run(story, max_block_ms="1060")


def test_a_cluster_that_was_closed_before_its_producer_is_not_asked_for_ever() -> None:
    """In version 1 somebody tells the coordinator of partitions; where nobody can be told, it must not hold the loop."""
    scripted = ScriptedTransactions(level=V1)

    async def story(runtime: Runtime) -> None:
        config = scripted.config()
        async with Cluster(config, runtime, creates_topics=True) as cluster:
            producer = await Producer(cluster, config, runtime).__aenter__()
            await producer.init_transactions()
            await cluster.topic("t", timeout_ms=1_000)
            producer.begin_transaction()
            await cluster.close()
            lost = await producer.send("t", b"a", partition=0)
            await pass_time(1_000)
            assert not lost.done()
            with pytest.raises(ClientClosed):
                await producer.close(timeout_ms=1_000)
            with pytest.raises(TransactionAborted):
                await lost

    scripted.brokers.run(story)
    assert "ADD_PARTITIONS_TO_TXN" not in scripted.log
