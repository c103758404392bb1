"""LeaderAndIsr: the controller tells a broker which of its replicas lead and which follow. Left Kafka with ZooKeeper in 4.0."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message
from tidelog.wire.schema import Int8, Int32, Int64

INCREMENTAL: Final = 1
"""The request lists the partitions that changed."""

FULL: Final = 2
"""The request lists every partition of the broker; it has no business with any other."""


@message
class LeaderAndIsrPartitionError:
    """What became of one partition."""

    partition_index: Int32
    error_code: ErrorCode


@message
class LeaderAndIsrTopicError:
    """The partitions of one topic."""

    topic_id: UUID | None
    partition_errors: tuple[LeaderAndIsrPartitionError, ...]


@message
class LeaderAndIsrResponse(Response):
    """One result per partition, unless the whole request was refused."""

    error_code: ErrorCode
    topics: tuple[LeaderAndIsrTopicError, ...] = ()


@message
class LeaderAndIsrPartitionState:
    """The state of one partition as the controller wrote it. A leader of -1 is none."""

    partition_index: Int32
    controller_epoch: Int32
    leader: Int32
    leader_epoch: Int32
    isr: tuple[Int32, ...]
    partition_epoch: Int32
    replicas: tuple[Int32, ...]
    adding_replicas: tuple[Int32, ...] = ()
    removing_replicas: tuple[Int32, ...] = ()
    is_new: bool = False
    leader_recovery_state: Int8 = 0


@message
class LeaderAndIsrTopicState:
    """The partitions of one topic."""

    topic_name: str
    topic_id: UUID | None
    partition_states: tuple[LeaderAndIsrPartitionState, ...]


@message
class LeaderAndIsrLiveLeader:
    """Where a leader named in the request is reached by other brokers."""

    broker_id: Int32
    host_name: str
    port: Int32


@message
class LeaderAndIsrRequest(Request[LeaderAndIsrResponse]):
    """Partitions and their leaders; `type` says whether they are all that the broker has."""

    controller_id: Int32
    is_kraft_controller: bool = False
    controller_epoch: Int32
    broker_epoch: Int64 = -1
    type: Int8
    topic_states: tuple[LeaderAndIsrTopicState, ...]
    live_leaders: tuple[LeaderAndIsrLiveLeader, ...]


API = Api(
    key=ApiKey.LEADER_AND_ISR,
    served=VersionRange(7, 7),
    flexible_from=4,
    request=LeaderAndIsrRequest,
    response=LeaderAndIsrResponse,
    changes={7: "whether the controller is one of KRaft (KIP-866)"},
    is_broker_only=True,
    declares_itself=True,
)
