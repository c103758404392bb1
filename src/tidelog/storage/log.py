"""The log of one partition: appends at its end, reads anywhere, and what keeps it in shape.

Synchronous and told the time. Appends and reads touch the page cache only; what must reach the disk leaves as a `Flush` and what may be
removed as `Retired`, both for the threads of the log directory. The high watermark is not ours: callers pass it.
"""

from __future__ import annotations

from tidelog.config import LogConfig
from tidelog.model import TimestampMs, TopicId, TopicPartition
from tidelog.runtime import Disk, DiskFull, StorageFailure
from tidelog.storage.flush import Flush
from tidelog.storage.log_appending import AppendableLog
from tidelog.storage.log_reading import ReadableLog
from tidelog.storage.metadata_file import keep_topic_id
from tidelog.storage.open_files import OpenFiles
from tidelog.storage.producer_state import ProducerState
from tidelog.storage.recovery import load_log
from tidelog.storage.retention import roll_after_ms
from tidelog.storage.values import Opening


class PartitionLog(AppendableLog, ReadableLog):
    """One log. Create it with `open`; a method that raises StorageFailure (other than DiskFull) has taken its directory offline."""

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        *,
        now_ms: TimestampMs,
        opening: Opening,
    ) -> PartitionLog:
        """Load the log in `directory`, recovering it unless its shutdown was clean; begin an empty one where none is."""
        files = OpenFiles(disk) if opening.files is None else opening.files
        try:
            disk.mkdir(directory)
            if not disk.is_dir(directory):
                raise StorageFailure(
                    "open", directory, "it is a symbolic link; a log is written only where we made its directory"
                )
            metadata = None if opening.topic_id is None else keep_topic_id(disk, directory, opening.topic_id)
            loaded = load_log(files, directory, config, opening, now_ms)
        except StorageFailure as failure:
            if not isinstance(failure, DiskFull):
                opening.health.fail(failure)
            raise
        log = cls(files, directory, topic_partition, config, opening, loaded)
        if metadata is not None:
            log._durability.small_files.append(metadata)
        return log

    def keep_topic_id(self, topic_id: TopicId) -> None:
        """Tie the log to its topic, where a crash right after its creation has left no id."""
        with self._changing():
            metadata = keep_topic_id(self._disk, self.directory, topic_id)
        self.topic_id = topic_id
        if metadata is not None:
            self._durability.small_files.append(metadata)
            self._durability.are_names_unflushed = True

    def reconfigure(self, config: LogConfig) -> None:
        """New settings, from now on."""
        self.config = self._segments.config = config
        self._segments.active.index_interval_bytes = config.index_interval_bytes
        self._are_gaps_known |= config.is_compacted
        self._roll_after_ms = roll_after_ms(config, self.topic_partition)
        self._durability.reconfigure(config.flush_messages, self.log_end_offset)

    def expire_producers(self, now_ms: TimestampMs) -> int:
        """Forget producers that have been silent for producer.id.expiration.ms; how many went."""
        return self._producers.expire(now_ms, self.config.producer_id_expiration_ms)

    def active_producers(self) -> list[ProducerState]:
        """The producers the log knows, as DescribeProducers shows them."""
        return list(self._producers)

    def close(self) -> None:
        """End cleanly, synchronously."""
        flush = self.start_closing()
        if flush is not None:
            flush.perform()
        self.finish_closing(flush)

    def start_closing(self) -> Flush | None:
        """Write what a clean end needs, indexes and a producer snapshot; what must then be flushed. No more appends after this.

        A log that is as its last clean end left it needs nothing.
        """
        active = self._segments.active
        with self._changing():
            if active.size > 0 and self.log_end_offset != self._untouched_end_offset:
                active.seal()
                self._durability.small_files.append(self._snapshots.write(self.log_end_offset, self._producers))
                self._durability.sealed.append(active)
            return self.start_flush()

    def finish_closing(self, flush: Flush | None) -> None:
        """The flush of `start_closing` is done: let go of the files. Raises DiskFull if it found no space."""
        if flush is not None:
            self.on_flushed(flush)
            if not flush.is_performed:
                raise DiskFull("flush", self.directory, "no space for the leader epochs")
        self.abandon()

    def abandon(self) -> None:
        """Let go of all files without a last write: the directory failed, or the log is deleted. Flushes under way are cancelled."""
        self._durability.cancel()
        self._durability.let_go(self._segments.all)
