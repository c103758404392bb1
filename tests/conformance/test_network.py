"""What every network promises."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from tests.conformance.worlds import Twin
from tidelog.runtime import Address, Listening, NetworkFailure

ANY_HOST = "0.0.0.0"  # noqa: S104


class Talker(asyncio.Protocol):
    """Remembers what happens to it, and lets a test wait for it."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.has_eof = False
        self.is_lost = False
        self.error: Exception | None = None
        self.pauses = 0
        self.is_write_paused = False
        self.keeps_open_after_eof = False
        self._changed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are transports without inheriting from them.

    def data_received(self, data: bytes) -> None:
        assert not self.is_lost
        self.received += data
        self._changed.set()

    def eof_received(self) -> bool:
        self.has_eof = True
        self._changed.set()
        return self.keeps_open_after_eof

    def connection_lost(self, exc: Exception | None) -> None:
        assert not self.is_lost, "connection_lost comes once"
        self.is_lost, self.error = True, exc
        self._changed.set()

    def pause_writing(self) -> None:
        self.pauses += 1
        self.is_write_paused = True
        self._changed.set()

    def resume_writing(self) -> None:
        self.is_write_paused = False
        self._changed.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._changed.clear()
            await self._changed.wait()

    async def take(self, size: int) -> bytes:
        await self.until(lambda: len(self.received) >= size)
        taken = bytes(self.received[:size])
        del self.received[:size]
        return taken


class Echo(Talker):
    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Server:
    """A listener on the peer that remembers whom it accepted."""

    def __init__(self, kind: type[Talker] = Talker) -> None:
        self._kind = kind
        self._accepted: asyncio.Queue[Talker] = asyncio.Queue()
        self.listening: Listening

    async def listen(self, twin: Twin) -> Server:
        self.listening = await twin.peer.network.listen(self._made, Address(ANY_HOST, 0))
        return self

    async def connected(self, twin: Twin) -> tuple[Talker, Talker]:
        """A connection: the end of the client, the end of the server."""
        near = await twin.runtime.network.connect(Talker, Address(twin.peer_host, self.listening.address.port))
        return near, await self._accepted.get()

    def _made(self) -> Talker:
        accepted = self._accepted

        class Announced(self._kind):  # type: ignore[name-defined,misc]
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                super().connection_made(transport)
                accepted.put_nowait(self)

        made: Talker = Announced()
        return made


def close(*talkers: Talker) -> None:
    for talker in talkers:
        talker.transport.close()


def test_what_is_sent_comes_back_from_an_echo(twin: Twin) -> None:
    async def run() -> bytes:
        server = await Server(Echo).listen(twin)
        near, far = await server.connected(twin)
        near.transport.write(b"hello, ")
        near.transport.writelines([b"wor", bytearray(b"l"), memoryview(b"d")])
        answer = await near.take(12)
        close(near, far)
        await server.listening.close()
        return answer

    assert twin.run(run()) == b"hello, world"


def test_megabytes_arrive_in_order_and_whole(twin: Twin) -> None:
    sent = b"".join(n.to_bytes(4, "big") for n in range(500_000))

    async def run() -> bytes:
        server = await Server().listen(twin)
        near, far = await server.connected(twin)
        near.transport.write(sent[:1_000_000])
        near.transport.write(sent[1_000_000:])
        received = await far.take(len(sent))
        close(near, far)
        await server.listening.close()
        return received

    assert twin.run(run()) == sent


def test_many_connections_do_not_mix(twin: Twin) -> None:
    async def run() -> list[bytes]:
        server = await Server(Echo).listen(twin)
        address = Address(twin.peer_host, server.listening.address.port)
        talkers = await asyncio.gather(*(twin.runtime.network.connect(Talker, address) for _ in range(100)))
        for number, talker in enumerate(talkers):
            talker.transport.write(number.to_bytes(4, "big"))
        answers = [await talker.take(4) for talker in talkers]
        close(*talkers)
        await server.listening.close()
        return answers

    assert twin.run(run()) == [number.to_bytes(4, "big") for number in range(100)]


