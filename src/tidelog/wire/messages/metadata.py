"""Metadata: the brokers of the cluster, and who leads which partition."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message, needed

AUTHORIZED_OPERATIONS_NOT_ASKED: Final = -(1 << 31)


@message
class MetadataResponseBroker:
    """A live broker as the listener of the request sees it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@message
class MetadataResponsePartition:
    """Who leads a partition and who follows."""

    error_code: ErrorCode
    partition_index: int
    leader_id: int
    leader_epoch: int = -1
    replica_nodes: tuple[int, ...] = ()
    isr_nodes: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()


@message
class MetadataResponseTopic:
    """A topic and its partitions; the name is null where an unknown id was asked for (from version 12)."""

    error_code: ErrorCode
    name: str | None
    topic_id: UUID | None = None
    is_internal: bool = False
    partitions: tuple[MetadataResponsePartition, ...]
    topic_authorized_operations: int = AUTHORIZED_OPERATIONS_NOT_ASKED


@message
class MetadataResponse(Response):
    """What this broker knows of the cluster."""

    throttle_time_ms: int = 0
    brokers: tuple[MetadataResponseBroker, ...]
    cluster_id: str | None = None
    controller_id: int = -1
    topics: tuple[MetadataResponseTopic, ...]
    cluster_authorized_operations: int = AUTHORIZED_OPERATIONS_NOT_ASKED
    error_code: ErrorCode = ErrorCode.NONE


@message
class MetadataRequestTopic:
    """A topic by name, or from version 12 by id."""

    topic_id: UUID | None = None
    name: str | None


@message
class MetadataRequest(Request[MetadataResponse]):
    """Null asks for all topics, empty for none; in version 0, which has no null, empty asks for all."""

    topics: tuple[MetadataRequestTopic, ...] | None
    allow_auto_topic_creation: bool = needed(True)
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False


API = Api(
    key=ApiKey.METADATA,
    served=VersionRange(0, 13),
    flexible_from=9,
    request=MetadataRequest,
    response=MetadataResponse,
    changes={
        1: "null asks for all topics; controller id, rack, internal topics",
        2: "cluster id (KIP-78)",
        3: "throttle time (KIP-124)",
        4: "a request may forbid auto-creation (KIP-204)",
        5: "offline replicas (KIP-112)",
        6: "throttled after the response is sent (KIP-219)",
        7: "leader epoch (KIP-320)",
        8: "authorized operations (KIP-430)",
        9: "flexible (KIP-482)",
        10: "topic ids (KIP-516)",
        11: "no cluster authorized operations (KIP-700)",
        12: "topics may be asked for by id",
        13: "top-level error code: REBOOTSTRAP_REQUIRED (KIP-1102)",
    },
)
