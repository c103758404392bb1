"""The words of those who send markers: what is left of an errand, what is sent at a time, and what an answer means."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidelog.coordinator.transaction.errands import SendMarkers
from tidelog.coordinator.transaction.states import TransactionVersion
from tidelog.model import ErrorCode, LeaderEpoch, TopicPartition
from tidelog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


@dataclass(eq=False, slots=True)
class PendingErrand:
    """A transaction that was decided, and the partitions that have not been told yet."""

    index: int  # of the partition of `__transaction_state` that holds the decision
    what: SendMarkers
    left: dict[TopicPartition, None] = field(default_factory=dict)
    refused: dict[TopicPartition, None] = field(default_factory=dict)  # They have met a later epoch of the producer.
    missing_since_ms: dict[TopicPartition, float] = field(default_factory=dict)
    failures: dict[TopicPartition, int] = field(default_factory=dict)  # in a row
    is_reported: bool = False  # Nothing is left, and the machine is being told.

    def __post_init__(self) -> None:
        self.left = dict.fromkeys(self.what.partitions)


class Telling(NamedTuple):
    """A partition that is to be told the outcome of one errand."""

    errand: PendingErrand
    topic_partition: TopicPartition


class Verdict(enum.Enum):
    """What becomes of a partition after an answer of its leader."""

    TOLD = enum.auto()
    AGAIN = enum.auto()
    DROPPED = enum.auto()  # Its leader never can.
    REFUSED = enum.auto()  # It has met a later epoch of the producer, and the machine hears of that.


_VERDICTS: Final = {
    ErrorCode.NONE: Verdict.TOLD,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: Verdict.DROPPED,
    ErrorCode.UNSUPPORTED_VERSION: Verdict.DROPPED,
    ErrorCode.INVALID_PRODUCER_EPOCH: Verdict.REFUSED,
}


def verdict_of(code: ErrorCode) -> Verdict:
    """Whatever is not known to be final is tried again: what was decided must come true.

    So is what a newer coordinator stands against: if there is one, we will be told, and the errand is forgotten. But it may be gone by then,
    and we lead on under a later epoch, never having heard of it; then nobody else would end the transaction.

    Nor does a partition that has met a later epoch of the producer end the errand. A newer coordinator may have given it out: then nothing
    we do is committed any more, and all that is told is what was decided. But after a power cut that took more of the transaction log than
    of the partition there is nobody newer, and the other partitions would wait for ever.
    """
    return _VERDICTS.get(code, Verdict.AGAIN)


def request_of(tellings: Iterable[Telling], epochs: dict[int, LeaderEpoch]) -> WriteTxnMarkersRequest:
    """One marker per errand, under the epochs by which the partitions of `__transaction_state` are led now."""
    topics: dict[PendingErrand, dict[str, list[int]]] = {}
    for errand, (topic, index) in tellings:
        topics.setdefault(errand, {}).setdefault(topic, []).append(index)
    return WriteTxnMarkersRequest(
        markers=tuple(
            WritableTxnMarker(
                producer_id=errand.what.producer.producer_id,
                producer_epoch=errand.what.producer.producer_epoch,
                transaction_result=errand.what.is_committed,
                topics=tuple(
                    WritableTxnMarkerTopic(name=name, partition_indexes=tuple(indexes))
                    for name, indexes in by_name.items()
                ),
                coordinator_epoch=epochs[errand.index],
                transaction_version=TransactionVersion.TWO if errand.what.has_own_epoch else TransactionVersion.ZERO,
            )
            for errand, by_name in topics.items()
        )
    )


def codes_of(
    tellings: Iterable[Telling], response: WriteTxnMarkersResponse
) -> Iterator[tuple[Telling, ErrorCode | None]]:
    """What was said of each; None where nothing was. A producer has one transaction, so its id finds the answer."""
    said = {
        (marker.producer_id, TopicPartition(topic.name, row.partition_index)): row.error_code
        for marker in response.markers
        for topic in marker.topics
        for row in topic.partitions
    }
    for telling in tellings:
        yield telling, said.get((telling.errand.what.producer.producer_id, telling.topic_partition))