def test_port_zero_picks_a_port_that_can_be_reached(twin: Twin) -> None:
    async def run() -> tuple[Address, Address]:
        one, other = await Server().listen(twin), await Server().listen(twin)
        for server in (one, other):
            close(*await server.connected(twin))
            await server.listening.close()
        return one.listening.address, other.listening.address

    one, other = twin.run(run())
    assert one.host == other.host == ANY_HOST
    assert one.port != other.port
    assert 0 < one.port < 65_536


def test_a_taken_port_is_refused(twin: Twin) -> None:
    async def run() -> None:
        server = await Server().listen(twin)
        try:
            await twin.peer.network.listen(Talker, Address(ANY_HOST, server.listening.address.port))
        finally:
            await server.listening.close()

    with pytest.raises(NetworkFailure, match=r"(?i)address already in use"):
        twin.run(run())


def test_a_closed_listener_refuses_but_its_connections_live_on(twin: Twin) -> None:
    async def run() -> bytes:
        server = await Server(Echo).listen(twin)
        near, far = await server.connected(twin)
        await server.listening.close()
        await server.listening.close()
        address = Address(twin.peer_host, server.listening.address.port)
        with pytest.raises(NetworkFailure) as failure:
            await twin.runtime.network.connect(Talker, address)
        assert failure.value.address == address
        near.transport.write(b"alive")
        answer = await near.take(5)
        close(near, far)
        return answer

    assert twin.run(run()) == b"alive"


def test_a_closed_port_can_be_listened_on_again(twin: Twin) -> None:
    async def run() -> None:
        first = await Server().listen(twin)
        near, far = await first.connected(twin)
        await first.listening.close()
        second = await twin.peer.network.listen(Talker, Address(ANY_HOST, first.listening.address.port))
        close(near, far)
        await second.close()

    twin.run(run())


BAD_ADDRESSES = [Address("no.such.host.invalid", 9092), Address("127.0.0.1", 70_000), Address("127.0.0.1", -1)]


@pytest.mark.parametrize("address", BAD_ADDRESSES, ids=str)
def test_an_address_that_cannot_be_is_a_network_failure(twin: Twin, address: Address) -> None:
    async def connect() -> None:
        await twin.runtime.network.connect(Talker, address)

    async def listen() -> None:
        await twin.runtime.network.listen(Talker, address)

    for attempt in (connect, listen):
        with pytest.raises(NetworkFailure) as failure:
            twin.run(attempt())
        assert failure.value.address == address


def test_both_ends_know_their_names(twin: Twin) -> None:
    async def run() -> None:
        server = await Server().listen(twin)
        near, far = await server.connected(twin)
        near_name, far_name = near.transport.get_extra_info("sockname"), far.transport.get_extra_info("sockname")
        assert near.transport.get_extra_info("peername")[:2] == far_name[:2]
        assert far.transport.get_extra_info("peername")[:2] == near_name[:2]
        assert far_name[1] == server.listening.address.port
        close(near, far)
        await server.listening.close()

    twin.run(run())


def test_closing_sends_what_was_written_first(twin: Twin) -> None:
    async def run() -> tuple[Talker, Talker]:
        server = await Server().listen(twin)
        near, far = await server.connected(twin)
        near.transport.write(b"x" * 3_000_000)
        near.transport.close()
        assert near.transport.is_closing()
        near.transport.write(b"too late")
        await far.until(lambda: far.is_lost)
        await near.until(lambda: near.is_lost)
        await server.listening.close()
        return near, far

    near, far = twin.run(run())
    assert far.received == b"x" * 3_000_000
    assert far.has_eof
    assert (near.error, far.error) == (None, None)


