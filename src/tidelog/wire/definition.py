"""What an API is: its key, its versions, and the two types that its bytes become."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar, dataclass_transform

T = TypeVar("T")
ResponseT = TypeVar("ResponseT", bound="Response", covariant=True)


class ApiKey(enum.IntEnum):
    """Every request that Kafka has a number for, whether we serve it or not, and at the end those of our own."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    DESCRIBE_REPLICAS = 30_000  # ours, far from any number that Kafka will give out
    COUNT_VISIBLE_RECORDS = 30_001
    INJECT_FAULTS = 30_002

    @property
    def kafka_name(self) -> str:
        """As Kafka's metrics and documentation call it: ListOffsets."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class Response:
    """What a broker answers; one type for all versions of an API."""

    __slots__ = ()


class Request(Generic[ResponseT]):
    """What a client asks; one type for all versions of an API. Its parameter is the type of the answer."""

    __slots__ = ()


@dataclass_transform(frozen_default=True, kw_only_default=True)
def message(message_type: type[T]) -> type[T]:
    """A dataclass of keyword arguments, compared by value, that the type checker treats as frozen.

    Python would enforce that by a slower constructor, which doubles the cost of decoding; nobody who passes mypy notices.
    """
    return dataclass(slots=True, kw_only=True, unsafe_hash=True)(message_type)


def needed(default: T) -> T:
    """A field that may not be dropped: encoding a version that has no place for it fails unless it has its default."""
    return field(default=default, metadata={"needed": True})


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Versions from `low` to `high`, both inclusive."""

    low: int
    high: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.low, self.high + 1))

    def __str__(self) -> str:
        return f"{self.low}" if self.low == self.high else f"{self.low}-{self.high}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One row of the API table."""

    key: ApiKey
    served: VersionRange
    flexible_from: int | None  # the first version with compact types and tagged fields; None if there is none
    request: type[Request[Response]]
    response: type[Response]
    changes: Mapping[int, str]  # what each version added, for people
    advertised_low: int | None = None  # where ApiVersions claims more than is served; see Produce
    is_broker_only: bool = False  # spoken between brokers, on the inter-broker listener alone
    is_private: bool = False  # not of Kafka's protocol: served to those who know of it, advertised to nobody
    declares_itself: bool = False  # its messages say how they are written (see `schema`), since kio has none

    @property
    def name(self) -> str:
        """The API's name as Kafka writes it."""
        return self.request.__name__.removesuffix("Request")

    @property
    def advertised(self) -> VersionRange:
        """The versions that ApiVersions lists."""
        return self.served if self.advertised_low is None else VersionRange(self.advertised_low, self.served.high)

    def is_flexible(self, version: int) -> bool:
        """Whether `version` uses compact types and tagged fields, in its header too."""
        return self.flexible_from is not None and version >= self.flexible_from
