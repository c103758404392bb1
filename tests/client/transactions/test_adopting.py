"""Prepared transactions in the hands of others: adopted, adopted again, and ended by whoever is the last."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from tests.client.broker_world import BrokerWorld, client_config
from tests.client.transactions.scripted_transactions import ScriptedTransactions, Silence
from tests.client.transactions.story import T0, T1, committed_values, pass_time, producer_config, write
from tidelog.client import (
    Admin,
    ClientConfig,
    ClientError,
    Cluster,
    PreparedTransaction,
    Producer,
    ProducerFenced,
    TransactionKeeper,
    TransactionPending,
    TransactionRefused,
    UnsupportedApi,
)
from tidelog.model import ErrorCode
from tidelog.runtime import Runtime
from tidelog.wire.api import ApiKey

T = TypeVar("T")
OUTCOMES = [True, False]
SETTINGS = {
    "transaction_state_log_replication_factor": "1",
    "transaction_state_log_min_isr": "1",
    "transaction_state_log_num_partitions": "3",
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": "1000",
}

pytestmark = pytest.mark.slow


class Told:
    """A story of writers and of those who end what they have prepared."""

    def __init__(self, world: BrokerWorld, runtime: Runtime, cluster: Cluster) -> None:
        self.world = world
        self.runtime = runtime
        self.cluster = cluster

    def keeper(self) -> TransactionKeeper:
        """Another process each time."""
        return TransactionKeeper(self.cluster, client_config(), self.runtime)

    def producer(self, name: str = "orders") -> Any:
        config = producer_config(self.world, transactional_id=name, transaction_two_phase_commit_enable="true")
        return Producer.connect(config, self.runtime)

    async def prepare(self, value: bytes, name: str = "orders") -> PreparedTransaction:
        async with self.producer(name) as producer:
            assert await producer.init_transactions(keep_prepared=True) is None
            producer.begin_transaction()
            await write(producer, value)
            prepared = await producer.prepare_transaction()
            assert isinstance(prepared, PreparedTransaction)
            return prepared

    async def committed(self) -> list[bytes]:
        return await committed_values(self.world, self.runtime, T0, T1)

    async def states(self, *names: str) -> list[str]:
        described = await Admin(self.cluster, client_config(), self.runtime).transactions.describe(names)
        return [each.name if isinstance(each, ErrorCode) else each.state for each in described.values()]


def tell(story: Callable[[Told], Coroutine[Any, Any, T]], *, is_two_phase_allowed: bool = True) -> T:
    allowed = str(is_two_phase_allowed).lower()
    with BrokerWorld(1, transaction_two_phase_commit_enable=allowed, **SETTINGS) as world:
        world.create_topic(partitions=2)

        async def told(runtime: Runtime) -> T:
            async with Cluster(client_config(), runtime) as cluster:
                return await story(Told(world, runtime, cluster))

        return world.tell(told)


@pytest.mark.parametrize("is_committed", OUTCOMES)
@pytest.mark.parametrize("earlier_count", [0, 1, 3])
def test_what_others_adopted_before_they_died_is_still_ended(earlier_count: int, is_committed: bool) -> None:
    async def story(told: Told) -> list[bytes]:
        prepared = await told.prepare(b"a")
        for _ in range(earlier_count):
            adopted = (await told.keeper().adopt(["orders"]))["orders"]
            assert adopted is not None
            assert adopted.prepared == prepared
        await told.keeper().finish([prepared], is_committed=is_committed)
        async with told.producer() as producer:
            await producer.init_transactions(keep_prepared=True)
            async with producer.transaction():
                await write(producer, b"b")
        return await told.committed()  # and nobody waits

    assert tell(story) == ([b"a", b"b"] if is_committed else [b"b"])


@pytest.mark.parametrize("is_committed", OUTCOMES)
def test_only_who_adopted_last_ends_a_transaction(is_committed: bool) -> None:
    async def story(told: Told) -> list[bytes]:
        prepared = await told.prepare(b"a")
        first = (await told.keeper().adopt(["orders"]))["orders"]
        second = (await told.keeper().adopt(["orders"]))["orders"]
        assert first is not None
        assert second is not None
        assert await told.keeper().end([first], is_committed=not is_committed) == (prepared,)
        assert await told.states("orders") == ["Ongoing"]
        assert await told.keeper().end([second], is_committed=is_committed) == ()
        assert await told.keeper().end([second], is_committed=is_committed) == ()
        assert await told.keeper().end([first], is_committed=not is_committed) == (prepared,)
        return await told.committed()

    assert tell(story) == ([b"a"] if is_committed else [])


@pytest.mark.parametrize("is_committed", OUTCOMES)
def test_finishing_is_repeated_without_harm_and_never_hits_a_later_transaction(is_committed: bool) -> None:
    async def story(told: Told) -> list[bytes]:
        prepared = await told.prepare(b"a")
        await told.keeper().finish([prepared, PreparedTransaction(transactional_id="empty")], is_committed=is_committed)
        await told.keeper().finish([prepared], is_committed=is_committed)
        await told.keeper().finish([prepared], is_committed=not is_committed)  # comes too late
        later = await told.prepare(b"b")
        await told.keeper().finish([prepared], is_committed=is_committed)
        assert await told.states("orders", "empty") == ["Ongoing", "TRANSACTIONAL_ID_NOT_FOUND"]
        await told.keeper().finish([later], is_committed=True)
        return await told.committed()

    assert tell(story) == ([b"a", b"b"] if is_committed else [b"b"])


def test_many_are_adopted_and_ended_at_once_and_none_times_out() -> None:
    async def story(told: Told) -> list[bytes]:
        names = [f"task-{number}" for number in range(30)]
        prepared = [await told.prepare(name.encode(), name) for name in names]
        adopted = await told.keeper().adopt([*names, "nobody"])
        await pass_time(300_000)
        assert adopted.pop("nobody") is None
        assert [each.prepared for each in adopted.values() if each is not None] == prepared
        assert await told.keeper().end([each for each in adopted.values() if each is not None], is_committed=True) == ()
        return await told.committed()

    assert sorted(tell(story)) == sorted(f"task-{number}".encode() for number in range(30))


def test_a_writer_whose_open_transaction_was_adopted_adds_no_partition_to_it() -> None:
    async def story(told: Told) -> list[bytes]:
        async with told.producer() as writer:
            await writer.init_transactions(keep_prepared=True)
            writer.begin_transaction()
            await write(writer, b"a")
            await writer.flush()
            adopted = (await told.keeper().adopt(["orders"]))["orders"]
            assert adopted is not None
            with pytest.raises(ClientError):
                await (await writer.send("t", b"late", partition=1))
            await told.keeper().end([adopted], is_committed=True)
        return await told.committed()

    assert tell(story) == [b"a"]


def test_a_late_incarnation_of_the_writer_neither_aborts_nor_extends_what_is_decided() -> None:
    async def story(told: Told) -> list[bytes]:
        prepared = await told.prepare(b"a")
        adopted = (await told.keeper().adopt(["orders"]))["orders"]
        assert adopted is not None
        async with told.producer() as zombie:
            assert await zombie.init_transactions(keep_prepared=True) == prepared
            with pytest.raises(ClientError):
                zombie.begin_transaction()
        assert await told.keeper().end([adopted], is_committed=True) == (prepared,)
        await told.keeper().finish([prepared], is_committed=True)
        return await told.committed()

    assert tell(story) == [b"a"]


def test_brokers_that_do_not_allow_two_phases_refuse() -> None:
    async def story(told: Told) -> None:
        with pytest.raises(TransactionRefused) as refused:
            await told.keeper().adopt(["orders"])
        assert refused.value.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    tell(story, is_two_phase_allowed=False)


@pytest.mark.parametrize("is_level_old", [True, False])
def test_brokers_that_cannot_keep_what_is_prepared_are_told_from_others(is_level_old: bool) -> None:
    old = ScriptedTransactions(level=1 if is_level_old else 2)
    if not is_level_old:
        old.newest[ApiKey.INIT_PRODUCER_ID] = 5

    async def story(runtime: Runtime) -> None:
        config = ClientConfig.from_properties({"bootstrap.servers": old.brokers.bootstrap})
        async with Cluster(config, runtime) as client:
            with pytest.raises(UnsupportedApi):
                await TransactionKeeper(client, config, runtime).adopt(["orders"])

    old.brokers.run(story)


def test_answers_that_do_not_come_are_waited_for_within_bounds() -> None:
    silent = ScriptedTransactions()
    silent.twist(ApiKey.INIT_PRODUCER_ID, ErrorCode.NOT_COORDINATOR, Silence.DONE, *[Silence.UNHEARD] * 20)

    async def story(runtime: Runtime) -> None:
        common = {"bootstrap.servers": silent.brokers.bootstrap, "request.timeout.ms": "500"}
        config = ClientConfig.from_properties({**common, "default.api.timeout.ms": "3000"})
        async with Cluster(config, runtime) as client:
            with pytest.raises(TransactionPending, match=r"default\.api\.timeout\.ms=3000"):
                await TransactionKeeper(client, config, runtime).adopt(["orders"])

    silent.brokers.run(story)


def test_a_producer_learns_between_transactions_whether_its_id_is_still_its_own() -> None:
    async def story(told: Told) -> list[bytes]:
        config = producer_config(told.world)
        async with Producer.connect(config, told.runtime) as older, Producer.connect(config, told.runtime) as newer:
            await older.init_transactions()
            await older.check_not_fenced()
            async with older.transaction():
                await write(older, b"a")
            await older.check_not_fenced()
            await newer.init_transactions()
            with pytest.raises(ProducerFenced):
                await older.check_not_fenced()
            await newer.check_not_fenced()
            async with newer.transaction():
                await write(newer, b"b")
        return await told.committed()

    assert tell(story) == [b"a", b"b"]
