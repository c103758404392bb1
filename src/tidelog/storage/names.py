"""File names as Kafka spells them, so that its tools find their way in our directories and we in theirs."""

from __future__ import annotations

import re
from typing import Final

from tidelog.model import Offset, TopicPartition

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TRANSACTION_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"
SEGMENT_SUFFIXES: Final = (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)
"""The files of one segment; the log first, because an index without its log is worth nothing."""

CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
DELETED: Final = ".deleted"

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
TRUNCATION_POINT: Final = "truncation-point-checkpoint"
FLOORS: Final = "floors-checkpoint"
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT: Final = "replication-offset-checkpoint"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
LOCK: Final = ".lock"
DELETED_DIRECTORY: Final = "-delete"
STRAY_DIRECTORY: Final = "-stray"

_STEM: Final = re.compile(
    r"(\d{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)(\.cleaned|\.swap|\.deleted)?\Z", re.ASCII
)
_PARTITION_DIRECTORY: Final = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d{1,10})\Z", re.ASCII)


def file_name(base_offset: Offset, suffix: str) -> str:
    """The name of a segment's file: twenty digits and a suffix."""
    return f"{base_offset:020d}{suffix}"


def parse_file_name(name: str) -> tuple[Offset, str, str] | None:
    """(base offset, kind suffix, state suffix or "") of a segment's file or snapshot; None for any other name."""
    match = _STEM.match(name)
    return None if match is None else (int(match[1]), match[2], match[3] or "")


def parse_partition_directory(name: str) -> TopicPartition | None:
    """The partition whose log lies in a directory of this name; None for directories that are something else."""
    match = _PARTITION_DIRECTORY.match(name)
    return None if match is None else TopicPartition(match[1], int(match[2]))
