"""A link that can be cut: a small TCP proxy on loopback, in a thread of its own.

with TcpLink(port) as link:
    link.address      # connect here instead
    link.cut()        # nothing passes any more, and nobody is told: a pulled cable
    link.mend()       # what is connected from now on passes
    link.reset()      # whoever is connected is disconnected
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Self


class TcpLink:
    """Forwards to a port of this machine until it is cut."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._there = asyncio.Event()  # set while what is sent passes
        self._back = asyncio.Event()  # and what is answered
        self._server: asyncio.Server | None = None
        self._ends: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """host:port of the near end."""
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._open())
        return self

    def __exit__(self, *_exc: object) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    @property
    def is_used(self) -> bool:
        """Whether somebody is connected."""
        return bool(self._ends)

    def cut(self) -> None:
        """What is sent is lost in silence; connecting still works, as with a server that hangs."""
        self._call(self._there.clear, self._back.clear)

    def cut_answers(self) -> None:
        """What is sent arrives, what comes back is lost in silence."""
        self._call(self._back.clear)

    def mend(self) -> None:
        """Connections made from now on pass; those of before the cut stay lost."""
        self.reset()
        self._call(self._there.set, self._back.set)

    def reset(self) -> None:
        """Disconnect everybody."""
        self._do(self._disconnect())

    async def _open(self) -> None:
        self._there.set()
        self._back.set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._disconnect()

    async def _disconnect(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for end in list(self._ends):
            end.transport.abort()
        self._ends.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._ends.add(writer)
        far_writer = None
        try:
            await self._there.wait()
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
            self._ends.add(far_writer)
            await asyncio.gather(
                self._pass(reader, far_writer, self._there), self._pass(far_reader, writer, self._back)
            )
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._ends.discard(writer)
            if far_writer is not None:
                self._ends.discard(far_writer)
                far_writer.transport.abort()
            self._tasks.discard(task)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passes: asyncio.Event) -> None:
        while piece := await reader.read(1 << 16):
            await passes.wait()
            writer.write(piece)
            await writer.drain()
        await passes.wait()
        writer.close()

    def _call(self, *whats: Callable[[], object]) -> None:
        async def call() -> None:
            for what in whats:
                what()

        self._do(call())

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)
