"""What the files beside the logs claim: high watermarks, log starts, what was compacted, how the broker was stopped, whose a topic is.

No checkpoint has a checksum. A damaged one is a finding, and what it would have said is unknown then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tidelog.model import Offset, TopicId, TopicPartition
from tidelog.pipeline.audit.findings import Check, Finding
from tidelog.pipeline.segments.directories import (
    DataDirectory,
    PartitionFiles,
    check_one_log_each,
    data_directories,
    partitions_in,
)
from tidelog.storage.checkpoints import DamagedCheckpoint, decode_offsets, decode_partition_metadata
from tidelog.storage.names import (
    CLEAN_SHUTDOWN,
    CLEANED,
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    PARTITION_METADATA,
    SWAP,
)

COMPACTED_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LogClaims:
    """One replica of one partition, before its segments are read."""

    files: PartitionFiles
    topic_id: TopicId | None
    high_watermark: Offset | None
    log_start_offset: Offset
    is_compacted: bool
    was_stopped_cleanly: bool

    @property
    def replica(self) -> str:
        """Whose it is."""
        return self.files.directory.replica

    @property
    def topic_partition(self) -> TopicPartition:
        """What it is a replica of."""
        return self.files.topic_partition

    @property
    def last_segment(self) -> Offset:
        """Base offset of the segment that is written to."""
        return self.files.segments[-1].base_offset if self.files.segments else self.log_start_offset

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.files.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """All replicas of all partitions that were asked for."""

    directories: tuple[DataDirectory, ...]
    logs: tuple[LogClaims, ...]
    findings: tuple[Finding, ...]
    transaction_logs: tuple[LogClaims, ...] = ()
    """The replicas of `__transaction_state`, whether asked for or not: they know what is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checkpoints:
    """The small files of one directory."""

    high_watermarks: Mapping[TopicPartition, Offset]
    log_starts: Mapping[TopicPartition, Offset]
    cleaned: Mapping[TopicPartition, Offset]
    was_stopped_cleanly: bool
    findings: list[Finding] = field(default_factory=list)


def read_claims(paths: Sequence[str], topics: Sequence[str] | None, compacted: Sequence[str] = ()) -> Claims:
    """What is claimed of these topics, or all. Raises DirectoryRefused.

    Checkpoints are read before the segments are listed: of a broker at work, what was below its high watermark then is in its files now.
    """
    directories = tuple(data_directories(paths))
    checkpoints = {directory.path: _checkpoints(directory) for directory in directories}
    wanted = None if topics is None else {*topics, TRANSACTIONS_TOPIC}
    found = [files for directory in directories for files in partitions_in(directory, wanted)]
    check_one_log_each(found)
    logs = tuple(_log(files, checkpoints[files.directory.path], frozenset(compacted)) for files in found)
    asked = tuple(log for log in logs if topics is None or log.topic_partition.topic in topics)
    damaged = [finding for each in checkpoints.values() for finding in each.findings]
    return Claims(
        directories=directories,
        logs=asked,
        findings=(*damaged, *_lost(asked, directories, checkpoints)),
        transaction_logs=tuple(log for log in logs if log.topic_partition.topic == TRANSACTIONS_TOPIC),
    )


TRANSACTIONS_TOPIC: Final = "__transaction_state"


def _log(files: PartitionFiles, said: _Checkpoints, compacted: frozenset[str]) -> LogClaims:
    partition = files.topic_partition
    first = files.segments[0].base_offset if files.segments else 0
    is_being_cleaned = any(name.endswith((SWAP, CLEANED)) for name in files.unfinished)
    return LogClaims(
        files=files,
        topic_id=_topic_id(files.path),
        high_watermark=said.high_watermarks.get(partition),
        log_start_offset=max(first, said.log_starts.get(partition, 0)),
        is_compacted=partition.topic in COMPACTED_TOPICS | compacted or partition in said.cleaned or is_being_cleaned,
        was_stopped_cleanly=said.was_stopped_cleanly,
    )


def _lost(
    logs: Sequence[LogClaims], directories: Sequence[DataDirectory], checkpoints: Mapping[str, _Checkpoints]
) -> list[Finding]:
    """Partitions of which a broker has a high watermark but no log, while others have one."""
    held: dict[TopicPartition, set[str]] = {}
    for log in logs:
        held.setdefault(log.topic_partition, set()).add(log.replica)
    lost = {}
    for directory in directories:
        for partition in checkpoints[directory.path].high_watermarks:
            if partition in held and directory.replica not in held[partition]:
                lost[partition, directory.replica] = Finding(
                    check=Check.MISSING_REPLICA,
                    what=f"broker {directory.replica} has a high watermark of this partition, but no log",
                    replicas=(directory.replica,),
                    topic=partition.topic,
                    partition=partition.index,
                    file=f"{directory.path}/{HIGH_WATERMARK_CHECKPOINT}",
                )
    return list(lost.values())


def _checkpoints(directory: DataDirectory) -> _Checkpoints:
    findings: list[Finding] = []
    read = [
        _offsets(directory, name, findings)
        for name in (HIGH_WATERMARK_CHECKPOINT, LOG_START_CHECKPOINT, CLEANER_CHECKPOINT)
    ]
    return _Checkpoints(
        high_watermarks=read[0],
        log_starts=read[1],
        cleaned=read[2],
        was_stopped_cleanly=Path(directory.path, CLEAN_SHUTDOWN).exists(),
        findings=findings,
    )


def _offsets(directory: DataDirectory, name: str, findings: list[Finding]) -> dict[TopicPartition, Offset]:
    path = Path(directory.path, name)
    try:
        content = path.read_bytes()
        return decode_offsets(content) if content else {}  # Kafka makes them when it starts, and fills them later
    except FileNotFoundError:
        return {}
    except DamagedCheckpoint as error:
        what = f"the checkpoint is damaged: {error}"
    except OSError as error:
        what = f"the checkpoint cannot be read: {error.strerror}"
    findings.append(Finding(check=Check.CHECKPOINT, what=what, replicas=(directory.replica,), file=str(path)))
    return {}


def _topic_id(path: str) -> TopicId | None:
    try:
        return decode_partition_metadata(Path(path, PARTITION_METADATA).read_bytes())
    except (OSError, DamagedCheckpoint):
        return None  # as a crash right after the creation leaves it
