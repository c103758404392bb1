"""Our own Kafka client: async, on any asyncio loop, with time, chance and the network from `runtime`.

`Producer`, `Consumer` and `Admin` each work through a `Cluster`, which they share or bring along (`connect`). What decides is pure and
told the time (accumulator, sequencing, assignment, fetch_session, metadata, verdict); what waits is thin (connection, cluster, sender,
fetcher) and lives in the TaskGroup of its `async with` block.
"""

from tidelog.client.admin import Admin
from tidelog.client.admin_group_values import GroupDescription, GroupListing, MemberDescription
from tidelog.client.admin_groups import GroupAdmin
from tidelog.client.admin_transaction_values import (
    HeldPartition,
    OpenTransaction,
    TransactionDescription,
    TransactionListing,
)
from tidelog.client.admin_transactions import TransactionAdmin
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
from tidelog.client.config import ClientConfig, ConsumerConfig, ProducerConfig
from tidelog.client.config_kinds import GroupProtocol, OffsetReset
from tidelog.client.connection import Connection, ConnectionLimits, open_connection
from tidelog.client.consumer import Consumer
from tidelog.client.errors import (
    BrokersUnreachable,
    BufferExhausted,
    ClientClosed,
    ClientError,
    CommitFailed,
    ConnectionLost,
    CorruptRecords,
    DeliveryTimeout,
    FetchFailed,
    GroupRefused,
    LogTruncated,
    NoPosition,
    OffsetOutOfRange,
    ProduceFailed,
    ProducerFenced,
    ProducerRefused,
    RecordTooLarge,
    RequestRefused,
    RequestTimedOut,
    TopicUnavailable,
    TransactionAborted,
    TransactionFailed,
    TransactionPending,
    TransactionRefused,
    UnsupportedApi,
    WrongUse,
)
from tidelog.client.fetched import ConsumedRecord
from tidelog.client.groups.group import GroupHandle, GroupMetadata
from tidelog.client.groups.offset_commits import Committed, offsets_after
from tidelog.client.metadata import Leader, PartitionMetadata, TopicMetadata
from tidelog.client.offsets import FoundOffset
from tidelog.client.producer import Producer
from tidelog.client.transactions.adopting import AdoptedTransaction, TransactionKeeper
from tidelog.client.transactions.finishing import finish_transaction
from tidelog.client.transactions.prepared import PreparedTransaction
from tidelog.client.visible_records import VisibleRecords

__all__ = [
    "TO_HIGH_WATERMARK",
    "Admin",
    "AdoptedTransaction",
    "BrokersUnreachable",
    "BufferExhausted",
    "ClientClosed",
    "ClientConfig",
    "ClientError",
    "ClientRuntime",
    "Cluster",
    "ClusterDescription",
    "CommitFailed",
    "Committed",
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
    "GroupAdmin",
    "GroupDescription",
    "GroupHandle",
    "GroupListing",
    "GroupMetadata",
    "GroupProtocol",
    "GroupRefused",
    "HeldPartition",
    "Lane",
    "Leader",
    "LogDirDescription",
    "LogTruncated",
    "MemberDescription",
    "MorePartitions",
    "NewTopic",
    "NoPosition",
    "OffsetOutOfRange",
    "OffsetReset",
    "OpenTransaction",
    "PartitionMetadata",
    "PartitionResult",
    "PreparedTransaction",
    "ProduceFailed",
    "Producer",
    "ProducerConfig",
    "ProducerDescription",
    "ProducerFenced",
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
    "TransactionAborted",
    "TransactionAdmin",
    "TransactionDescription",
    "TransactionFailed",
    "TransactionKeeper",
    "TransactionListing",
    "TransactionPending",
    "TransactionRefused",
    "UnsupportedApi",
    "VisibleRecords",
    "WrongUse",
    "finish_transaction",
    "offsets_after",
    "open_connection",
]
