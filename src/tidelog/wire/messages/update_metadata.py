"""UpdateMetadata: the controller tells a broker what to tell clients. Left Kafka with ZooKeeper in 4.0."""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message
from tidelog.wire.schema import Int8, Int16, Int32, Int64, Tagged

INCREMENTAL: Final = 1
"""The request lists the partitions that changed."""

FULL: Final = 2
"""The request lists every partition of the cluster; there are no others."""

LEADER_DURING_DELETE: Final = -2
"""The leader of a partition whose topic is being deleted, or is gone: to be forgotten."""


@message
class UpdateMetadataResponse(Response):
    """Whether the broker took it."""

    error_code: ErrorCode


@message
class UpdateMetadataPartitionState:
    """The state of one partition. A leader of -1 is none, one of -2 a topic that goes or is gone."""

    partition_index: Int32
    controller_epoch: Int32
    leader: Int32
    leader_epoch: Int32
    isr: tuple[Int32, ...]
    zk_version: Int32  # Kafka's old name of the partition epoch
    replicas: tuple[Int32, ...]
    offline_replicas: tuple[Int32, ...] = ()


@message
class UpdateMetadataTopicState:
    """The partitions of one topic."""

    topic_name: str
    topic_id: UUID | None
    partition_states: tuple[UpdateMetadataPartitionState, ...]


@message
class UpdateMetadataEndpoint:
    """One listener of a broker; security protocol 0 is plaintext."""

    port: Int32
    host: str
    listener: str
    security_protocol: Int16


@message
class UpdateMetadataBroker:
    """A broker that lives, and where it is reached."""

    id: Int32
    endpoints: tuple[UpdateMetadataEndpoint, ...]
    rack: str | None = None


@message
class UpdateMetadataRequest(Request[UpdateMetadataResponse]):
    """Partitions that changed, or all of them; always all live brokers."""

    controller_id: Int32
    is_kraft_controller: bool = False
    type: Annotated[Int8, Tagged(0)] = 0
    controller_epoch: Int32
    broker_epoch: Int64 = -1
    topic_states: tuple[UpdateMetadataTopicState, ...]
    live_brokers: tuple[UpdateMetadataBroker, ...]


API = Api(
    key=ApiKey.UPDATE_METADATA,
    served=VersionRange(8, 8),
    flexible_from=6,
    request=UpdateMetadataRequest,
    response=UpdateMetadataResponse,
    changes={8: "whether the controller is one of KRaft, and whether the request is complete (KIP-866)"},
    is_broker_only=True,
    declares_itself=True,
)
