"""Pages over HTTP: what is answered, and what strangers may not do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from tidelog.runtime import Address
from tidelog.runtime.real import RealNetwork
from tidelog.server.pages import HEAD_BYTES_MAX, VISITORS_MAX, Lines, Page, Pages

ANYWHERE = Address("127.0.0.1", 0)


async def _two() -> AsyncIterator[str]:
    yield "one"
    yield "two"


async def _broken() -> AsyncIterator[str]:
    yield "one"
    raise ValueError("cannot be made")


def visiting(story: Callable[[Address], Awaitable[None]], lines: Callable[[], Lines] = _two) -> None:
    async def whole() -> None:
        pages = Pages({"/metrics": Page("text/plain; version=0.0.4", lines)})
        async with asyncio.timeout(60), pages.shown(RealNetwork(), ANYWHERE) as address:
            await story(address)

    asyncio.run(whole())


async def answer(address: Address, request: bytes) -> tuple[str, str]:
    """The first line of the answer, and its body."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(request)
    said = (await reader.read()).decode()
    writer.close()
    head, _, body = said.partition("\r\n\r\n")
    assert "Connection: close" in head
    return head.splitlines()[0], body


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        ("GET /metrics HTTP/1.1", "200 OK", "one\ntwo\n"),
        ("GET /metrics?x=y HTTP/1.0", "200 OK", "one\ntwo\n"),
        ("HEAD /metrics HTTP/1.1", "200 OK", ""),
        ("GET / HTTP/1.1", "404 Not Found", "there is /metrics\n"),
        ("POST /metrics HTTP/1.1", "405 Method Not Allowed", "only GET and HEAD\n"),
        ("hello", "400 Bad Request", "this is not HTTP/1.1\n"),
        ("GET /metrics SPDY/3", "400 Bad Request", "this is not HTTP/1.1\n"),
    ],
)
def test_what_is_asked_for_is_answered(request_line: str, status: str, body: str) -> None:
    async def story(address: Address) -> None:
        told = await answer(address, f"{request_line}\r\nHost: x\r\n\r\n".encode())
        assert told == (f"HTTP/1.1 {status}", body)

    visiting(story)


def test_a_head_without_an_end_is_refused() -> None:
    async def story(address: Address) -> None:
        status, _ = await answer(address, b"GET /metrics HTTP/1.1\r\n" + b"a" * HEAD_BYTES_MAX)
        assert status == "HTTP/1.1 431 Request Header Fields Too Large"

    visiting(story)


def test_a_page_that_cannot_be_made_is_said_so_and_the_next_visitor_is_served() -> None:
    async def story(address: Address) -> None:
        for _ in range(2):
            status, body = await answer(address, b"GET /metrics HTTP/1.1\r\n\r\n")
            assert (status, body) == (
                "HTTP/1.1 500 Internal Server Error",
                "this page could not be made; the broker's log says why\n",
            )

    visiting(story, _broken)


def test_a_crowd_is_sent_away_and_makes_room_when_it_goes() -> None:
    async def story(address: Address) -> None:
        async with AsyncExitStack() as crowd:
            for _ in range(VISITORS_MAX):
                _, writer = await asyncio.open_connection(*address)
                crowd.callback(writer.close)
            # Whoever comes now is refused before he has said anything.
            reader, writer = await asyncio.open_connection(*address)
            assert (await reader.readline()).startswith(b"HTTP/1.1 503")
            writer.close()
        status = ""
        for _ in range(100):  # those who left may not have been noticed yet
            status, _ = await answer(address, b"GET /metrics HTTP/1.1\r\n\r\n")
            if status.endswith("200 OK"):
                return
        raise AssertionError(f"nobody has made room: {status}")

    visiting(story)


def test_who_is_still_there_at_the_end_is_sent_away() -> None:
    async def story() -> None:
        pages = Pages({})
        async with asyncio.timeout(60):
            async with pages.shown(RealNetwork(), ANYWHERE) as address:
                reader, writer = await asyncio.open_connection(*address)
                writer.write(b"GET")
                await writer.drain()
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()

    asyncio.run(story())
