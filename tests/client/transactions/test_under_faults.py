"""Transactions while network and broker misbehave: each counts in all of its partitions or in none, once, and as its producer was told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.client.broker_world import BROKER, CLIENT, BrokerWorld
from tests.client.transactions.story import T0, T1, committed_values, pass_time, producer_config
from tests.client.trouble import Trouble
from tests.tiers import rest_proven
from tidelog.client import (
    BrokersUnreachable,
    Producer,
    ProducerFenced,
    TopicUnavailable,
    TransactionFailed,
    TransactionPending,
    TransactionRefused,
)
from tidelog.runtime import Runtime

TRANSACTIONS = 40
FOR_GOOD = (ProducerFenced, TransactionRefused)
BROKER_SETTINGS = {
    "transaction_state_log_replication_factor": "1",
    "transaction_state_log_min_isr": "1",
    "transaction_state_log_num_partitions": "2",
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": "500",
}


class Ordeal:
    """One seed: faults, and a producer that writes every number to two partitions, in a transaction of its own.

    Rivals take the transactional id from each other all the time.
    """

    def __init__(self, world: BrokerWorld, version: str, *, rivals: int = 1) -> None:
        self.committed: list[int] = []
        self.aborted: list[int] = []
        self.unknown: list[int] = []
        self.read: list[list[int]] = []
        self.lives = 0
        self._world = world
        self._trouble = Trouble(world, cut_ms=9_000)
        self._version = version
        self._rivals = rivals
        self._next = 0

    def run(self) -> None:
        client = self._world.world.node(CLIENT)
        for source, target in ((CLIENT, BROKER), (BROKER, CLIENT)):
            self._world.network.slow(source, target, latency_ms=(5, 40))
        writing = client.spawn(self._write(client.runtime))
        for _ in range(6):
            self._world.world.run_for_ms(self._trouble.chance_ms(1500))
            self._trouble.strike()

        async def story() -> None:
            async with asyncio.timeout(600):
                await writing

        self._world.world.run(story())

    async def _write(self, runtime: Runtime) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(self._rivals):
                group.create_task(self._compete(runtime))
        for partition in (T0, T1):
            self.read.append([int(value) for value in await committed_values(self._world, runtime, partition)])

    async def _compete(self, runtime: Runtime) -> None:
        while self._next < TRANSACTIONS:
            self.lives += 1
            await self._live(runtime)
            await pass_time(self._trouble.chance_ms(1000 * (self._rivals - 1)))

    async def _live(self, runtime: Runtime) -> None:
        """Until all is written or the producer is of no use any more."""
        settings = {
            "tidelog_transaction_version_max": self._version,
            "request_timeout_ms": "1000",
            "delivery_timeout_ms": "4000",
            "max_block_ms": "3000",
            "transaction_timeout_ms": "6000",
        }
        async with Producer.connect(producer_config(self._world, **settings), runtime) as producer:
            try:
                await _insist(producer.init_transactions)
                while self._next < TRANSACTIONS:
                    number, self._next = self._next, self._next + 1
                    await self._transaction(producer, number)
            except FOR_GOOD:
                return

    async def _transaction(self, producer: Producer, number: int) -> None:
        outcome = self.aborted
        try:
            producer.begin_transaction()
            for partition in (0, 1):
                await producer.send("t", b"%d" % number, partition=partition)
            if number % 4 != 3:
                outcome = self.unknown
                await _insist(producer.commit_transaction)
                outcome = self.committed
                return
        except FOR_GOOD:
            raise
        except (TransactionFailed, BrokersUnreachable, TopicUnavailable):
            outcome = self.aborted
        finally:
            outcome.append(number)
        await _insist(producer.abort_transaction)


async def _insist(call: Callable[[], Awaitable[object]]) -> None:
    while True:
        try:
            await call()
        except TransactionPending:
            continue
        return


def undergo(seed: int, version: str, *, rivals: int = 1) -> Ordeal:
    with BrokerWorld(seed, **BROKER_SETTINGS) as world:
        world.create_topic(partitions=2)
        ordeal = Ordeal(world, version, rivals=rivals)
        ordeal.run()
    assert ordeal.read[0] == ordeal.read[1]
    assert len(ordeal.read[0]) == len(set(ordeal.read[0]))
    assert rivals > 1 or ordeal.read[0] == sorted(ordeal.read[0])
    assert set(ordeal.committed) <= set(ordeal.read[0])
    assert not set(ordeal.aborted) & set(ordeal.read[0])
    return ordeal


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("seed", rest_proven(range(4)))
def test_every_transaction_counts_as_its_producer_was_told(seed: int, version: str) -> None:
    undergo(seed, version)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("seed", rest_proven(range(4)))
def test_the_same_holds_for_producers_that_fence_each_other(seed: int, version: str) -> None:
    assert undergo(seed, version, rivals=3).lives > 3


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_same_holds_for_many_seeds() -> None:
    ordeals = [
        undergo(seed, version, rivals=rivals) for seed in range(4, 30) for version in ("1", "2") for rivals in (1, 3)
    ]
    assert any(ordeal.lives > 1 for ordeal in ordeals), "some outage fenced a producer"
    assert any(ordeal.unknown for ordeal in ordeals), "some commit was never answered"
