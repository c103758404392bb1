"""A producer and a consumer while network and broker misbehave: nothing acknowledged is lost, nothing is there twice, order is kept."""

from __future__ import annotations

import asyncio

import pytest

from tests.client.broker_world import BROKER, CLIENT, BrokerWorld, consumer_config, producer_config
from tests.client.trouble import Trouble
from tests.tiers import rest_proven
from tidelog.client import ClientError, Consumer, Producer, RecordMetadata
from tidelog.model import TopicPartition
from tidelog.runtime import Runtime

T0 = TopicPartition("t", 0)
RECORDS, RECORDS_AFTER = 300, 10
PATIENCE_MS = 60_000


class Ordeal:
    """One seed: faults, a producer that sends through them and after them, a consumer that reads along."""

    def __init__(self, world: BrokerWorld) -> None:
        self.acknowledged: dict[int, int] = {}
        self.read: list[int] = []
        self.faults_in_flight = 0
        self.failed_count = 0
        self._world = world
        self._trouble = Trouble(world, cut_ms=6_000)
        self._calm = world.world.loop.create_future()
        self._end_offset: int | None = None

    def run(self) -> None:
        client = self._world.world.node(CLIENT)
        for source, target in ((CLIENT, BROKER), (BROKER, CLIENT)):
            # A slow line keeps records on their way while the faults strike.
            self._world.network.slow(source, target, latency_ms=(20, 60))
        producing = client.spawn(self._produce(client.runtime))
        reading = client.spawn(self._read(client.runtime))
        for _ in range(6):
            self._world.world.run_for_ms(self._trouble.chance_ms(400))
            self.faults_in_flight += not producing.done() and len(self.acknowledged) < RECORDS
            self._trouble.strike()
        self._world.world.run_for_ms(3000)
        self._calm.set_result(None)

        async def story() -> None:
            async with asyncio.timeout(PATIENCE_MS / 1000):
                await producing
                await reading

        self._world.world.run(story())

    async def _produce(self, runtime: Runtime) -> None:
        settings = {"batch_size": "150", "linger_ms": "0", "request_timeout_ms": "2000", "delivery_timeout_ms": "8000"}
        async with Producer.connect(producer_config(**settings), runtime) as producer:
            futures = [await producer.send("t", b"%d" % index, partition=0) for index in range(RECORDS)]
            for index, future in enumerate(futures):
                await self._note(index, future)
            await self._calm
            for index in range(RECORDS, RECORDS + RECORDS_AFTER):
                metadata = await producer.send_and_wait("t", b"%d" % index, partition=0)
                self.acknowledged[metadata.offset] = index
            self._end_offset = max(self.acknowledged) + 1

    async def _note(self, index: int, future: asyncio.Future[RecordMetadata]) -> None:
        try:
            self.acknowledged[(await future).offset] = index
        except ClientError:
            self.failed_count += 1

    async def _read(self, runtime: Runtime) -> None:
        async with Consumer.connect(consumer_config(request_timeout_ms="2000"), runtime) as consumer:
            consumer.assign([T0])
            while self._end_offset is None or len(self.read) < self._end_offset:
                for record in await consumer.poll(timeout_ms=1000):
                    assert record.offset == len(self.read)
                    self.read.append(int(record.value or b""))


def undergo(seed: int) -> Ordeal:
    with BrokerWorld(seed) as world:
        world.create_topic(flush_messages="1")
        ordeal = Ordeal(world)
        ordeal.run()
    assert ordeal.read == sorted(set(ordeal.read))
    assert all(ordeal.read[offset] == index for offset, index in ordeal.acknowledged.items())
    return ordeal


@pytest.mark.parametrize("seed", rest_proven(range(5)))
def test_records_are_there_once_and_in_order_through_resets_cuts_and_kills(seed: int) -> None:
    undergo(seed)


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_same_holds_for_many_seeds() -> None:
    ordeals = [undergo(seed) for seed in range(5, 150)]
    assert sum(ordeal.faults_in_flight for ordeal in ordeals) > len(ordeals), (
        "the faults struck while records were under way"
    )
    assert any(ordeal.failed_count for ordeal in ordeals), "some outage was longer than the producer's patience"
