"""An audit after chaos: three brokers, records and transactions, kill -9 now and then; then every replica is held against the others.

Starts brokers of its own, so it needs none. `tidelog audit --data DIR` is the same for brokers of yours.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from contextlib import suppress
from pathlib import Path

from tidelog.cli.main import main as tidelog
from tidelog.client import Admin, ClientConfig, NewTopic, Producer, ProducerConfig
from tidelog.client.errors import ClientError
from tidelog.pipeline.demo.cluster import Cluster, running_cluster
from tidelog.pipeline.demo.processes import kill
from tidelog.runtime.real import real_runtime

BROKERS = 3
KILLS = 3
TOPIC = "orders"
PARTITIONS = 3
RUNTIME = real_runtime()


async def make_topic(bootstrap: str) -> None:
    """Three partitions, each on all brokers."""
    async with Admin.connect(ClientConfig.from_properties({"bootstrap.servers": bootstrap}), RUNTIME) as admin:
        (result,) = await admin.create_topics([NewTopic(name=TOPIC, partition_count=PARTITIONS)])
        if not result.is_ok:
            raise SystemExit(f"no topic: {result}")


async def send_records(bootstrap: str) -> None:
    """Until cancelled; what could not be sent while brokers died is not sent again."""
    config = ProducerConfig.from_properties({"bootstrap.servers": bootstrap, "compression.type": "lz4"})
    async with Producer.connect(config, RUNTIME) as producer:
        number = 0
        while True:
            delivery = await producer.send(TOPIC, b"order %d" % number, key=b"%d" % (number % 100))
            number += 1
            if number % 100 == 0:
                with suppress(ClientError):
                    await delivery


async def send_transactions(bootstrap: str) -> None:
    """Until cancelled: every third is aborted; one that a kill has spoilt is left to its coordinator, and a new producer begins."""
    properties = {"bootstrap.servers": bootstrap, "transactional.id": "payments", "transaction.timeout.ms": "10000"}
    config = ProducerConfig.from_properties(properties)
    number = 0
    while True:
        with suppress(ClientError):
            async with Producer.connect(config, RUNTIME) as producer:
                await producer.init_transactions()
                while True:
                    producer.begin_transaction()
                    for partition in range(PARTITIONS):
                        await producer.send(TOPIC, b"payment %d" % number, partition=partition)
                    number += 1
                    await (producer.abort_transaction() if number % 3 == 0 else producer.commit_transaction())


async def strike(cluster: Cluster, chance: random.Random) -> None:
    """Kill brokers, one at a time; the next when the one before is back."""
    for _ in range(KILLS):
        await asyncio.sleep(1.5)
        broker_id, pid = chance.choice(sorted(cluster.brokers.items()))
        print(f"kill -9 of broker {broker_id}", flush=True)
        kill(pid)
        async with asyncio.timeout(120):
            while len(cluster.brokers) < BROKERS or pid in cluster.brokers.values():  # noqa: ASYNC110  # nobody tells
                await asyncio.sleep(0.2)
    await asyncio.sleep(3)


async def chaos(data: Path) -> None:
    """Brokers under load that die and come back, all stopped at the end."""
    chance = random.Random(7)  # noqa: S311  # not a secret
    async with running_cluster(data, broker_count=BROKERS, port=0, on_news=print) as cluster:
        await make_topic(cluster.bootstrap)
        async with asyncio.TaskGroup() as tasks:
            load = [
                tasks.create_task(send_records(cluster.bootstrap)),
                tasks.create_task(send_transactions(cluster.bootstrap)),
            ]
            await strike(cluster, chance)
            for each in load:
                each.cancel()


def main() -> int:
    """Chaos, then the audit; its exit code."""
    with tempfile.TemporaryDirectory(prefix="tidelog-chaos-") as directory:
        asyncio.run(chaos(Path(directory)))
        return tidelog(["audit", "--data", directory, "--replicas", str(BROKERS), "--master", "local[2]"])


if __name__ == "__main__":
    raise SystemExit(main())
