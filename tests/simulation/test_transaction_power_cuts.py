"""A power cut takes from each log what was not flushed, more from one than from another, and then nobody remembers the same of a producer.

Who wants nothing to be lost has logs flushed. But whatever is lost, a transactional id stays usable, and no reader waits for ever.
"""

from __future__ import annotations

import pytest

from tests.client.broker_world import BrokerWorld, client_config, producer_config
from tidelog.client import Admin, Cluster, Producer, ProducerFenced, TransactionFailed
from tidelog.model import ErrorCode, ProducerIdentity, TopicPartition
from tidelog.runtime import Runtime

pytestmark = pytest.mark.slow

ALONE = {"transaction.state.log.replication.factor": "1", "transaction.state.log.num.partitions": "4"}
T0 = TopicPartition("t", 0)


async def transactions(runtime: Runtime, version: int, count: int) -> None:
    """One producer that commits so many transactions of one record."""
    settings = {"transactional_id": "app", "tidelog_transaction_version_max": str(version)}
    async with Producer.connect(producer_config(**settings), runtime) as producer:
        await producer.init_transactions()
        for number in range(count):
            async with producer.transaction():
                await producer.send("t", b"%d" % number)


async def is_usable(runtime: Runtime, version: int) -> bool:
    """Whether a new producer commits a transaction, if need be after one that fails."""
    for _ in range(2):
        try:
            await transactions(runtime, version, 1)
        except (TransactionFailed, ProducerFenced):
            continue
        return True
    return False


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


@pytest.mark.parametrize("version", [1, 2], ids=["old", "new"])
@pytest.mark.parametrize("is_flushed", [False, True], ids=["both lost", "transaction log lost"])
@pytest.mark.parametrize("seed", range(2, 12))
def test_an_id_stays_usable_and_nobody_waits_for_ever(seed: int, version: int, *, is_flushed: bool) -> None:
    with BrokerWorld(seed, **ALONE) as world:
        flushed = {"flush_messages": "1"} if is_flushed else {}
        world.create_topic("t", **flushed)
        world.tell(lambda runtime: transactions(runtime, version, 1))
        world.stop_broker()  # A clean stop flushes: the topics survive, and what comes now may not.
        world.start_broker()
        for _ in range(10):  # Old producers have one epoch for all their transactions.
            world.tell(lambda runtime: transactions(runtime, version, 4))
        world.brokers[1].power_cut()
        world.start_broker()
        assert world.tell(lambda runtime: is_usable(runtime, version))
        assert world.tell(waiting) == 0
