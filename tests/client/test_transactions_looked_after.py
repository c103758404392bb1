"""Transactions of a production broker: who holds readers back, what hangs, and what an admin can end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import pytest

from tests.client.broker_world import BrokerWorld, client_config
from tests.raw_transactions import RawTransactions
from tidelog.client import Admin, Cluster, RequestRefused, TransactionDescription
from tidelog.model import ErrorCode, ProducerIdentity, TopicPartition
from tidelog.runtime import Runtime

pytestmark = pytest.mark.slow

T = TypeVar("T")
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
UNKNOWN_TO_ALL = ProducerIdentity(4_000_000, 2)
ALONE = {"transaction.state.log.replication.factor": "1", "transaction.state.log.num.partitions": "4"}
HANGING_ALLOWED = {"transaction.partition.verification.enable": "false"}


class Hands(NamedTuple):
    """What a story has in hands."""

    admin: Admin
    raw: RawTransactions
    runtime: Runtime


def told(story: Callable[[Hands], Awaitable[T]], settings: Mapping[str, str] = MappingProxyType({})) -> T:
    """Tell a story to a broker with a topic of two partitions."""
    with BrokerWorld(1, **ALONE, **settings) as world:
        world.create_topic("t", partitions=2)

        async def play(runtime: Runtime) -> T:
            config = client_config()
            async with Cluster(config, runtime) as cluster:
                return await story(
                    Hands(Admin(cluster, config, runtime), RawTransactions(cluster, config, runtime), runtime)
                )

        return world.tell(play)


async def described(admin: Admin, name: str) -> TransactionDescription:
    found = (await admin.transactions.describe([name]))[name]
    assert isinstance(found, TransactionDescription)
    return found


async def waiting(admin: Admin, key: TopicPartition) -> int:
    found = (await admin.transactions.holders([key]))[key]
    assert not isinstance(found, ErrorCode)
    return found.waiting_count


def test_an_open_transaction_is_listed_described_and_named_as_the_one_that_holds_back() -> None:
    async def story(hands: Hands) -> None:
        admin, raw, _ = hands
        producer = await raw.init("payer")
        await raw.open("payer", producer, T1, b"one", b"two")
        (listed,) = await admin.transactions.list(states=["ongoing"])
        assert (listed.transactional_id, listed.producer_id) == ("payer", producer.producer_id)
        assert await admin.transactions.list(states=["empty"]) == ()
        assert await admin.transactions.list(pattern="pay") == ()
        assert await admin.transactions.list(pattern="pay.*") == (listed,)
        assert await admin.transactions.list(duration_ms=3_600_000) == ()
        found = await described(admin, "payer")
        assert (found.state, found.timeout_ms, found.partitions) == ("Ongoing", 600_000, (T1,))
        assert found.start_ms is not None
        held = (await admin.transactions.holders([T0, T1]))[T1]
        assert not isinstance(held, ErrorCode)
        assert (held.last_stable_offset, held.waiting_count) == (0, 2)
        assert held.holder is not None
        assert held.holder.transaction == found
        assert await waiting(admin, T0) == 0
        await raw.end("payer", producer, is_committed=True)
        assert await admin.transactions.describe(["nobody"]) == {"nobody": ErrorCode.TRANSACTIONAL_ID_NOT_FOUND}

    told(story)


def test_a_fenced_producer_cannot_commit_and_its_records_are_aborted() -> None:
    async def story(hands: Hands) -> None:
        admin, raw, _ = hands
        producer = await raw.init("payer")
        await raw.open("payer", producer, T0, b"one")
        taken = (await admin.transactions.fence(["payer"]))["payer"]
        assert not isinstance(taken, ErrorCode)
        assert taken.producer_epoch > producer.producer_epoch
        assert await raw.end("payer", producer, is_committed=True) is ErrorCode.PRODUCER_FENCED
        assert await waiting(admin, T0) == 0
        assert (await described(admin, "payer")).partitions == ()

    told(story)


def test_a_hanging_transaction_is_found_and_aborted_and_readers_go_on() -> None:
    async def story(hands: Hands) -> None:
        admin, raw, _ = hands
        alive = await raw.init("alive")
        await raw.open("alive", alive, T0, b"x")
        await raw.write(UNKNOWN_TO_ALL, T1, b"lost", b"too")
        found = await admin.transactions.find_hanging([T0, T1], max_timeout_ms=60_000)
        assert list(found) == [T1]
        hanging = found[T1]
        assert not isinstance(hanging, ErrorCode)
        (one,) = hanging
        assert (one.producer.producer_id, one.first_offset, one.transaction) == (4_000_000, 0, None)
        assert await waiting(admin, T1) == 2
        await admin.transactions.abort(T1, UNKNOWN_TO_ALL, coordinator_epoch=one.producer.coordinator_epoch)
        assert await admin.transactions.find_hanging([T0, T1], max_timeout_ms=60_000) == {}
        assert await waiting(admin, T1) == 0
        assert await waiting(admin, T0) == 1

    told(story, HANGING_ALLOWED)


def test_a_hanging_transaction_whose_first_records_were_deleted_is_found_and_aborted() -> None:
    async def story(hands: Hands) -> None:
        admin, raw, _ = hands
        await raw.write(UNKNOWN_TO_ALL, T1, b"lost", b"too")
        await raw.write(UNKNOWN_TO_ALL, T1, b"more", sequence=2)
        await admin.delete_records({T1: 2})
        held = (await admin.transactions.holders([T1]))[T1]
        assert not isinstance(held, ErrorCode)
        assert (held.last_stable_offset, held.waiting_count) == (2, 1)
        assert held.holder is not None
        assert (held.holder.first_offset, held.holder.is_hanging) == (0, True)
        assert list(await admin.transactions.find_hanging([T1], max_timeout_ms=60_000)) == [T1]
        coordinator_epoch = held.holder.producer.coordinator_epoch
        await admin.transactions.abort(T1, UNKNOWN_TO_ALL, coordinator_epoch=coordinator_epoch)
        assert await waiting(admin, T1) == 0

    told(story, HANGING_ALLOWED)


def test_a_transaction_that_hangs_in_the_name_of_a_live_id_is_found_by_its_partition() -> None:
    async def story(hands: Hands) -> None:
        admin, raw, _ = hands
        producer = await raw.init("payer")
        await raw.open("payer", producer, T0, b"one")
        await raw.write(producer, T1, b"of a partition that nobody added")
        found = await admin.transactions.find_hanging([T0, T1], max_timeout_ms=60_000)
        assert list(found) == [T1]
        await raw.end("payer", producer, is_committed=True)
        assert list(await admin.transactions.find_hanging([T0, T1], max_timeout_ms=60_000)) == [T1]

    told(story, HANGING_ALLOWED)


def test_a_prepared_transaction_is_committed_from_outside_after_its_producer_died() -> None:
    async def story(hands: Hands) -> None:
        admin, raw, _ = hands
        producer = await raw.init("payer", is_two_phase=True)
        await raw.open("payer", producer, T0, b"one")
        wrong = ProducerIdentity(producer.producer_id, producer.producer_epoch + 7)
        with pytest.raises(RequestRefused, match="PRODUCER_FENCED"):
            await admin.transactions.end("payer", wrong, is_committed=True)
        following = await admin.transactions.end("payer", producer, is_committed=True)
        assert following == ProducerIdentity(producer.producer_id, producer.producer_epoch + 1)
        assert await admin.transactions.end("payer", producer, is_committed=True) == following
        with pytest.raises(RequestRefused, match="INVALID_TXN_STATE"):
            await admin.transactions.end("payer", producer, is_committed=False)
        assert (await described(admin, "payer")).state == "CompleteCommit"
        assert await waiting(admin, T0) == 0

    told(story, {"transaction.two.phase.commit.enable": "true"})


def test_an_admin_whose_connections_are_older_than_the_producers_is_heard() -> None:
    async def story(hands: Hands) -> None:
        admin = hands.admin
        await admin.transactions.find_coordinators(["payer"])
        async with Cluster(client_config(), hands.runtime) as later:
            raw = RawTransactions(later, client_config(), hands.runtime)
            producer = await raw.init("payer")
            await raw.open("payer", producer, T0, b"one")
            await admin.transactions.end("payer", producer, is_committed=True)
            assert isinstance((await admin.transactions.fence(["payer"]))["payer"], ProducerIdentity)

    told(story)
