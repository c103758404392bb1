"""One replica of one partition: leadership, high watermark, what may be acknowledged and what may be read."""

from tidelog.partition.deletion import delete_records
from tidelog.partition.events import (
    FlushWanted,
    HighWatermarkAdvanced,
    LeadershipChanged,
    LogEndAdvanced,
    PartitionEvent,
)
from tidelog.partition.partition import Leadership, Partition, PartitionRead

__all__ = [
    "FlushWanted",
    "HighWatermarkAdvanced",
    "Leadership",
    "LeadershipChanged",
    "LogEndAdvanced",
    "Partition",
    "PartitionEvent",
    "PartitionRead",
    "delete_records",
]
