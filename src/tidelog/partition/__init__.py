"""One replica of one partition: leadership, high watermark, what may be acknowledged and what may be read."""

from tidelog.partition.deletion import delete_records
from tidelog.partition.events import (
    FlushWanted,
    HighWatermarkAdvanced,
    IsrChangeWanted,
    LeadershipChanged,
    LogEndAdvanced,
    LogTruncated,
    LowWatermarkAdvanced,
    PartitionEvent,
)
from tidelog.partition.partition import Partition
from tidelog.partition.values import (
    FetchPosition,
    FollowerFetch,
    FollowerRead,
    IsrProposal,
    Leadership,
    PartitionRead,
    RemoteDescription,
    ReplicaDescription,
    ReplicationRules,
)

__all__ = [
    "FetchPosition",
    "FlushWanted",
    "FollowerFetch",
    "FollowerRead",
    "HighWatermarkAdvanced",
    "IsrChangeWanted",
    "IsrProposal",
    "Leadership",
    "LeadershipChanged",
    "LogEndAdvanced",
    "LogTruncated",
    "LowWatermarkAdvanced",
    "Partition",
    "PartitionEvent",
    "PartitionRead",
    "RemoteDescription",
    "ReplicaDescription",
    "ReplicationRules",
    "delete_records",
]
