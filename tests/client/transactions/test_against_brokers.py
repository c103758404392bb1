"""Transactional producers of one production broker in a simulated world."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from tests.client.broker_world import BrokerWorld, client_config
from tests.client.transactions.story import T0, T1, committed_values, consumer_config, pass_time, producer_config, write
from tidelog.client import (
    ClientError,
    Cluster,
    CommitFailed,
    Committed,
    Consumer,
    GroupMetadata,
    PreparedTransaction,
    Producer,
    ProducerFenced,
    TransactionFailed,
    TransactionRefused,
    finish_transaction,
    offsets_after,
)
from tidelog.runtime import Runtime

T = TypeVar("T")
VERSIONS = ["1", "2"]
GROUP = GroupMetadata("g", -1, "", None)

pytestmark = pytest.mark.slow


@pytest.fixture
def world() -> Iterator[BrokerWorld]:
    with BrokerWorld(
        transaction_state_log_replication_factor="1",
        transaction_state_log_min_isr="1",
        transaction_state_log_num_partitions="3",
        offsets_topic_num_partitions="3",
        offsets_topic_replication_factor="1",
        transaction_two_phase_commit_enable="true",
        transaction_abort_timed_out_transaction_cleanup_interval_ms="1000",
    ) as world:
        world.create_topic(partitions=2)
        yield world


class Told:
    """A story with as many producers as it needs, all gone at its end."""

    def __init__(self, world: BrokerWorld, runtime: Runtime) -> None:
        self.world = world
        self.runtime = runtime

    def producer(self, **settings: str) -> Any:
        return Producer.connect(producer_config(self.world, **settings), self.runtime)

    async def committed(self) -> list[bytes]:
        return await committed_values(self.world, self.runtime, T0, T1)

    async def finish(self, prepared: PreparedTransaction, *, is_committed: bool) -> None:
        config = client_config()
        async with Cluster(config, self.runtime) as cluster:
            await finish_transaction(cluster, config, self.runtime, prepared, is_committed=is_committed)


def tell(world: BrokerWorld, story: Callable[[Told], Coroutine[Any, Any, T]]) -> T:
    async def told(runtime: Runtime) -> T:
        return await story(Told(world, runtime))

    return world.tell(told)


class OutOfLuckError(Exception):
    """Whatever may go wrong in a program."""


async def run_out_of_luck(producer: Producer) -> None:
    async with producer.transaction():
        await write(producer, b"never")
        await producer.flush()
        raise OutOfLuckError


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_committed_is_read_and_what_is_aborted_is_not(world: BrokerWorld, version: str) -> None:
    async def story(told: Told) -> list[bytes]:
        async with told.producer(tidelog_transaction_version_max=version) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await write(producer, b"a", b"b")
            with pytest.raises(OutOfLuckError):
                await run_out_of_luck(producer)
            async with producer.transaction():
                await write(producer, b"c")
                await write(producer, b"d", partition=1)
        return await told.committed()

    assert tell(world, story) == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize("version", VERSIONS)
def test_readers_wait_for_an_open_transaction_and_read_nothing_of_it(world: BrokerWorld, version: str) -> None:
    async def story(told: Told) -> None:
        async with told.producer(tidelog_transaction_version_max=version) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            await write(producer, b"a")
            await producer.flush()
            assert await told.committed() == []
            await producer.commit_transaction()
            assert await told.committed() == [b"a"]

    tell(world, story)


async def produce(producer: Producer) -> None:
    await (await producer.send("t", b"late", partition=0))


async def commit(producer: Producer) -> None:
    await producer.commit_transaction()


async def abort(producer: Producer) -> None:
    await producer.abort_transaction()


async def send_offsets(producer: Producer) -> None:
    await producer.send_offsets_to_transaction({T0: Committed(5)}, GROUP)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("call", [produce, commit, abort, send_offsets])
def test_a_zombie_is_fenced_whatever_it_does(
    world: BrokerWorld, version: str, call: Callable[[Producer], Coroutine[Any, Any, None]]
) -> None:
    async def story(told: Told) -> None:
        settings = {"tidelog_transaction_version_max": version}
        async with told.producer(**settings) as zombie, told.producer(**settings) as successor:
            await zombie.init_transactions()
            zombie.begin_transaction()
            await write(zombie, b"zombie")
            await zombie.flush()
            await successor.init_transactions()
            async with successor.transaction():
                await write(successor, b"successor")
            with pytest.raises(ClientError):
                await call(zombie)
            with pytest.raises((ProducerFenced, TransactionFailed)):
                await zombie.commit_transaction()
            with pytest.raises(ProducerFenced):
                await zombie.abort_transaction()
            async with successor.transaction():
                await write(successor, b"again")
        assert await told.committed() == [b"successor", b"again"]

    tell(world, story)


@pytest.mark.parametrize("version", VERSIONS)
def test_who_sleeps_through_the_timeout_is_fenced_and_nothing_of_it_is_seen(world: BrokerWorld, version: str) -> None:
    async def story(told: Told) -> None:
        settings = {"tidelog_transaction_version_max": version, "transaction_timeout_ms": "2000"}
        async with told.producer(**settings) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            await write(producer, b"too late")
            await producer.flush()
            await pass_time(10_000)
            with pytest.raises(ProducerFenced if version == "1" else TransactionFailed):
                await producer.commit_transaction()
            if version == "2":
                await producer.abort_transaction()
                async with producer.transaction():
                    await write(producer, b"in time")
        assert await told.committed() == ([b"in time"] if version == "2" else [])

    tell(world, story)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_committed", [True, False])
def test_a_transaction_is_written_by_one_process_and_finished_by_another(
    world: BrokerWorld, version: str, is_committed: bool
) -> None:
    async def story(told: Told) -> list[bytes]:
        async with told.producer(tidelog_transaction_version_max=version) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            await write(producer, b"a")
            text = str(await producer.prepare_transaction())
        prepared = PreparedTransaction.parse(text)
        await told.finish(prepared, is_committed=is_committed)
        await told.finish(prepared, is_committed=is_committed)
        with pytest.raises((TransactionRefused, ProducerFenced)):
            await told.finish(prepared, is_committed=not is_committed)
        return await told.committed()

    assert tell(world, story) == ([b"a"] if is_committed else [])


@pytest.mark.parametrize("version", VERSIONS)
def test_who_has_handed_over_takes_its_id_again_and_goes_on(world: BrokerWorld, version: str) -> None:
    async def story(told: Told) -> list[bytes]:
        async with told.producer(tidelog_transaction_version_max=version) as producer:
            await producer.init_transactions()
            for value in (b"a", b"b", b"c"):
                producer.begin_transaction()
                await write(producer, value)
                await told.finish(await producer.prepare_transaction(), is_committed=True)
                await producer.init_transactions()
        return await told.committed()

    assert tell(world, story) == [b"a", b"b", b"c"]


def test_what_was_finished_already_is_not_finished_by_a_late_hand_over(world: BrokerWorld) -> None:
    async def story(told: Told) -> list[bytes]:
        async with told.producer() as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            await write(producer, b"a")
            prepared = await producer.prepare_transaction()
            assert await producer.complete_transaction(prepared)
            async with producer.transaction():
                await write(producer, b"b")
            with pytest.raises((ProducerFenced, TransactionRefused)):
                await told.finish(prepared, is_committed=False)
        return await told.committed()

    assert tell(world, story) == [b"a", b"b"]


@pytest.mark.parametrize("is_written_down", [True, False])
def test_a_prepared_transaction_survives_its_process_and_is_completed_as_was_written_down(
    world: BrokerWorld, is_written_down: bool
) -> None:
    async def story(told: Told) -> list[bytes]:
        two_phase = {"transaction_two_phase_commit_enable": "true", "transaction_timeout_ms": "1000"}
        async with told.producer(**two_phase) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            await write(producer, b"a")
            prepared = await producer.prepare_transaction()
        await pass_time(30_000)
        if not is_written_down:
            prepared = PreparedTransaction(
                transactional_id="orders", producer_id=prepared.producer_id, producer_epoch=77
            )
        async with told.producer(**two_phase) as producer:
            await producer.init_transactions(keep_prepared=True)
            assert await producer.complete_transaction(prepared) is is_written_down
            async with producer.transaction():
                await write(producer, b"b")
        return await told.committed()

    assert tell(world, story) == ([b"a", b"b"] if is_written_down else [b"b"])


def test_whoever_keeps_a_prepared_transaction_fences_its_writer(world: BrokerWorld) -> None:
    async def story(told: Told) -> list[bytes]:
        two_phase = {"transaction_two_phase_commit_enable": "true"}
        async with told.producer(**two_phase) as writer, told.producer(**two_phase) as keeper:
            await writer.init_transactions()
            writer.begin_transaction()
            await write(writer, b"a")
            prepared = await writer.prepare_transaction()
            await keeper.init_transactions(keep_prepared=True)
            with pytest.raises(ProducerFenced):
                await writer.commit_transaction()
            await keeper.complete_transaction(prepared)
        return await told.committed()

    assert tell(world, story) == [b"a"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("version", VERSIONS)
def test_consuming_and_producing_count_together(world: BrokerWorld, version: str, protocol: str) -> None:
    async def story(told: Told) -> None:
        async with told.producer(transactional_id="source") as source:
            await source.init_transactions()
            async with source.transaction():
                await write(source, b"a", b"b", b"c")
        config = consumer_config(world, group_id="g", enable_auto_commit="false", group_protocol=protocol)
        async with (
            told.producer(tidelog_transaction_version_max=version) as producer,
            Consumer.connect(config, told.runtime) as consumer,
        ):
            await producer.init_transactions()
            consumer.group.subscribe(["t"])
            seen = 0
            while seen < 3:
                for record in await consumer.poll(max_records=1, timeout_ms=1_000):
                    if record.topic_partition != T0:
                        continue
                    async with producer.transaction():
                        await write(producer, (record.value or b"").upper(), partition=1)
                        await producer.send_offsets_to_transaction(offsets_after([record]), consumer.group.metadata())
                    seen += 1
            committed = (await consumer.group.committed([T0]))[T0]
            assert committed is not None
            assert committed.offset == 3
        assert (await told.committed())[3:] == [b"A", b"B", b"C"]

    tell(world, story)


@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_of_an_aborted_transaction_do_not_count(world: BrokerWorld, version: str) -> None:
    async def story(told: Told) -> Committed | None:
        async with told.producer(tidelog_transaction_version_max=version) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            await producer.send_offsets_to_transaction({T0: Committed(1)}, GROUP)
            await producer.commit_transaction()
            producer.begin_transaction()
            await producer.send_offsets_to_transaction({T0: Committed(2)}, GROUP)
            await producer.abort_transaction()
        async with Consumer.connect(consumer_config(world, group_id="g"), told.runtime) as consumer:
            return (await consumer.group.committed([T0]))[T0]

    committed = tell(world, story)
    assert committed is not None
    assert committed.offset == 1


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_member_that_was_put_out_commits_nothing_in_its_transaction(
    world: BrokerWorld, version: str, protocol: str
) -> None:
    async def story(told: Told) -> None:
        config = consumer_config(world, group_id="g", enable_auto_commit="false", group_protocol=protocol)
        async with told.producer(tidelog_transaction_version_max=version) as producer:
            await producer.init_transactions()
            async with Consumer.connect(config, told.runtime) as consumer:
                consumer.group.subscribe(["t"])
                while not consumer.assignment:
                    await consumer.poll(timeout_ms=100)
                late = consumer.group.metadata()
            async with Consumer.connect(config, told.runtime) as successor:
                successor.group.subscribe(["t"])
                while not successor.assignment:
                    await successor.poll(timeout_ms=100)
                producer.begin_transaction()
                await write(producer, b"processed twice")
                with pytest.raises(CommitFailed):
                    await producer.send_offsets_to_transaction({T0: Committed(9)}, late)
                with pytest.raises(TransactionFailed):
                    await producer.commit_transaction()
                await producer.abort_transaction()
                assert (await successor.group.committed([T0]))[T0] is None
        assert await told.committed() == []

    tell(world, story)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_transaction_goes_on_while_the_broker_is_killed_and_comes_back(world: BrokerWorld, version: str) -> None:
    async def story(told: Told) -> list[bytes]:
        async with told.producer(tidelog_transaction_version_max=version) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            await write(producer, b"a")
            await producer.flush()
            world.kill_broker()
            world.start_broker()
            await write(producer, b"b")
            await producer.commit_transaction()
            async with producer.transaction():
                await write(producer, b"c")
        return await told.committed()

    assert tell(world, story) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("version", VERSIONS)
def test_who_was_forgotten_while_it_had_nothing_to_write_goes_on_under_another_name(version: str) -> None:
    forgetful = {
        "transactional_id_expiration_ms": "5000",
        "transaction_remove_expired_transaction_cleanup_interval_ms": "1000",
        "transaction_state_log_replication_factor": "1",
        "transaction_state_log_min_isr": "1",
    }

    async def story(told: Told) -> list[bytes]:
        async with told.producer(tidelog_transaction_version_max=version) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await write(producer, b"a")
            await pass_time(20_000)
            producer.begin_transaction()
            await write(producer, b"no")
            with pytest.raises(TransactionFailed, match="INVALID_PRODUCER_ID_MAPPING"):
                await producer.commit_transaction()
            await producer.abort_transaction()
            async with producer.transaction():
                await write(producer, b"b")
        return await told.committed()

    with BrokerWorld(1, **forgetful) as world:
        world.create_topic(partitions=2)
        assert tell(world, story) == [b"a", b"b"]
