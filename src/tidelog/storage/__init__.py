"""One partition's log on a disk, in Kafka's own formats. Synchronous, told the time, knows no high watermark of its own."""

from tidelog.storage.directory import FoundPartition, LogDirectory, WrongDirectory
from tidelog.storage.directory_work import CheckpointWriting, Removal
from tidelog.storage.epoch_cache import EpochEndOffset
from tidelog.storage.flush import Flush
from tidelog.storage.log import PartitionLog
from tidelog.storage.metadata_file import InconsistentTopicId, read_topic_id
from tidelog.storage.producer_state import Origin, ProducerState, ProducerStates
from tidelog.storage.segment import Segment
from tidelog.storage.transaction_index import AbortedTransaction
from tidelog.storage.values import Appended, DirectoryHealth, Opening, Retired, TimestampedOffset
from tidelog.storage.verification import Guard

__all__ = [
    "AbortedTransaction",
    "Appended",
    "CheckpointWriting",
    "DirectoryHealth",
    "EpochEndOffset",
    "Flush",
    "FoundPartition",
    "Guard",
    "InconsistentTopicId",
    "LogDirectory",
    "Opening",
    "Origin",
    "PartitionLog",
    "ProducerState",
    "ProducerStates",
    "Removal",
    "Retired",
    "Segment",
    "TimestampedOffset",
    "WrongDirectory",
    "read_topic_id",
]
