"""A power cut takes from each log what was not flushed, more from one than from another, and then nobody remembers the same of a producer.

Who wants nothing to be lost has logs flushed. But whatever is lost, a transactional id stays usable, no reader waits for ever, and what is
committed afterwards is there.
"""

from __future__ import annotations

import pytest

from tests.client.broker_world import BrokerWorld, client_config, consumer_config, producer_config
from tests.tiers import rest_proven
from tidelog.client import Admin, Cluster, Consumer, Producer, ProducerFenced, TransactionFailed
from tidelog.model import ErrorCode, ProducerIdentity, TopicPartition
from tidelog.runtime import Runtime

pytestmark = pytest.mark.slow

ALONE = {"transaction.state.log.replication.factor": "1", "transaction.state.log.num.partitions": "4"}
T0 = TopicPartition("t", 0)
VERSIONS = pytest.mark.parametrize("version", [1, 2], ids=["old", "new"])


async def transactions(runtime: Runtime, version: int, *values: bytes) -> None:
    """One producer that commits a transaction for each value."""
    settings = {"transactional_id": "app", "tidelog_transaction_version_max": str(version)}
    async with Producer.connect(producer_config(**settings), runtime) as producer:
        await producer.init_transactions()
        for value in values:
            async with producer.transaction():
                await producer.send("t", value)


async def committed_since(runtime: Runtime, version: int) -> list[bytes]:
    """What a new producer commits, if need be after a transaction that fails."""
    for value in (b"first", b"second"):
        try:
            await transactions(runtime, version, value)
        except (TransactionFailed, ProducerFenced):
            continue
        return [value]
    return []


async def waiting(runtime: Runtime) -> int:
    """How many offsets readers wait for; what hangs is aborted as an operator would."""
    config = client_config()
    async with Cluster(config, runtime) as cluster:
        admin = Admin(cluster, config, runtime).transactions
        for found in (await admin.find_hanging([T0], max_timeout_ms=60_000)).values():
            assert not isinstance(found, ErrorCode)
            for one in found:
                pair = ProducerIdentity(one.producer.producer_id, one.producer.producer_epoch)
                await admin.abort(T0, pair, coordinator_epoch=one.producer.coordinator_epoch)
        held = (await admin.holders([T0]))[T0]
        assert not isinstance(held, ErrorCode)
        return held.waiting_count


async def read(runtime: Runtime) -> list[bytes]:
    """All that is committed."""
    found: list[bytes] = []
    async with Consumer.connect(consumer_config(isolation_level="read_committed"), runtime) as consumer:
        consumer.assign([T0])
        while records := await consumer.poll(timeout_ms=2_000):
            found += [record.value or b"" for record in records]
    return found


def told(seed: int, version: int, *, is_flushed: bool) -> tuple[list[bytes], list[bytes]]:
    """Cut the power of a broker with many transactions behind it; what was committed after that, and what is read of it."""
    with BrokerWorld(seed, **ALONE) as world:
        if is_flushed:
            world.create_topic("t", flush_messages="1")
        else:
            world.create_topic("t")
        world.tell(lambda runtime: transactions(runtime, version, b"0"))
        world.stop_broker()  # A clean stop flushes: the topics survive, and what comes now may not.
        world.start_broker()
        for _ in range(10):  # Old producers have one epoch for all their transactions.
            world.tell(lambda runtime: transactions(runtime, version, b"1", b"2", b"3", b"4"))
        world.brokers[1].power_cut()
        world.start_broker()
        committed = world.tell(lambda runtime: committed_since(runtime, version))
        assert world.tell(waiting) == 0
        return committed, [value for value in world.tell(read) if value in {b"first", b"second"}]


@VERSIONS
@pytest.mark.parametrize("is_flushed", [False, True], ids=["both lost", "transaction log lost"])
@pytest.mark.parametrize("seed", rest_proven(range(2, 12), now=2))
def test_an_id_stays_usable_and_nobody_waits_for_ever(seed: int, version: int, *, is_flushed: bool) -> None:
    committed, found = told(seed, version, is_flushed=is_flushed)
    assert committed
    assert found == committed


@pytest.mark.parametrize(("seed", "is_flushed"), [(21, False), (40, False), (61, False), (28, True), (33, True)])
def test_a_record_is_not_taken_for_the_repetition_of_one_whose_epoch_was_forgotten(
    seed: int, *, is_flushed: bool
) -> None:
    committed, found = told(seed, 1, is_flushed=is_flushed)
    assert found == committed
