"""Work in the threads of a log directory: what happens around a flush, or a chore, that is under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar

from tests.storage.support import CONFIG, NOW, batch, new_disk
from tidelog.broker.flusher import DirectoryFlusher
from tidelog.broker.housekeeping import Housekeeping
from tidelog.broker.log_directories import open_directories
from tidelog.broker.replica_manager import ReplicaManager
from tidelog.broker.replica_roles import ReplicaRoles
from tidelog.config import BrokerConfig
from tidelog.model import TopicPartition
from tidelog.partition import Partition
from tidelog.runtime import Runtime, StorageFailure
from tidelog.runtime.real import RealClock, RealMetrics, RealNetwork, RealRandomness
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage import DirectoryHealth, Opening, PartitionLog

A = ParamSpec("A")
R = TypeVar("R")
MOMENT_S = 0.02


class HeldThreads(Executor):
    """Threads that do their work when they are told to."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []
        self.asked = asyncio.Event()

    def submit(self, fn: Callable[A, R], /, *args: A.args, **kwargs: A.kwargs) -> Future[R]:
        future: Future[R] = Future()
        future.set_running_or_notify_cancel()
        self.waiting.append(lambda: future.set_result(fn(*args, **kwargs)))
        self.asked.set()
        return future

    def work(self) -> None:
        """Do all that was asked for so far."""
        waiting, self.waiting = self.waiting, []
        self.asked.clear()
        for each in waiting:
            each()


class HeldDisk(SimulatedDisk):
    """A disk whose threads can be held."""

    held: HeldThreads | None = None

    def threads(self, log_dir: str) -> Executor:
        return self.held or super().threads(log_dir)


def partition(disk: SimulatedDisk, name: str, health: DirectoryHealth) -> Partition:
    topic_partition = TopicPartition(name, 0)
    log = PartitionLog.open(
        disk, f"/data/{topic_partition}", topic_partition, CONFIG, now_ms=NOW, opening=Opening(health=health)
    )
    log.append_as_leader(batch("a"), leader_epoch=0, now_ms=NOW)
    return Partition(1, log, high_watermark=0)


def test_d14_flush_wanted_of_a_directory_that_has_failed_meanwhile_is_reported_and_does_not_stop_the_broker() -> None:
    async def story() -> None:
        failures: asyncio.Queue[StorageFailure] = asyncio.Queue()
        health = DirectoryHealth()
        replica = partition(new_disk(), "t", health)
        flusher = DirectoryFlusher(HeldThreads(), on_flushed=lambda _, __: None, on_failed=failures.put_nowait)
        async with asyncio.timeout(60), flusher.running():
            health.fail(StorageFailure("write", "/data", "Input/output error"))
            flusher.want(replica)
            await failures.get()

    asyncio.run(story())


def test_leaving_waits_for_the_flush_under_way_before_it_begins_the_last_one() -> None:
    async def story() -> None:
        threads, stop = HeldThreads(), asyncio.Event()
        replica = partition(new_disk(), "t", DirectoryHealth())
        flusher = DirectoryFlusher(threads, on_flushed=lambda _, __: None, on_failed=lambda _: None)

        async def serve() -> None:
            async with flusher.running():
                flusher.want(replica)
                await stop.wait()

        serving = asyncio.create_task(serve())
        await threads.asked.wait()
        replica.log.append_as_leader(batch("b"), leader_epoch=0, now_ms=NOW)
        flusher.want(replica)
        stop.set()
        await asyncio.wait((serving,), timeout=MOMENT_S)
        assert len(threads.waiting) == 1  # One flush of a log at a time, also now.
        threads.work()
        await threads.asked.wait()
        threads.work()
        await serving
        assert replica.log.recovery_point == 2

    asyncio.run(story())


def world(disk: SimulatedDisk) -> Runtime:
    return Runtime(
        clock=RealClock(), disk=disk, network=RealNetwork(), randomness=RealRandomness(), metrics=RealMetrics()
    )


def test_d14_directory_that_fails_in_the_flush_after_recovery_leaves_the_others_working() -> None:
    async def story() -> None:
        disk = SimulatedDisk()
        config = BrokerConfig.from_properties({"broker.id": "1", "log.dirs": "/a,/b"})
        first, second = await open_directories(config, world(disk), "c")
        log = first.open_log(TopicPartition("t", 0), CONFIG, now_ms=NOW)
        log.append_as_leader(batch("a"), leader_epoch=0, now_ms=NOW)
        first.release()
        second.release()
        disk.faults.fail("fsync", path="/a/t-0/*.log")
        (left,) = await open_directories(config, world(disk), "c")
        assert left.path == "/b"

    asyncio.run(story())


def test_chore_that_is_cancelled_ends_after_its_work_in_the_thread() -> None:
    async def story() -> None:
        disk = HeldDisk()
        runtime = world(disk)
        config = BrokerConfig.from_properties({"broker.id": "1", "log.dirs": "/data"})
        replicas = ReplicaManager(config, runtime)
        roles = ReplicaRoles(config, runtime.clock, replicas, is_live=lambda _: True)
        async with replicas.running("c"):
            disk.held = HeldThreads()
            chore = asyncio.create_task(Housekeeping(config, runtime, replicas, roles).checkpoint())
            await disk.held.asked.wait()
            chore.cancel()
            await asyncio.wait((chore,), timeout=MOMENT_S)
            assert not chore.done()
            disk.held.work()
            await asyncio.wait((chore,))
            assert chore.cancelled()
            disk.held = None

    asyncio.run(story())


def test_thousands_of_flushes_are_begun_some_at_a_time_and_those_of_logs_deleted_meanwhile_not_at_all() -> None:
    async def story() -> None:
        threads, disk, flushed = HeldThreads(), new_disk(), list[str]()
        replicas = [partition(disk, f"t{number}", DirectoryHealth()) for number in range(150)]
        flusher = DirectoryFlusher(
            threads, on_flushed=lambda one, _: flushed.append(one.topic_partition.topic), on_failed=lambda _: None
        )
        async with asyncio.timeout(60), flusher.running():
            for replica in replicas:
                flusher.want(replica)
            await threads.asked.wait()
            assert len(threads.waiting) == 100
            flusher.forget(replicas[149].topic_partition)
            threads.work()
            await threads.asked.wait()
            assert len(threads.waiting) == 49
            threads.work()
        assert len(flushed) == 149

    asyncio.run(story())
