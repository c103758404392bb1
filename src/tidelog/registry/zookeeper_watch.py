"""Watches that stay: ZooKeeper's own are told once and are lost with a connection.

A watch is armed again as soon as it was told or its connection was lost, and only then passed on: whoever reads now sees at least what
it was told about, and every later change finds the watch armed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kazoo.protocol.serialization import Exists, GetChildren

from tidelog.registry.errors import RegistryUnavailable, SessionExpired
from tidelog.registry.zookeeper_client import hand_over
from tidelog.registry.zookeeper_session import ZooKeeperSession


class ZooKeeperWatch:
    """An interest in a node, for as long as the session lives."""

    def __init__(self, session: ZooKeeperSession, path: str, on_change: Callable[[], None]) -> None:
        self._session = session
        self._path = path
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self.is_cancelled = False
        self._keeping: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Arm it; what changes from now on is told."""
        await self._arm()
        self._keeping = self._loop.create_task(self._keep())

    def cancel(self) -> None:
        """Nothing more is told."""
        self.is_cancelled = True
        if self._keeping is not None:
            self._keeping.cancel()

    async def _arm(self) -> None:
        self._news.clear()
        # The first is told when the node comes, goes or gets other data, the second when its children change; it cannot be
        # armed where there is no node, but then the first one is told before there is a child.
        await self._session.requests([Exists(self._path, self._fired), GetChildren(self._path, self._fired)])

    async def _keep(self) -> None:
        try:
            while True:
                await self._news.wait()
                await self._arm_again()
                self._loop.call_soon(self._tell)
        except SessionExpired:
            return

    async def _arm_again(self) -> None:
        while True:
            await self._session.until_connected()
            try:
                return await self._arm()
            except RegistryUnavailable as failure:
                if not failure.may_pass:
                    await self._session.ended()
            # A connection that was lost a moment ago may not be known as lost yet: let the word arrive.
            await asyncio.sleep(0.01)

    def _tell(self) -> None:
        if not self.is_cancelled and not self._session.is_over:
            self._on_change()

    def _fired(self, _event: object) -> None:
        """In kazoo's thread: the node changed, or the connection was lost and its watches with it."""
        hand_over(self._loop, self._news.set)
