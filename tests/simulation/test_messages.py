"""Single messages on the wire: stopped, let go one by one, kept in order, and lost with their connection."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from typing import cast

import pytest

from tidelog.runtime import Address, Runtime
from tidelog.simulation import World
from tidelog.simulation.messages import Kind, Messages

FETCH, PRODUCE = 1, 0
ASKED = Kind(host="client", api_key=FETCH, is_answer=False)
ANSWERED = Kind(host="client", api_key=FETCH, is_answer=True)


def request(api_key: int, correlation_id: int) -> bytes:
    return struct.pack(">ihhi", 8, api_key, 0, correlation_id)


class Collecting(asyncio.Protocol):
    """Keeps what it reads, as (API key, correlation id) of requests or correlation ids of answers."""

    def __init__(self, *, is_server: bool) -> None:
        self.is_server = is_server
        self.received = bytearray()
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        before = len(self.received) // 12
        self.received += data
        if self.is_server:
            for _, correlation_id in self.requests[before:]:
                self.transport.write(struct.pack(">ii", 4, correlation_id))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True

    @property
    def requests(self) -> list[tuple[int, int]]:
        whole = len(self.received) // 12 * 12
        return [(key, each) for _, key, _, each in struct.iter_unpack(">ihhi", self.received[:whole])]

    @property
    def answers(self) -> list[int]:
        whole = len(self.received) // 8 * 8
        return [each for _, each in struct.iter_unpack(">ii", self.received[:whole])]


class Conversation:
    """A client that is connected to a server, and what is on the wire between them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.messages: Messages = world.fabric.watch_messages()
        self.server = Collecting(is_server=True)
        self.client = Collecting(is_server=False)
        world.run(self._connect(world.node("server").runtime, world.node("client").runtime))

    async def _connect(self, server: Runtime, client: Runtime) -> None:
        await server.network.listen(lambda: self.server, Address("server", 9092))
        await client.network.connect(lambda: self.client, Address("server", 9092))

    def send(self, *messages: bytes) -> None:
        self.client.transport.write(b"".join(messages))
        self.world.run_for_ms(50)


@pytest.fixture
def talk() -> Iterator[Conversation]:
    with World(3) as world:
        yield Conversation(world)


def test_messages_of_the_kind_wait_until_each_is_let_go(talk: Conversation) -> None:
    gate = talk.messages.hold(ASKED)
    talk.send(request(FETCH, 1))
    talk.send(request(FETCH, 2))
    assert gate.is_blocking
    assert talk.server.requests == []
    talk.messages.step(gate)
    talk.world.run_for_ms(50)
    assert talk.server.requests == [(FETCH, 1)]
    talk.messages.release(gate)
    talk.send(request(FETCH, 3))
    assert talk.server.requests == [(FETCH, 1), (FETCH, 2), (FETCH, 3)]
    assert talk.client.answers == [1, 2, 3]


def test_other_messages_pass_but_never_overtake(talk: Conversation) -> None:
    gate = talk.messages.hold(ASKED)
    talk.send(request(PRODUCE, 1))
    assert talk.server.requests == [(PRODUCE, 1)]
    talk.send(request(FETCH, 2), request(PRODUCE, 3))
    assert talk.server.requests == [(PRODUCE, 1)]
    talk.messages.release(gate)
    talk.world.run_for_ms(50)
    assert talk.server.requests == [(PRODUCE, 1), (FETCH, 2), (PRODUCE, 3)]


def test_answers_are_known_by_the_requests_they_answer(talk: Conversation) -> None:
    gate = talk.messages.hold(ANSWERED)
    talk.send(request(PRODUCE, 1))
    talk.send(request(FETCH, 2))
    assert talk.server.requests == [(PRODUCE, 1), (FETCH, 2)]
    assert talk.client.answers == [1]
    talk.messages.step(gate)
    talk.world.run_for_ms(50)
    assert talk.client.answers == [1, 2]


def test_what_waits_is_lost_with_its_connection(talk: Conversation) -> None:
    gate = talk.messages.hold(ASKED)
    talk.send(request(FETCH, 1))
    assert talk.world.fabric.faults.reset("client", "server") == 1
    talk.world.run_for_ms(50)
    assert talk.client.is_lost
    assert not gate.is_blocking
    talk.messages.release(gate)
    talk.world.run_for_ms(50)
    assert talk.server.requests == []
