"""Our own Kafka client: async, on any asyncio loop, with time, chance and the network from `runtime`.

`Producer`, `Consumer` and `Admin` each work through a `Cluster`, which they share or bring along (`connect`). What decides is pure and
told the time (accumulator, sequencing, assignment, fetch_session, metadata, verdict); what waits is thin (connection, cluster, sender,
fetcher) and lives in the TaskGroup of its `async with` block.
"""

from tidelog.client.admin import Admin
from tidelog.client.admin_values import (
    TO_HIGH_WATERMARK,
    ClusterDescription,
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ElectionKind,
    LogDirDescription,
    MorePartitions,
    NewTopic,
    PartitionResult,
    ProducerDescription,
    Reassignment,
    RemoteReplica,
    ReplicaDescription,
    ResourceKind,
    ResourceResult,
    TopicResult,
)
from tidelog.client.batch import RecordMetadata
from tidelog.client.cluster import ClientRuntime, Cluster, Lane
from tidelog.client.config import ClientConfig, ConsumerConfig, OffsetReset, ProducerConfig
from tidelog.client.connection import Connection, ConnectionLimits, open_connection
from tidelog.client.consumer import Consumer
from tidelog.client.errors import (
    BrokersUnreachable,
    BufferExhausted,
    ClientClosed,
    ClientError,
    ConnectionLost,
    CorruptRecords,
    DeliveryTimeout,
    FetchFailed,
    LogTruncated,
    NoPosition,
    OffsetOutOfRange,
    ProduceFailed,
    ProducerRefused,
    RecordTooLarge,
    RequestRefused,
    RequestTimedOut,
    TopicUnavailable,
    UnsupportedApi,
)
from tidelog.client.fetched import ConsumedRecord
from tidelog.client.metadata import Leader, PartitionMetadata, TopicMetadata
from tidelog.client.offsets import FoundOffset
from tidelog.client.producer import Producer

__all__ = [
    "TO_HIGH_WATERMARK",
    "Admin",
    "BrokersUnreachable",
    "BufferExhausted",
    "ClientClosed",
    "ClientConfig",
    "ClientError",
    "ClientRuntime",
    "Cluster",
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigOperation",
    "ConfigResource",
    "Connection",
    "ConnectionLimits",
    "ConnectionLost",
    "ConsumedRecord",
    "Consumer",
    "ConsumerConfig",
    "CorruptRecords",
    "DeliveryTimeout",
    "ElectionKind",
    "FetchFailed",
    "FoundOffset",
    "Lane",
    "Leader",
    "LogDirDescription",
    "LogTruncated",
    "MorePartitions",
    "NewTopic",
    "NoPosition",
    "OffsetOutOfRange",
    "OffsetReset",
    "PartitionMetadata",
    "PartitionResult",
    "ProduceFailed",
    "Producer",
    "ProducerConfig",
    "ProducerDescription",
    "ProducerRefused",
    "Reassignment",
    "RecordMetadata",
    "RecordTooLarge",
    "RemoteReplica",
    "ReplicaDescription",
    "RequestRefused",
    "RequestTimedOut",
    "ResourceKind",
    "ResourceResult",
    "TopicMetadata",
    "TopicResult",
    "TopicUnavailable",
    "UnsupportedApi",
    "open_connection",
]