def test_half_closed_connections_still_answer(twin: Twin) -> None:
    async def run() -> bytes:
        server = await Server().listen(twin)
        near, far = await server.connected(twin)
        far.keeps_open_after_eof = True
        near.transport.write(b"question")
        assert near.transport.can_write_eof()
        near.transport.write_eof()
        with pytest.raises(RuntimeError):
            near.transport.write(b"more")
        await far.until(lambda: far.has_eof)
        assert bytes(far.received) == b"question"
        far.transport.write(b"answer")
        far.transport.close()
        await near.until(lambda: near.is_lost)
        await server.listening.close()
        return bytes(near.received)

    assert twin.run(run()) == b"answer"


def test_abort_ends_both_sides_without_sending_what_waits(twin: Twin) -> None:
    async def run() -> tuple[Talker, Talker]:
        server = await Server().listen(twin)
        near, far = await server.connected(twin)
        far.transport.pause_reading()
        near.transport.write(b"x" * 50_000_000)
        near.transport.abort()
        await near.until(lambda: near.is_lost)
        far.transport.resume_reading()
        await far.until(lambda: far.is_lost)
        await server.listening.close()
        return near, far

    near, far = twin.run(run())
    assert near.error is None
    assert len(far.received) < 50_000_000


def test_closing_with_unread_bytes_resets_the_peer(twin: Twin) -> None:
    async def run() -> Talker:
        server = await Server().listen(twin)
        near, far = await server.connected(twin)
        far.transport.pause_reading()
        near.transport.write(b"x" * 20_000_000)
        await near.until(lambda: near.is_write_paused)
        far.transport.close()
        await near.until(lambda: near.is_lost)
        await server.listening.close()
        return near

    assert isinstance(twin.run(run()).error, ConnectionError)


def test_a_reader_that_stops_pauses_the_writer_and_nothing_is_lost(twin: Twin) -> None:
    async def run() -> tuple[int, Talker, Talker]:
        server = await Server().listen(twin)
        near, far = await server.connected(twin)
        far.transport.pause_reading()
        assert not far.transport.is_reading()
        written = 0
        while not near.is_write_paused:
            near.transport.write(b"x" * 100_000)
            written += 100_000
        assert near.transport.get_write_buffer_size() > 0
        far.transport.resume_reading()
        await near.until(lambda: not near.is_write_paused)
        await far.take(written)
        close(near, far)
        await server.listening.close()
        return written, near, far

    written, near, _ = twin.run(run())
    assert written < 100_000_000
    assert near.pauses == 1


def test_write_buffer_limits_decide_when_the_writer_pauses(twin: Twin) -> None:
    async def run() -> None:
        server = await Server().listen(twin)
        near, far = await server.connected(twin)
        far.transport.pause_reading()
        near.transport.set_write_buffer_limits(high=40_000_000, low=10)
        assert near.transport.get_write_buffer_limits() == (10, 40_000_000)
        near.transport.write(b"x" * 30_000_000)
        assert not near.is_write_paused
        near.transport.write(b"x" * 30_000_000)
        assert near.is_write_paused
        near.transport.abort()
        far.transport.abort()
        await near.until(lambda: near.is_lost)
        await server.listening.close()

    twin.run(run())


def test_streams_of_asyncio_work_on_these_transports(twin: Twin) -> None:
    async def run() -> bytes:
        loop = asyncio.get_running_loop()
        server = await Server(Echo).listen(twin)
        reader = asyncio.StreamReader(loop=loop)
        address = Address(twin.peer_host, server.listening.address.port)
        protocol = await twin.runtime.network.connect(lambda: asyncio.StreamReaderProtocol(reader, loop=loop), address)
        writer = asyncio.StreamWriter(protocol._transport, protocol, reader, loop)  # type: ignore[attr-defined]  # noqa: SLF001
        writer.write(b"line one\nline two\n")
        await writer.drain()
        lines = await reader.readline() + await reader.readline()
        writer.close()
        await writer.wait_closed()
        await server.listening.close()
        return lines

    assert twin.run(run()) == b"line one\nline two\n"
