"""What brokers ask the machine that no client asks in these words."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.coordinator.transaction.states import TransactionVersion
from tidelog.model import ErrorCode, ProducerIdentity, TimestampMs, TopicPartition
from tidelog.wire.definition import Request, Response, message


@message
class JoinResponse(Response):
    """One code per partition asked for."""

    codes: Mapping[TopicPartition, ErrorCode]


@message
class JoinRequest(Request[JoinResponse]):
    """Partitions that are to be part of a transaction; or, where `is_verification`, of which somebody wants to know whether they are.

    Whatever the API and its version: AddPartitionsToTxn, AddOffsetsToTxn, and in version 2 what leaders ask on behalf of a Produce.
    """

    transactional_id: str
    producer: ProducerIdentity
    partitions: tuple[TopicPartition, ...]
    is_verification: bool = False
    client_version: TransactionVersion = TransactionVersion.ZERO


@message
class MarkersWrittenResponse(Response):
    """Whether the machine has noted it; NONE also where there was nothing to note any more."""

    code: ErrorCode


@message
class MarkersWrittenRequest(Request[MarkersWrittenResponse]):
    """All partitions of a transaction that was decided know its outcome, or never will. Made by `SendMarkers.written`."""

    transactional_id: str
    producer: ProducerIdentity
    decided_ms: TimestampMs
    refused: tuple[TopicPartition, ...] = ()
    """Those that have met a later epoch of the producer than this coordinator knows of."""
