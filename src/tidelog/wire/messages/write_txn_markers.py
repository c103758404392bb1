"""WriteTxnMarkers: the coordinator's decision about a transaction, for the leaders of its partitions."""

from __future__ import annotations

from tidelog.model import ErrorCode
from tidelog.wire.definition import Api, ApiKey, Request, Response, VersionRange, message


@message
class WritableTxnMarkerPartitionResult:
    """Whether the marker is in the log of one partition, on all replicas that are in sync."""

    partition_index: int
    error_code: ErrorCode


@message
class WritableTxnMarkerTopicResult:
    """The partitions of one topic."""

    name: str
    partitions: tuple[WritableTxnMarkerPartitionResult, ...]


@message
class WritableTxnMarkerResult:
    """What became of the markers of one producer."""

    producer_id: int
    topics: tuple[WritableTxnMarkerTopicResult, ...]


@message
class WriteTxnMarkersResponse(Response):
    """One result per producer and partition."""

    markers: tuple[WritableTxnMarkerResult, ...]


@message
class WritableTxnMarkerTopic:
    """Partitions of one topic."""

    name: str
    partition_indexes: tuple[int, ...]


@message
class WritableTxnMarker:
    """One decision: commit if `transaction_result`. From transaction version 2 on the epoch must be a new one (KIP-1228)."""

    producer_id: int
    producer_epoch: int
    transaction_result: bool
    topics: tuple[WritableTxnMarkerTopic, ...]
    coordinator_epoch: int
    transaction_version: int = 0


@message
class WriteTxnMarkersRequest(Request[WriteTxnMarkersResponse]):
    """Decisions, for partitions that the broker asked leads."""

    markers: tuple[WritableTxnMarker, ...]


API = Api(
    key=ApiKey.WRITE_TXN_MARKERS,
    served=VersionRange(1, 2),
    flexible_from=1,
    request=WriteTxnMarkersRequest,
    response=WriteTxnMarkersResponse,
    changes={1: "flexible (KIP-482)", 2: "the transaction version (KIP-1228)"},
)
