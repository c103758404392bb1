"""Producer ids, handed out from blocks that the registry grants to this broker.

The next block is fetched when a tenth of the present one is left, so that hardly anybody waits for the registry.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from tidelog.model import ApiError, ErrorCode, ProducerId
from tidelog.runtime.logs import fields

logger = logging.getLogger(__name__)

WAIT_S: Final = 20.0
"""For the registry, whose disk may stall: less than clients wait for an answer, so that they hear why there is none, and ask again."""

_SHARE_LEFT: Final = 10
"""Of a block, one in so many is left when the next is fetched."""


class ProducerIds:
    """Ids unique in the cluster. A block that was not used up when the broker died is lost, which costs nothing."""

    def __init__(
        self, allocate: Callable[[ProducerId], Awaitable[range]], highest_known: Callable[[], Awaitable[ProducerId]]
    ) -> None:
        self._allocate = allocate
        self._highest_known = highest_known
        self._above: ProducerId | None = None
        """Logs that another cluster has written know producers of its own, with whom ours must not be mixed up."""
        self._block = range(0)
        self._spare = range(0)
        self._low = 0  # How many are left when it is time for more.
        self._refill = asyncio.Lock()
        self._tasks: asyncio.TaskGroup | None = None
        self._fetching: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Fetch ahead until the block is left; before and after, ids are fetched when somebody waits for them."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                self._tasks = None
                if self._fetching is not None:
                    self._fetching.cancel()

    @property
    def is_stocked(self) -> bool:
        """Whether `take` would give an id."""
        return bool(self._block or self._spare)

    def take(self) -> ProducerId | None:
        """A producer id nobody else ever got, if one is at hand; and more are fetched where few are left."""
        if not self._block:
            self._block, self._spare = self._spare, range(0)
        if len(self._block) <= self._low and not self._spare:
            self._fetch_ahead()
        if not self._block:
            return None
        producer_id, self._block = self._block[0], self._block[1:]
        return producer_id

    async def ensure(self) -> None:
        """Wait until there is at least one, for WAIT_S at most. Raises ApiError where none can be had."""
        try:
            async with asyncio.timeout(WAIT_S), self._refill:
                if not self.is_stocked:  # Whoever waited for the lock may find the stock refilled.
                    await self._fetch()
        except TimeoutError:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no answer of the registry in {WAIT_S} s") from None

    async def next(self) -> ProducerId:
        """A producer id nobody else ever got. Raises ApiError where none can be had."""
        while (producer_id := self.take()) is None:
            await self.ensure()
        return producer_id

    def _fetch_ahead(self) -> None:
        if self._tasks is not None and self._fetching is None:
            self._fetching = self._tasks.create_task(self._fetch_quietly())

    async def _fetch_quietly(self) -> None:
        try:
            async with self._refill:
                if not self._spare:
                    await self._fetch()
        except ApiError as error:  # Whoever takes the next one tries again.
            logger.debug("no producer ids ahead", extra=fields(reason=error))
        finally:
            self._fetching = None

    async def _fetch(self) -> None:
        if self._above is None:
            self._above = await self._highest_known()
        self._spare = block = await self._allocate(self._above)
        self._low = len(block) // _SHARE_LEFT
