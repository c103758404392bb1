"""Producer ids, handed out from blocks that the registry grants to this broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tidelog.model import ProducerId


class ProducerIds:
    """Ids unique in the cluster. A block that was not used up when the broker died is lost, which costs nothing."""

    def __init__(self, allocate: Callable[[], Awaitable[range]]) -> None:
        self._allocate = allocate
        self._block = iter(range(0))
        self._refill = asyncio.Lock()

    async def next(self) -> ProducerId:
        """A producer id nobody else ever got."""
        producer_id = next(self._block, None)
        while producer_id is None:
            async with self._refill:
                # Whoever waited for the lock may find the block refilled.
                producer_id = next(self._block, None)
                if producer_id is None:
                    self._block = iter(await self._allocate())
                    producer_id = next(self._block, None)
        return producer_id
