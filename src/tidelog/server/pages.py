"""Pages over HTTP, for whoever watches a broker: GET of a few paths, each answered once per connection.

Not a web server: it knows one method, reads no body, keeps no connection, and bounds everything a stranger may hold. A page is written as
lines and put together a few hundred at a time, so that a page of a hundred thousand lines does not hold the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, TypeAlias, cast

from tidelog.runtime import Address, Network
from tidelog.runtime.logs import fields

logger = logging.getLogger(__name__)

TEXT: Final = "text/plain; charset=utf-8"
VISITORS_MAX: Final = 16
HEAD_BYTES_MAX: Final = 8_192
VISIT_S_MAX: Final = 30.0
_LINES_AT_ONCE: Final = 500
_END_OF_HEAD: Final = b"\r\n\r\n"
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}

Lines: TypeAlias = AsyncIterator[str]


class Page(NamedTuple):
    """What is shown at a path: lines without their ends, made anew for every visitor."""

    content_type: str
    lines: Callable[[], Lines]


class _Answer(NamedTuple):
    status: int
    content_type: str
    content: bytes
    has_body: bool = True

    def encode(self) -> bytes:
        """As HTTP/1.1 has it."""
        head = (
            f"HTTP/1.1 {self.status} {_REASONS[self.status]}\r\nContent-Type: {self.content_type}\r\n"
            f"Content-Length: {len(self.content)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + (self.content if self.has_body else b"")


async def in_slices(lines: Iterator[str]) -> Lines:
    """Lines that are at hand, with a look at the world now and then."""
    for number, line in enumerate(lines, 1):
        yield line
        if number % _LINES_AT_ONCE == 0:
            await asyncio.sleep(0)


class Pages:
    """The pages of one broker, at any number of addresses."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages
        self._visitors: dict[_Visitor, None] = {}
        self._tasks: asyncio.TaskGroup | None = None

    @asynccontextmanager
    async def shown(self, network: Network, address: Address) -> AsyncIterator[Address]:
        """Show them at an address until the block is left; says which port it is. Raises NetworkFailure."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            listening = await network.listen(lambda: _Visitor(self), address)
            try:
                yield listening.address
            finally:
                await listening.close()
                for visitor in list(self._visitors):
                    visitor.leave()

    def enter(self, visitor: _Visitor) -> bool:
        """Whether there is room for one more."""
        if self._tasks is None or len(self._visitors) >= VISITORS_MAX:
            return False
        self._visitors[visitor] = None
        return True

    def forget(self, visitor: _Visitor) -> None:
        """It has gone."""
        self._visitors.pop(visitor, None)

    def serve(self, visitor: _Visitor, head: bytes) -> asyncio.Task[None] | None:
        """Answer a request, in a task that ends with the pages at the latest."""
        return None if self._tasks is None else self._tasks.create_task(self._serve(visitor, head))

    async def _serve(self, visitor: _Visitor, head: bytes) -> None:
        try:
            answer = await self._answer(head)
        except Exception:  # a page that cannot be made must not take the broker with it
            logger.exception("page failed", extra=fields(request=head.partition(b"\r\n")[0].decode(errors="replace")))
            answer = _said(500, "this page could not be made; the broker's log says why")
        visitor.tell(answer)

    async def _answer(self, head: bytes) -> _Answer:
        words = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return _said(400, "this is not HTTP/1.1")
        method, target, _ = words
        if method not in {"GET", "HEAD"}:
            return _said(405, "only GET and HEAD")
        page = self._pages.get(target.partition("?")[0])
        if page is None:
            return _said(404, "there is " + ", ".join(sorted(self._pages)))
        lines = [line async for line in page.lines()]
        lines.append("")
        return _Answer(200, page.content_type, "\n".join(lines).encode(), has_body=method == "GET")


class _Visitor(asyncio.Protocol):
    """One connection: a head comes in, an answer goes out."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._transport: asyncio.Transport | None = None
        self._head = bytearray()
        self._answering: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports inherit from none of asyncio's.
        if not self._pages.enter(self):
            self.tell(_said(503, f"{VISITORS_MAX} others are being served"))
            return
        self._deadline = asyncio.get_running_loop().call_later(VISIT_S_MAX, self.leave)

    def data_received(self, data: bytes) -> None:
        if self._answering is not None or self._transport is None or self._transport.is_closing():
            return  # What comes after the head is not for us.
        self._head += data[: HEAD_BYTES_MAX + 1 - len(self._head)]
        if _END_OF_HEAD in self._head:
            self._answering = self._pages.serve(self, bytes(self._head))
        elif len(self._head) > HEAD_BYTES_MAX:
            self.tell(_said(431, f"more than {HEAD_BYTES_MAX} bytes"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._deadline is not None:
            self._deadline.cancel()
        if self._answering is not None:
            self._answering.cancel()
        self._pages.forget(self)

    def tell(self, answer: _Answer) -> None:
        """Say it and hang up; nothing where nobody listens any more."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(answer.encode())
            self._transport.close()

    def leave(self) -> None:
        """Hang up at once."""
        if self._transport is not None:
            self._transport.abort()


def _said(status: int, sentence: str) -> _Answer:
    return _Answer(status, TEXT, f"{sentence}\n".encode())
