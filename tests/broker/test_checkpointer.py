"""Checkpoints of a directory: in turn, shared, and honest about a full disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar

from tidelog.broker.checkpointer import DirectoryCheckpointer
from tidelog.config import LogConfig
from tidelog.model import TopicPartition
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage import LogDirectory
from tidelog.storage.checkpoints import decode_offsets

A = ParamSpec("A")
R = TypeVar("R")
T0 = TopicPartition("t", 0)


class LaterThreads(Executor):
    """Threads that are always busy for a moment, so that others come meanwhile; counts the work."""

    def __init__(self) -> None:
        self.count = 0
        self.is_busy = asyncio.Event()

    def submit(self, fn: Callable[A, R], /, *args: A.args, **kwargs: A.kwargs) -> Future[R]:
        future: Future[R] = Future()
        future.set_running_or_notify_cancel()
        self.count += 1
        self.is_busy.set()
        loop = asyncio.get_running_loop()
        loop.call_later(0.001, lambda: future.set_result(fn(*args, **kwargs)))
        return future


class LaterDisk(SimulatedDisk):
    """A disk with such threads."""

    def __init__(self) -> None:
        super().__init__()
        self.later = LaterThreads()

    def threads(self, log_dir: str) -> Executor:
        return self.later


def directory_on(disk: SimulatedDisk) -> LogDirectory:
    directory = LogDirectory.open(disk, "/data", broker_id=1, cluster_id="c")
    directory.open_log(T0, LogConfig(), now_ms=0).truncate_fully_and_start_at(100)
    return directory


def test_everybody_who_asks_while_a_writing_is_under_way_shares_the_next() -> None:
    async def story() -> None:
        disk = LaterDisk()
        directory = directory_on(disk)
        log = directory.logs[T0]
        log.truncate_fully_and_start_at(10)
        checkpointer = DirectoryCheckpointer(directory, disk, lambda _: {})
        first = asyncio.ensure_future(checkpointer.write())
        async with asyncio.timeout(60):
            await disk.later.is_busy.wait()
        log.truncate_fully_and_start_at(50)
        assert await asyncio.gather(*(checkpointer.write() for _ in range(10))) == [True] * 10
        assert await first
        assert disk.later.count == 2
        assert decode_offsets(disk.read("/data/log-start-offset-checkpoint")) == {T0: 50}

    asyncio.run(story())


def test_a_full_disk_is_no_success_and_the_next_writing_is_tried_again() -> None:
    async def story() -> None:
        disk = LaterDisk()
        checkpointer = DirectoryCheckpointer(directory_on(disk), disk, lambda _: {})
        disk.fill_up()
        assert not await checkpointer.write()
        disk.free_up()
        assert await checkpointer.write()

    asyncio.run(story())
