"""One connection over the simulated network: order, held requests, slow readers, idleness, bugs in handlers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from tests.simulation.story import passed
from tidelog.model import ErrorCode, InvariantBroken
from tidelog.runtime import Address, Runtime
from tidelog.server import ConnectionLimits, Dispatcher, Guard, GuardLimits, Listener, RequestContext
from tidelog.simulation import SimulationFailed, World
from tidelog.wire.api import ApiKey
from tidelog.wire.frame import encode_request_frame
from tidelog.wire.header import RequestHeader, read_correlation_id
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.stream import FrameDecoder

Answer = ApiVersionsResponse | None | Awaitable[ApiVersionsResponse | None]
Handle = Callable[[int], Answer]
EMPTY = ApiVersionsResponse(error_code=ErrorCode.NONE, api_keys=())
LIMITS = ConnectionLimits(
    request_bytes_max=1 << 16, queued_requests_max=4, idle_ms_max=60_000, write_stall_ms_max=20_000
)


class Client(asyncio.Protocol):
    """Sends numbered requests and remembers which answers came."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.is_lost = False
        self._frames = FrameDecoder(size_max=1 << 20)
        self._changed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]  # streams have stream transports

    def data_received(self, data: bytes) -> None:
        self.answers += [read_correlation_id(frame) for frame in self._frames.feed(data)]
        self._changed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._changed.set()

    def send(self, *numbers: int) -> None:
        for number in numbers:
            header = RequestHeader(ApiKey.API_VERSIONS, 3, number, None)
            self.transport.writelines(encode_request_frame(header, ApiVersionsRequest()))

    async def until(self, holds: Callable[[], bool], *, within_s: float = 100.0) -> None:
        async with asyncio.timeout(within_s):
            while not holds():
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def listening(runtime: Runtime, handle: Handle) -> AsyncIterator[tuple[Listener, Client]]:
    def handler(context: RequestContext, _request: object) -> object:
        return handle(context.header.correlation_id)

    dispatcher = Dispatcher({ApiKey.API_VERSIONS: handler}, runtime.metrics, runtime.clock)
    listener = Listener(
        "PLAINTEXT", Address("server", 9092), dispatcher, LIMITS, runtime, Guard(GuardLimits(), runtime)
    )
    async with listener.running():
        yield listener, await runtime.network.connect(Client, Address("server", 9092))


def tell(story: Callable[[Runtime], Awaitable[None]], *, survived: type[Exception] | None = None) -> None:
    with World() as world:
        world.expected = () if survived is None else (survived,)

        async def told() -> None:
            await world.node("server").spawn(_awaited(story(world.node("server").runtime)))

        world.run(told())


async def _awaited(story: Awaitable[None]) -> None:
    await story


def test_answers_leave_in_request_order_although_some_have_to_wait() -> None:
    async def slow(_number: int) -> ApiVersionsResponse:
        await passed(1)
        return EMPTY

    async def story(runtime: Runtime) -> None:
        async with listening(runtime, lambda number: slow(number) if number % 2 else EMPTY) as (listener, client):
            listener.serve()
            client.send(1, 2, 3, 4)
            await client.until(lambda: len(client.answers) == 4)
            assert client.answers == [1, 2, 3, 4]

    tell(story)


def test_requests_wait_until_the_broker_is_ready() -> None:
    async def story(runtime: Runtime) -> None:
        async with listening(runtime, lambda _: EMPTY) as (listener, client):
            client.send(*range(10))
            with pytest.raises(TimeoutError):
                await client.until(lambda: bool(client.answers), within_s=5)
            listener.serve()
            await client.until(lambda: client.answers == list(range(10)))

    tell(story)


def test_silence_is_no_answer_and_the_next_request_is_served() -> None:
    async def story(runtime: Runtime) -> None:
        async with listening(runtime, lambda number: None if number == 1 else EMPTY) as (listener, client):
            listener.serve()
            client.send(1, 2)
            await client.until(lambda: client.answers == [2])

    tell(story)


def test_a_bug_in_a_handler_costs_its_connection_only() -> None:
    def buggy(number: int) -> ApiVersionsResponse:
        return EMPTY if number else EMPTY.api_keys[number]  # type: ignore[return-value]  # there are none

    async def story(runtime: Runtime) -> None:
        async with listening(runtime, buggy) as (listener, client):
            listener.serve()
            client.send(0)
            await client.until(lambda: client.is_lost)
            other = await runtime.network.connect(Client, Address("server", 9092))
            other.send(1)
            await other.until(lambda: other.answers == [1])

    tell(story, survived=IndexError)
    with pytest.raises(SimulationFailed, match=r"server#1 .*logged 'request failed': IndexError.* in buggy"):
        tell(story)


def test_a_bug_in_a_handler_that_waits_fails_a_simulated_run_though_its_broker_goes_on() -> None:
    async def buggy(number: int) -> ApiVersionsResponse:
        await passed(1)
        raise LookupError(number)

    async def story(runtime: Runtime) -> None:
        async with listening(runtime, buggy) as (listener, client):
            listener.serve()
            client.send(4711)
            await client.until(lambda: client.is_lost)

    with pytest.raises(SimulationFailed, match=r"server#1 .*LookupError\(4711\).* in buggy"):
        tell(story)


def test_a_broken_invariant_stops_the_listener() -> None:
    def broken(_number: int) -> ApiVersionsResponse:
        raise InvariantBroken("the sky is below")

    async def story(runtime: Runtime) -> None:
        async def serve_for_ever() -> None:
            async with listening(runtime, broken) as (listener, client):
                listener.serve()
                client.send(1)
                await asyncio.get_running_loop().create_future()

        with pytest.raises(ExceptionGroup) as stopped:
            await serve_for_ever()
        assert stopped.group_contains(InvariantBroken, match="the sky is below")

    tell(story)


def test_an_idle_connection_is_closed_and_a_busy_one_is_not() -> None:
    async def story(runtime: Runtime) -> None:
        async with listening(runtime, lambda _: EMPTY) as (listener, idle):
            listener.serve()
            busy = await runtime.network.connect(Client, Address("server", 9092))
            for number in range(10):
                busy.send(number)
                await busy.until(lambda: len(busy.answers) == number + 1)  # noqa: B023  # awaited before the next turn
                with pytest.raises(TimeoutError):
                    await busy.until(lambda: busy.is_lost, within_s=10)
            assert (idle.is_lost, busy.is_lost) == (True, False)

    tell(story)


def test_a_client_that_never_reads_its_answers_is_sent_away() -> None:
    async def story(runtime: Runtime) -> None:
        async with listening(runtime, lambda _: EMPTY) as (listener, client):
            listener.serve()
            client.transport.pause_reading()
            client.send(*range(100_000))
            await passed(60)
            assert listener.connection_count == 0

    tell(story)


def test_a_heap_of_small_requests_is_served_a_few_at_a_time() -> None:
    async def story(runtime: Runtime) -> None:
        served = 0
        served_in_one_go: list[int] = []

        def handle(_number: int) -> ApiVersionsResponse:
            nonlocal served
            if served == 0:
                asyncio.get_running_loop().call_soon(lambda: served_in_one_go.append(served))
            served += 1
            return EMPTY

        async with listening(runtime, handle) as (listener, client):
            listener.serve()
            heap = [
                b"".join(
                    encode_request_frame(RequestHeader(ApiKey.API_VERSIONS, 3, number, None), ApiVersionsRequest())
                )
                for number in range(1000)
            ]
            client.transport.write(b"".join(heap))
            await client.until(lambda: client.answers == list(range(1000)))
            assert served_in_one_go[0] <= 64

    tell(story)
