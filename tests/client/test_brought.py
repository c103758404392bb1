"""A client that is given addresses brings all else along, and takes it away again."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.compatibility.processes import TidelogProcess
from tidelog.client import Admin, ClientConfig, Cluster, Consumer, NewTopic, Producer, ProducerConfig, WrongUse
from tidelog.config import ConfigError
from tidelog.runtime.real import real_runtime

NOBODY = "127.0.0.1:1"


def told(story: Coroutine[Any, Any, None]) -> None:
    """Tell a story that leaves no task behind."""

    async def alone() -> None:
        await story
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(alone())


@pytest.mark.slow
def test_an_address_is_enough(tmp_path: Path) -> None:
    async def story(address: str) -> None:
        async with Admin(address) as admin:
            [created] = await admin.create_topics([NewTopic(name="t", partition_count=1, replication_factor=1)])
            assert created.is_ok
        async with Producer(address, {"linger.ms": 5, "enable.idempotence": True}) as producer:
            sent = await (await producer.send("t", b"v", key=b"k"))
        async with Consumer(address, {"group.id": "g", "auto.offset.reset": "earliest"}) as consumer:
            consumer.group.subscribe(["t"])
            async for record in consumer:
                assert (record.topic_partition, record.offset, record.value) == (
                    sent.topic_partition,
                    sent.offset,
                    b"v",
                )
                break

    with TidelogProcess(tmp_path) as broker:
        told(story(broker.bootstrap))


def test_closing_without_a_block_ends_its_cluster_too() -> None:
    async def story() -> None:
        producer = await Producer(NOBODY).__aenter__()
        await producer.close(timeout_ms=0)
        consumer = await Consumer(NOBODY).__aenter__()
        await consumer.close(timeout_ms=0)

    told(story())


def test_a_block_left_by_an_error_ends_its_cluster_too() -> None:
    async def story() -> None:
        for client in (Producer(NOBODY), Consumer(NOBODY), Admin(NOBODY)):
            with pytest.raises(LookupError):
                async with client:
                    raise LookupError

    told(story())


@pytest.mark.parametrize("kind", [Producer, Consumer, Admin])
def test_a_setting_that_is_not_known_is_named(kind: type[Producer | Consumer | Admin]) -> None:
    async def story() -> None:
        with pytest.raises(ConfigError, match=r"lingr\.ms"):
            kind(NOBODY, {"lingr.ms": 5})

    told(story())


def test_a_cluster_of_others_is_used_as_it_is_and_left_alone() -> None:
    async def story() -> None:
        config = ProducerConfig.from_properties({"bootstrap.servers": NOBODY})
        runtime = real_runtime()
        async with Cluster(config, runtime) as cluster:
            async with Producer(cluster, config, runtime):
                pass
            async with Producer(cluster, config, runtime):
                pass
            with pytest.raises(WrongUse, match="comes with the settings"):
                Producer(cluster)
        runtime.disk.close()

    told(story())


def test_addresses_beside_complete_settings_are_refused() -> None:
    async def story() -> None:
        with pytest.raises(WrongUse, match=r"bootstrap\.servers"):
            Admin(NOBODY, ClientConfig.from_properties({"bootstrap.servers": NOBODY}))

    told(story())
