"""A connection and peers that are no brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.client.broker_world import client_config
from tidelog.client import BrokersUnreachable, Cluster, ConnectionLost, RequestTimedOut
from tidelog.client.connection import Connection, ConnectionLimits, common_versions, open_connection
from tidelog.runtime import Address, Runtime
from tidelog.simulation import World
from tidelog.wire.api import API_TABLE, ApiKey
from tidelog.wire.messages.api_versions import ApiVersion

PEER = Address("broker-1", 9092)
LIMITS = ConnectionLimits(
    client_id="test", setup_timeout_ms=1000, request_timeout_ms=500, in_flight_max=2, receive_bytes_max=1000
)


class Peer(asyncio.Protocol):
    """Somebody at the broker's address who is no broker: hangs up, keeps silent, or talks nonsense."""

    def __init__(self, answer: bytes | None, *, hangs_up: bool = False) -> None:
        self._answer = answer
        self._hangs_up = hangs_up
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        if self._answer is not None:
            self._transport.write(self._answer)
        if self._hangs_up:
            self._transport.close()


def meet(peer: Callable[[], Peer], story: Callable[[Runtime], Coroutine[Any, Any, None]]) -> None:
    with World(1) as world:
        broker, client = world.node("broker-1"), world.node("client")

        async def both() -> None:
            await broker.spawn(broker.runtime.network.listen(peer, PEER))
            await client.spawn(story(client.runtime))

        world.run(both())


async def connect(runtime: Runtime) -> Connection:
    return await open_connection(runtime.network, PEER, LIMITS)


def test_the_highest_common_version_is_spoken() -> None:
    fetch, metadata = API_TABLE[ApiKey.FETCH].served, API_TABLE[ApiKey.METADATA].served
    common = common_versions(
        [
            ApiVersion(api_key=ApiKey.FETCH, min_version=0, max_version=11),
            ApiVersion(api_key=ApiKey.METADATA, min_version=0, max_version=metadata.high + 5),
            ApiVersion(api_key=ApiKey.LIST_OFFSETS, min_version=100, max_version=101),
            ApiVersion(api_key=999, min_version=0, max_version=1),
        ]
    )
    assert fetch.high > 11
    assert common == {ApiKey.FETCH: 11, ApiKey.METADATA: metadata.high}


def test_a_peer_that_hangs_up_is_a_lost_connection() -> None:
    async def story(runtime: Runtime) -> None:
        with pytest.raises(ConnectionLost, match="broker-1:9092 lost"):
            await connect(runtime)

    meet(lambda: Peer(None, hangs_up=True), story)


def test_a_silent_peer_is_given_up_in_time() -> None:
    async def story(runtime: Runtime) -> None:
        with pytest.raises(RequestTimedOut, match="no answer to API_VERSIONS within 500 ms"):
            await connect(runtime)

    meet(lambda: Peer(None), story)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "a frame of 1213486160 bytes"),
        (b"\x00\x00\x00\x06\x00\x00\x00\x63\x00\x00", "answer 99 came where 0 was due"),
        (b"\x00\x00\x00\x02\x00\x00", "ends within its header"),
        (b"\x00\x00\x00\x05\x00\x00\x00\x00\x00", "ApiVersionsResponse"),
    ],
)
def test_nonsense_closes_the_connection_and_says_what_it_was(answer: bytes, reason: str) -> None:
    async def story(runtime: Runtime) -> None:
        with pytest.raises(ConnectionLost, match=reason):
            await connect(runtime)

    meet(lambda: Peer(answer), story)


def test_nobody_there_is_a_lost_connection() -> None:
    async def story(runtime: Runtime) -> None:
        with pytest.raises(ConnectionLost):
            await open_connection(runtime.network, Address("broker-1", 1), LIMITS)

    meet(lambda: Peer(None), story)


def test_a_broker_that_hangs_up_is_not_called_in_a_tight_loop() -> None:
    calls: list[float] = []

    async def story(runtime: Runtime) -> None:
        def count() -> Peer:
            calls.append(runtime.clock.monotonic_ms())
            return Peer(None, hangs_up=True)

        await runtime.network.listen(count, Address("client", 9092))
        async with Cluster(client_config(bootstrap_servers="client:9092"), runtime) as cluster:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(10):
                    await cluster.refresh()
            assert 8 <= len(calls) <= 20
            with pytest.raises(BrokersUnreachable, match=r"no metadata yet; last: .*closed by the broker"):
                await cluster.request(7, None)  # type: ignore[arg-type]  # there is no broker 7 to send anything to

    meet(lambda: Peer(None), story)
