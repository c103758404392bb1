"""Opening the log directories of a broker, and recovering what lies in them, before anybody is told that it is there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from functools import partial
from typing import TypeAlias

from tidelog.broker.flusher import perform_all
from tidelog.config import BrokerConfig, LogConfig
from tidelog.model import BrokerEpoch, BrokerId, Offset, TopicPartition
from tidelog.runtime import Runtime, StorageFailure
from tidelog.runtime.logs import fields
from tidelog.storage import LogDirectory
from tidelog.storage.checkpoints import DamagedCheckpoint, decode_meta_properties
from tidelog.storage.names import META_PROPERTIES

logger = logging.getLogger(__name__)

HighWatermarks: TypeAlias = Callable[[LogDirectory], Mapping[TopicPartition, Offset]]


def known_broker_id(config: BrokerConfig, runtime: Runtime) -> BrokerId | None:
    """The broker id an earlier start has left in a log directory."""
    for path in config.log_dirs:
        try:
            broker_id = decode_meta_properties(runtime.disk.read(f"{path}/{META_PROPERTIES}")).broker_id
        except (StorageFailure, DamagedCheckpoint):
            continue
        if broker_id is not None:
            return broker_id
    return None


async def open_directories(config: BrokerConfig, runtime: Runtime, cluster_id: str) -> list[LogDirectory]:
    """The directories that work, each recovered in a thread, side by side.

    A directory whose disk fails is left out as long as another works. Raises StorageFailure when none does, WrongDirectory for one that
    belongs to somebody else.
    """
    loop = asyncio.get_running_loop()

    async def opened(path: str) -> LogDirectory | StorageFailure:
        try:
            threads = runtime.disk.threads(path)
            directory = await loop.run_in_executor(threads, _open, config, runtime, path, cluster_id)
            await _flush_recovered(directory, threads)
        except StorageFailure as failure:
            logger.error("log directory failed", extra=fields(directory=path, reason=failure))
            return failure
        return directory

    async with asyncio.TaskGroup() as tasks:
        opening = [tasks.create_task(opened(path)) for path in config.log_dirs]
    results = [task.result() for task in opening]
    directories = [result for result in results if isinstance(result, LogDirectory)]
    failures = [result for result in results if isinstance(result, StorageFailure)]
    if not directories:
        raise failures[0]
    return directories


async def close_cleanly(
    directory: LogDirectory, threads: Executor, high_watermarks: HighWatermarks, broker_epoch: BrokerEpoch
) -> None:
    """Flush and close every log of a directory, and leave the mark that lets the next start trust them. Raises StorageFailure."""
    loop = asyncio.get_running_loop()
    flushes = await loop.run_in_executor(threads, directory.start_closing)
    await perform_all(threads, flushes.values())
    finish = partial(directory.finish_closing, broker_epoch=broker_epoch)
    await loop.run_in_executor(threads, finish, flushes, high_watermarks(directory))


async def _flush_recovered(directory: LogDirectory, threads: Executor) -> None:
    """Make durable what a crash left in the page cache, before anybody reads it: a record that was seen must not vanish."""
    try:
        found = [(log, flush) for log in directory.logs.values() if (flush := log.start_flush()) is not None]
        await perform_all(threads, [flush for _, flush in found])
    except StorageFailure:
        directory.release()
        raise
    for log, flush in found:
        log.on_flushed(flush)


def _open(config: BrokerConfig, runtime: Runtime, path: str, cluster_id: str) -> LogDirectory:
    directory = LogDirectory.open(runtime.disk, path, broker_id=config.broker_id, cluster_id=cluster_id)
    # The topics' own settings come with the first image; recovery needs none of them.
    defaults = LogConfig.from_properties({}, config)
    try:
        for found in directory.found():
            now_ms = runtime.clock.wall_ms()
            directory.open_log(found.topic_partition, defaults, now_ms=now_ms, topic_id=found.topic_id)
    except StorageFailure:
        directory.release()
        raise
    # Where there is no log yet, nothing was left unclean.
    left = {"is_clean": directory.is_clean} if directory.logs else {}
    logger.info(
        "log directory opened",
        extra=fields(directory=path, log_count=len(directory.logs), **left),
    )
    return directory
