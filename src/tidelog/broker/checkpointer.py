"""Writing the checkpoints of one log directory: one writing at a time, shared by all who wait for it.

The threads of a directory keep no order, so two writings side by side could leave the older one; and whoever deletes records may not
answer before the new log start is on disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from tidelog.model import Offset, TopicPartition
from tidelog.runtime import Disk
from tidelog.storage import LogDirectory


class DirectoryCheckpointer:
    """Writes recovery points, log starts and high watermarks of a directory."""

    def __init__(
        self,
        directory: LogDirectory,
        disk: Disk,
        high_watermarks: Callable[[LogDirectory], Mapping[TopicPartition, Offset]],
    ) -> None:
        self._directory = directory
        self._disk = disk
        self._high_watermarks = high_watermarks
        self._turn = asyncio.Lock()
        self._asked = 0
        self._answered = 0

    async def write(self) -> bool:
        """Have everything as it is now on disk; whether it is, which a full disk prevents. Raises StorageFailure."""
        self._asked += 1
        mine = self._asked
        async with self._turn:
            if self._answered >= mine:
                return True
            asked = self._asked
            writing = self._directory.checkpoint(self._high_watermarks(self._directory))
            await self._perform(writing.perform)
            if writing.is_performed:
                self._answered = asked
            return writing.is_performed

    async def _perform(self, work: Callable[[], None]) -> None:
        """Do not leave before it is done: whoever writes or closes next must not meet it."""
        threads = self._disk.threads(self._directory.path)
        working = asyncio.get_running_loop().run_in_executor(threads, work)
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            await asyncio.wait((working,))
            raise
