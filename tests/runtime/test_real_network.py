"""What only real sockets and real names do; what all networks do is in tests/conformance."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import uvloop

from tidelog.runtime import Address, NetworkFailure
from tidelog.runtime.real_network import RealNetwork

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
NOWHERE = Address("no-such-host.invalid", 9)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_connection_that_is_given_up_while_its_name_is_looked_up_leaves_nothing_behind(loop: str) -> None:
    complaints: list[dict[str, Any]] = []

    async def story() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context))
        connecting = asyncio.create_task(RealNetwork().connect(asyncio.Protocol, NOWHERE))
        await asyncio.wait([connecting], timeout=0)
        connecting.cancel()
        with suppress(asyncio.CancelledError):
            await connecting
        for _ in range(3):  # by then the first lookup has come to its end, too
            with pytest.raises(NetworkFailure):
                await RealNetwork().connect(asyncio.Protocol, NOWHERE)
        gc.collect()

    make: Callable[[], asyncio.AbstractEventLoop] = LOOPS[loop]
    with asyncio.Runner(loop_factory=make) as runner:
        runner.run(story())
    assert complaints == []


@pytest.mark.parametrize("loop", LOOPS)
def test_all_addresses_of_a_name_are_tried(loop: str) -> None:
    """`localhost` is often an IPv6 address first, and brokers often listen on the IPv4 one alone."""

    async def story() -> None:
        server = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            protocol = await RealNetwork().connect(_Remembering, Address("localhost", port))
            assert protocol.transport is not None
            assert protocol.transport.get_extra_info("peername")[1] == port
            protocol.transport.close()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(story())


class _Remembering(asyncio.Protocol):
    transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
