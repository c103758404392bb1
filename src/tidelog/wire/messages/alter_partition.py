"""AlterPartition: a leader asks the controller for other in-sync replicas."""

from __future__ import annotations

from uuid import UUID

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message


@message
class AlteredPartition:
    """What became of one partition; without an error, its state from now on."""

    partition_index: int
    error_code: ErrorCode
    leader_id: int = -1
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    partition_epoch: int = -1


@message
class AlteredTopic:
    """The partitions of one topic."""

    topic_id: UUID | None
    partitions: tuple[AlteredPartition, ...]


@message
class AlterPartitionResponse(Response):
    """One result per partition, unless the whole request was refused."""

    throttle_time_ms: int = 0
    error_code: ErrorCode
    topics: tuple[AlteredTopic, ...] = ()


@message
class BrokerState:
    """A replica that shall be in sync, and the epoch of its registration; -1 leaves it unchecked."""

    broker_id: int
    broker_epoch: int = -1


@message
class PartitionData:
    """The in-sync replicas that a leader wants, and the state it knows. Version 2 names replicas without their epochs."""

    partition_index: int
    leader_epoch: int
    new_isr: tuple[int, ...] = ()  # version 2
    new_isr_with_epochs: tuple[BrokerState, ...] = ()  # from version 3
    leader_recovery_state: int = 0
    partition_epoch: int


@message
class TopicData:
    """The partitions of one topic."""

    topic_id: UUID | None
    partitions: tuple[PartitionData, ...]


@message
class AlterPartitionRequest(Request[AlterPartitionResponse]):
    """Changes that one broker asks for."""

    broker_id: int
    broker_epoch: int = -1
    topics: tuple[TopicData, ...]


API = Api(
    key=ApiKey.ALTER_PARTITION,
    served=VersionRange(2, 3),
    flexible_from=0,
    request=AlterPartitionRequest,
    response=AlterPartitionResponse,
    changes={
        2: "topic ids (KIP-841)",
        3: "replicas with the epochs of their registrations (KIP-903)",
    },
    is_broker_only=True,
)
