"""DescribeProducers, version 0 (KIP-664).

Behaviour: the idempotent and transactional producers that the log of each partition remembers, with the start of an open transaction;
that is how an operator finds a transaction that hangs. Served by the leader. A partition that is named twice is told of once.

One answer has no more than some ten thousand producers, since there is no way to ask for the rest: those with an open transaction first, and
of the others as many as there is room for. INVALID_REQUEST for a partition that has more open transactions than fit beside those of the
partitions before it; whoever asks for it alone is told of as many as there may be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass, field
from typing import Final

from tidelog.broker.handlers.hosting import replica_of
from tidelog.broker.node import Node
from tidelog.controller import check_name
from tidelog.model import NO_LEADER_EPOCH, ApiError, ErrorCode, TopicPartition
from tidelog.server import RequestContext
from tidelog.storage import ProducerState as KnownProducer
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

API = ApiKey.DESCRIBE_PRODUCERS

PRODUCERS_MAX: Final = 30_000
"""In one answer, which is encoded in one go: some 10 ms and a megabyte."""
PRODUCERS_AT_ONCE: Final = 10_000
_PARTITIONS_AT_ONCE: Final = 500


def handle(
    node: Node, context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse | Awaitable[DescribeProducersResponse]:
    """Look at every partition by itself; where there is much to see, with a look at the world in between."""
    look = _Look(node, request)
    steps = look.steps()
    if next(steps, None) is None:
        return look.response()
    return _in_slices(look, steps)


async def _in_slices(look: _Look, steps: Iterator[int]) -> DescribeProducersResponse:
    for _ in steps:
        await asyncio.sleep(0)
    return look.response()


@dataclass(slots=True, kw_only=True)
class _Seen:
    """One partition, as far as it was looked at."""

    refusal: ApiError | None = None
    told: list[ProducerState] = field(default_factory=list)
    idle: list[KnownProducer] = field(default_factory=list)  # without an open transaction


class _Look:
    """The partitions of one request."""

    def __init__(self, node: Node, request: DescribeProducersRequest) -> None:
        self._node = node
        self._room = PRODUCERS_MAX
        self._seen: dict[TopicPartition, _Seen] = {}
        self._names: dict[str, dict[int, None]] = {}
        for topic in request.topics:
            self._names.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))

    def steps(self) -> Iterator[int]:
        """Look around; between two steps others may be served. Every number says how many partitions were seen."""
        since = 0
        for name, indexes in self._names.items():
            for index in indexes:
                key = TopicPartition(name, index)
                self._seen[key] = seen = _Seen()
                try:
                    known = self._producers(key)
                except ApiError as error:
                    seen.refusal = error
                    known = []
                for first in range(0, len(known), PRODUCERS_AT_ONCE):
                    self._note(seen, known[first : first + PRODUCERS_AT_ONCE])
                    since += min(PRODUCERS_AT_ONCE, len(known) - first)
                    if since >= PRODUCERS_AT_ONCE:
                        yield len(self._seen)
                        since = 0
                if len(self._seen) % _PARTITIONS_AT_ONCE == 0:
                    yield len(self._seen)
        yield from self._fill()

    def response(self) -> DescribeProducersResponse:
        """What was seen."""
        return DescribeProducersResponse(
            topics=tuple(
                TopicResponse(
                    name=name,
                    partitions=tuple([_told(index, self._seen[TopicPartition(name, index)]) for index in indexes]),
                )
                for name, indexes in self._names.items()
            )
        )

    def _producers(self, key: TopicPartition) -> list[KnownProducer]:
        check_name(key.topic)
        replica = replica_of(self._node, key)
        replica.check_leader_epoch(NO_LEADER_EPOCH)
        return replica.log.active_producers()

    def _note(self, seen: _Seen, some: list[KnownProducer]) -> None:
        """Tell of those with an open transaction, while there is room."""
        for producer in some:
            if not producer.has_open_transaction:
                seen.idle.append(producer)
            elif self._room > 0:
                seen.told.append(_row(producer))
                self._room -= 1
            elif len(seen.told) < PRODUCERS_MAX:  # Others have taken the room.
                seen.refusal = ApiError(ErrorCode.INVALID_REQUEST, "too many producers for one answer: ask for less")

    def _fill(self) -> Iterator[int]:
        """Tell of the others, while there is room."""
        for seen in self._seen.values():
            for first in range(0, len(seen.idle), PRODUCERS_AT_ONCE):
                if self._room == 0:
                    return
                some = seen.idle[first : first + min(self._room, PRODUCERS_AT_ONCE)]
                seen.told += map(_row, some)
                self._room -= len(some)
                if len(some) == PRODUCERS_AT_ONCE:
                    yield len(self._seen)


def _told(index: int, seen: _Seen) -> PartitionResponse:
    error = seen.refusal
    if error is not None:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)
    return PartitionResponse(partition_index=index, error_code=ErrorCode.NONE, active_producers=tuple(seen.told))


def _row(producer: KnownProducer) -> ProducerState:
    return ProducerState(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_timestamp_ms,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.transaction_first_offset,
    )
