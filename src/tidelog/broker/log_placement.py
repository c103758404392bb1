"""Where the log of a partition lies, or is to lie, among the log directories of a broker."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterator
from typing import TypeAlias

from tidelog.config import BrokerConfig, LogConfig
from tidelog.model import TopicId, TopicPartition
from tidelog.runtime import Runtime, StorageFailure
from tidelog.runtime.logs import fields
from tidelog.storage import LogDirectory, PartitionLog

logger = logging.getLogger(__name__)

OnFailed: TypeAlias = Callable[[LogDirectory, StorageFailure], None]


class LogPlacement:
    """Finds and makes logs. A directory that is offline is as if it were not there, except that nothing of it is made anew."""

    def __init__(self, config: BrokerConfig, runtime: Runtime, directories: list[LogDirectory]) -> None:
        self._config = config
        self._runtime = runtime
        self._directories = directories

    def online(self) -> Iterator[LogDirectory]:
        """The directories that work."""
        return (directory for directory in self._directories if directory.failure is None)

    def find(self, topic_partition: TopicPartition, topic_id: TopicId) -> tuple[LogDirectory, PartitionLog] | None:
        """The log of this partition of this very topic, if it is there."""
        for directory in self.online():
            log = directory.logs.get(topic_partition)
            if log is None:
                continue
            if log.topic_id is None:
                log.keep_topic_id(topic_id)
            if log.topic_id == topic_id:
                return directory, log
            # A topic of the same name was deleted and made anew while this broker was away (KIP-516).
            directory.delete_log(topic_partition, unique=self._runtime.randomness.uuid())
        return None

    def create(
        self, topic_partition: TopicPartition, topic_id: TopicId, config: LogConfig, *, is_new: bool
    ) -> tuple[LogDirectory, PartitionLog]:
        """Begin a log where there are fewest. One that may lie in a directory that is offline is not begun: its records would be gone,

        and those written instead would be gone when it comes back. Raises StorageFailure.
        """
        online = list(self.online())
        if not online:
            raise StorageFailure("create", "log.dirs", "every log directory has failed")
        if not is_new and len(online) < len(self._config.log_dirs):
            raise StorageFailure("find", str(topic_partition), "it may lie in a log directory that is offline")
        directory = min(online, key=lambda one: len(one.logs))
        now_ms = self._runtime.clock.wall_ms()
        return directory, directory.open_log(topic_partition, config, now_ms=now_ms, topic_id=topic_id)

    def log(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """The log of this name, whatever its topic's id, on a directory that works."""
        return next((one.logs[topic_partition] for one in self.online() if topic_partition in one.logs), None)

    def delete(self, topic_partition: TopicPartition, on_failed: OnFailed) -> None:
        """Put a log out of sight, to be removed later; fine where there is none."""
        for directory in list(self.online()):
            try:
                if topic_partition in directory.logs:
                    directory.delete_log(topic_partition, unique=self._runtime.randomness.uuid())
            except StorageFailure as failure:
                on_failed(directory, failure)

    def set_aside_strays(
        self,
        hosted: Container[TopicPartition],
        is_deleted: Callable[[TopicPartition, TopicId | None], bool],
        on_failed: OnFailed,
    ) -> None:
        """Put logs that nobody hosts out of sight; deleted ones go, others are kept: a lost registry must not cost records."""
        for directory in list(self.online()):
            try:
                for topic_partition, log in list(directory.logs.items()):
                    if topic_partition not in hosted:
                        self._set_aside(
                            directory, topic_partition, is_deleted=is_deleted(topic_partition, log.topic_id)
                        )
            except StorageFailure as failure:
                on_failed(directory, failure)

    def _set_aside(self, directory: LogDirectory, topic_partition: TopicPartition, *, is_deleted: bool) -> None:
        unique = self._runtime.randomness.uuid()
        if is_deleted:
            directory.delete_log(topic_partition, unique=unique)
            logger.info("replica deleted", extra=fields(partition=topic_partition))
            return
        path = directory.set_aside_log(topic_partition, unique=unique)
        logger.warning("log of an unknown topic set aside", extra=fields(partition=topic_partition, path=path))
