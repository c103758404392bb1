"""StopReplica: the controller tells a broker to let go of replicas, and maybe to delete them. Left Kafka with ZooKeeper in 4.0."""

from __future__ import annotations

from typing import Final

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message
from tidelog.wire.schema import Int32, Int64

EPOCH_DURING_DELETE: Final = -2
"""The leader epoch of a replica whose topic is deleted: newer than any."""

NO_EPOCH: Final = -1
"""The controller does not say; the leader epoch is not checked."""


@message
class StopReplicaPartitionError:
    """What became of one partition."""

    topic_name: str
    partition_index: Int32
    error_code: ErrorCode


@message
class StopReplicaResponse(Response):
    """One result per partition, unless the whole request was refused."""

    error_code: ErrorCode
    partition_errors: tuple[StopReplicaPartitionError, ...] = ()


@message
class StopReplicaPartitionState:
    """One replica to stop."""

    partition_index: Int32
    leader_epoch: Int32 = NO_EPOCH
    delete_partition: bool


@message
class StopReplicaTopicState:
    """The partitions of one topic."""

    topic_name: str
    partition_states: tuple[StopReplicaPartitionState, ...]


@message
class StopReplicaRequest(Request[StopReplicaResponse]):
    """Replicas to stop."""

    controller_id: Int32
    is_kraft_controller: bool = False
    controller_epoch: Int32
    broker_epoch: Int64 = -1
    topic_states: tuple[StopReplicaTopicState, ...]


API = Api(
    key=ApiKey.STOP_REPLICA,
    served=VersionRange(4, 4),
    flexible_from=2,
    request=StopReplicaRequest,
    response=StopReplicaResponse,
    changes={4: "whether the controller is one of KRaft (KIP-866)"},
    is_broker_only=True,
    declares_itself=True,
)
