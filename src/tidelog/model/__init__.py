"""The words every room uses. No behaviour; imports nothing of ours."""

from tidelog.model.errors import ApiError, ErrorCode
from tidelog.model.invariant import InvariantBroken, invariant
from tidelog.model.words import (
    NO_LEADER_EPOCH,
    NO_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Acks,
    BrokerEndpoint,
    BrokerId,
    IsolationLevel,
    LeaderEpoch,
    Offset,
    ProducerEpoch,
    ProducerId,
    TimestampMs,
    TimestampType,
    TopicId,
    TopicPartition,
)

__all__ = [
    "NO_LEADER_EPOCH",
    "NO_OFFSET",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "Acks",
    "ApiError",
    "BrokerEndpoint",
    "BrokerId",
    "ErrorCode",
    "InvariantBroken",
    "IsolationLevel",
    "LeaderEpoch",
    "Offset",
    "ProducerEpoch",
    "ProducerId",
    "TimestampMs",
    "TimestampType",
    "TopicId",
    "TopicPartition",
    "invariant",
]
