"""ControlledShutdown: a broker asks the controller to move its leaderships away before it stops. Left Kafka with ZooKeeper in 4.0."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message
from tidelog.wire.schema import Int32, Int64


@message
class RemainingPartition:
    """A partition that the broker still leads, since nobody else can."""

    topic_name: str
    partition_index: Int32


@message
class ControlledShutdownResponse(Response):
    """What is left to move."""

    error_code: ErrorCode
    remaining_partitions: tuple[RemainingPartition, ...] = ()


@message
class ControlledShutdownRequest(Request[ControlledShutdownResponse]):
    """The broker that wants to stop, and the epoch of its registration."""

    broker_id: Int32
    broker_epoch: Int64 = -1


API = Api(
    key=ApiKey.CONTROLLED_SHUTDOWN,
    served=VersionRange(3, 3),
    flexible_from=3,
    request=ControlledShutdownRequest,
    response=ControlledShutdownResponse,
    changes={3: "flexible (KIP-482)"},
    is_broker_only=True,
    declares_itself=True,
)
