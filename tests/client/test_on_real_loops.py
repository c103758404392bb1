"""The client on asyncio and uvloop, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from tidelog.broker import Broker
from tidelog.client import (
    Admin,
    ClientConfig,
    ConnectionLost,
    Consumer,
    ConsumerConfig,
    NewTopic,
    Producer,
    ProducerConfig,
)
from tidelog.client.connection import ConnectionLimits, open_connection
from tidelog.config import BrokerConfig
from tidelog.registry.sqlite import SqliteRegistry
from tidelog.runtime import Address, Runtime
from tidelog.runtime.real import real_runtime

RECORDS = 2000


async def round_trip(runtime: Runtime, where: dict[str, str]) -> None:
    async with Admin.connect(ClientConfig.from_properties(where), runtime) as admin:
        (created,) = await admin.create_topics([NewTopic(name="t", partition_count=4, replication_factor=1)])
        assert created.is_ok
    async with Producer.connect(ProducerConfig.from_properties(where), runtime) as producer:
        futures = [await producer.send("t", b"%d" % index, key=b"%d" % (index % 7)) for index in range(RECORDS)]
        sent = {(await future).topic_partition: None for future in futures}
    config = ConsumerConfig.from_properties({**where, "auto.offset.reset": "earliest"})
    async with Consumer.connect(config, runtime) as consumer:
        consumer.assign(sent)
        by_key: dict[bytes | None, list[int]] = {}
        for _ in range(RECORDS):
            record = await anext(consumer)
            by_key.setdefault(record.key, []).append(int(record.value or b""))
    assert all(numbers == sorted(numbers) for numbers in by_key.values())


async def with_broker(directory: Path) -> None:
    runtime = real_runtime()
    config = BrokerConfig.from_properties(
        {"broker.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(directory / "data")}
    )
    registry = SqliteRegistry(str(directory / "registry.sqlite"))
    broker = Broker(config, runtime, registry)
    ready: asyncio.Future[Address] = asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(broker.run(on_ready=lambda bound: ready.set_result(bound["PLAINTEXT"])))
    try:
        before = asyncio.all_tasks()
        await round_trip(runtime, {"bootstrap.servers": str(await ready)})
        leaked = {task.get_name() for task in asyncio.all_tasks() - before}
        assert not [name for name in leaked if name.startswith(("client", "producer", "consumer"))]
    finally:
        broker.stop()
        await serving
        await registry.close()
        runtime.disk.close()


class SilentPeer(asyncio.Protocol):
    """Takes everything, says nothing, and notes how it ended."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set_result(exc)


async def give_up_on_a_silent_peer() -> None:
    peer = SilentPeer()
    server = await asyncio.get_running_loop().create_server(lambda: peer, "127.0.0.1", 0)
    runtime = real_runtime()
    limits = ConnectionLimits(
        client_id=None, setup_timeout_ms=100, request_timeout_ms=100, in_flight_max=1, receive_bytes_max=1000
    )
    try:
        with pytest.raises(ConnectionLost):
            await open_connection(runtime.network, Address(*server.sockets[0].getsockname()), limits)
        assert isinstance(await peer.ended, ConnectionResetError)
    finally:
        server.close()
        runtime.disk.close()


@pytest.mark.slow
@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_connection_with_unanswered_requests_is_reset_so_that_nothing_of_them_arrives_later(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(give_up_on_a_silent_peer())


@pytest.mark.slow
@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_records_travel_over_real_sockets_and_nothing_is_left_running(
    new_loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(with_broker(tmp_path))
