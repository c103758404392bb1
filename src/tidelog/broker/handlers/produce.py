"""Produce, versions 3 to 13.

Behaviour: each partition's batch is validated and appended by itself; a partition that fails keeps its own error while the others go on.
acks=0 is never answered (an error closes the connection, so that the client looks for the leader again), acks=1 is answered once the log
holds the batch as durably as its flush settings ask, acks=all once the high watermark has passed it, or with REQUEST_TIMED_OUT while the
data stays in the log. Too few in-sync replicas are NOT_ENOUGH_REPLICAS before the append, NOT_ENOUGH_REPLICAS_AFTER_APPEND after it. The
wait ends at once when leadership is lost, since nobody can promise any more that the records stay; a new epoch of the same leader does not
end it. Further batches of the connection are appended meanwhile, so that several go to the followers together.

v3: record batches of magic 2, transactional id (KIP-98).  v4: storage errors.  v5: log start offset.  v6: throttling moves to the client
(KIP-219).  v7: zstd (KIP-110).  v8: record errors and messages (KIP-467).  v9: flexible.  v10: the current leader in tagged fields
(KIP-951).  v11, v12: transactions (KIP-890).  v13: topic ids (KIP-516).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

from tidelog.broker.handlers.hosting import elsewhere
from tidelog.broker.handlers.leader_hints import STALE_LEADER, LeaderHints
from tidelog.broker.node import Node
from tidelog.model import NO_OFFSET, Acks, ApiError, ErrorCode, Offset, TopicPartition
from tidelog.partition import Partition
from tidelog.records import Validated, is_small
from tidelog.records.validation import InvalidRecords
from tidelog.server import ConnectionRefused, RequestContext, Settling
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

API = ApiKey.PRODUCE
_HINTS_FROM: Final = 10
_ACKS: Final = {acks.value: acks for acks in Acks}

# What is appended in one go takes some 10 ms.
_BYTES_AT_ONCE: Final = 8 << 20
_PARTITIONS_AT_ONCE: Final = 500
_BYTES_BETWEEN_LOOKS: Final = 1 << 18
_PARTITIONS_BETWEEN_LOOKS: Final = 100


@dataclass(slots=True)
class _Outcome:
    """What became of one partition of the request so far."""

    response: PartitionProduceResponse
    partition: Partition | None = None  # Set where a batch was appended that has yet to settle.
    reign: int = 0
    next_offset: Offset = NO_OFFSET

    def is_settled(self, acks: Acks) -> bool:
        """Whether this partition keeps nobody waiting; a lost leadership ends the wait as well (R22)."""
        if self.partition is None:
            return True
        try:
            self.partition.check_reign(self.reign)
            return self.partition.is_settled(self.next_offset, acks)
        except ApiError as error:
            self.fail(error.code)
            return True

    def fail(self, code: ErrorCode) -> None:
        """Put an error in the place of the success that was not to be."""
        self.response = _failure(self.response.index, ApiError(code))
        self.partition = None


_Outcomes: TypeAlias = list[tuple[TopicProduceData, list[_Outcome]]]


def handle(
    node: Node, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Settling[ProduceResponse] | Awaitable[ProduceResponse | None] | None:
    """Append everything, then answer at once or when the slowest partition has settled."""
    acks = _ACKS.get(request.acks)
    if _is_long_work(node, context, request):
        return _append_in_slices(node, context, request, acks)
    outcomes = [(topic, _append_topic(node, context, topic, acks)) for topic in request.topic_data]
    return _Answer(node, context, request, outcomes).when_settled(acks)


def _is_long_work(node: Node, context: RequestContext, request: ProduceRequest) -> bool:
    """Whether the loop would be held for too long if everything were appended in one go."""
    byte_count = partition_count = 0
    for topic in request.topic_data:
        partition_count += len(topic.partition_data)
        for data in topic.partition_data:
            byte_count += len(data.records or b"")
            if not is_small(data.records or b"") and _is_laborious(node, context, topic, data):
                return True
    return byte_count > _BYTES_AT_ONCE or partition_count > _PARTITIONS_AT_ONCE


def _is_laborious(node: Node, context: RequestContext, topic: TopicProduceData, data: PartitionProduceData) -> bool:
    try:
        name = node.metadata.topic_name(topic.name, topic.topic_id)
    except ApiError:
        return False
    partition = TopicPartition(name, data.index)
    return node.replicas.validation.is_long_work(partition, data.records or b"", produce_version=context.version)


async def _append_in_slices(
    node: Node, context: RequestContext, request: ProduceRequest, acks: Acks | None
) -> ProduceResponse | None:
    """The same partition by partition, with a look at the world in between, and laborious batches validated in a thread."""
    outcomes: _Outcomes = []
    for topic in request.topic_data:
        done: list[_Outcome] = []
        outcomes.append((topic, done))
        for number, data in enumerate(topic.partition_data):
            one = replace(topic, partition_data=(data,))
            validated: Validated | ApiError | None = None
            if acks is not None and _is_laborious(node, context, topic, data):
                validated = await _validated(node, context, topic, data)
            elif number % _PARTITIONS_BETWEEN_LOOKS == 0 or len(data.records or b"") > _BYTES_BETWEEN_LOOKS:
                await asyncio.sleep(0)
            if isinstance(validated, ApiError):
                done.append(_Outcome(_failure(data.index, validated)))
            else:
                done += _append_topic(node, context, one, acks, validated)
    answer = _Answer(node, context, request, outcomes).when_settled(acks)
    return await answer.answer if isinstance(answer, Settling) else answer


async def _validated(
    node: Node, context: RequestContext, topic: TopicProduceData, data: PartitionProduceData
) -> Validated | ApiError:
    try:
        partition = TopicPartition(node.metadata.topic_name(topic.name, topic.topic_id), data.index)
        return await node.replicas.validation.validate(partition, data.records or b"", produce_version=context.version)
    except ApiError as error:
        return error


def _append_topic(
    node: Node,
    context: RequestContext,
    topic: TopicProduceData,
    acks: Acks | None,
    validated: Validated | None = None,
) -> list[_Outcome]:
    try:
        name = node.metadata.topic_name(topic.name, topic.topic_id)
    except ApiError as error:
        return [_Outcome(_failure(data.index, error)) for data in topic.partition_data]
    return [_append(node, context, name, data, acks, validated) for data in topic.partition_data]


def _append(
    node: Node,
    context: RequestContext,
    topic: str,
    data: PartitionProduceData,
    acks: Acks | None,
    validated: Validated | None,
) -> _Outcome:
    if acks is None:
        return _Outcome(_failure(data.index, ApiError(ErrorCode.INVALID_REQUIRED_ACKS, "acks must be -1, 0 or 1")))
    if not data.records:
        return _Outcome(_failure(data.index, ApiError(ErrorCode.INVALID_RECORD, "a partition without a record batch")))
    try:
        partition, appended = node.replicas.append(
            TopicPartition(topic, data.index),
            data.records,
            acks=acks,
            produce_version=context.version,
            validated=validated,
        )
    except ApiError as error:
        return _Outcome(_failure(data.index, elsewhere(node, TopicPartition(topic, data.index), error)))
    response = PartitionProduceResponse(
        index=data.index,
        error_code=ErrorCode.NONE,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.append_time_ms,
        log_start_offset=partition.log.log_start_offset,
    )
    return _Outcome(response, partition, partition.reign, appended.last_offset + 1)


class _Answer(NamedTuple):
    """What was appended, and how to tell."""

    node: Node
    context: RequestContext
    request: ProduceRequest
    outcomes: _Outcomes

    def when_settled(self, acks: Acks | None) -> ProduceResponse | Settling[ProduceResponse] | None:
        """The response, now or when the slowest partition has settled; silence for acks=0."""
        if acks is None:
            return self._response()
        if acks is Acks.NONE:
            _refuse_failures(self.outcomes)
            return None
        waiting = [outcome for _, topic in self.outcomes for outcome in topic if not outcome.is_settled(acks)]
        return Settling(self._settled(acks, waiting)) if waiting else self._response()

    async def _settled(self, acks: Acks, waiting: list[_Outcome]) -> ProduceResponse:
        """Wait for the partitions that lack acknowledgements, at most as long as the client said."""
        clock, replicas = self.node.runtime.clock, self.node.replicas
        deadline_ms = clock.monotonic_ms() + self.request.timeout_ms
        keys = [outcome.partition.topic_partition for outcome in waiting if outcome.partition is not None]

        def is_settled() -> bool:
            waiting[:] = [outcome for outcome in waiting if not outcome.is_settled(acks)]
            return not waiting

        with replicas.produce_waiters.parked(keys, is_settled) as waiter:
            while not is_settled():
                left_ms = deadline_ms - clock.monotonic_ms()
                if left_ms <= 0:
                    for outcome in waiting:
                        outcome.fail(ErrorCode.REQUEST_TIMED_OUT)
                    break
                await waiter.woken(timeout_s=left_ms / 1000)
        return self._response()

    def _response(self) -> ProduceResponse:
        endpoints = self._hint() if self.context.version >= _HINTS_FROM else ()
        return ProduceResponse(
            responses=tuple(
                [
                    TopicProduceResponse(
                        name=topic.name,
                        topic_id=topic.topic_id,
                        partition_responses=tuple([outcome.response for outcome in partitions]),
                    )
                    for topic, partitions in self.outcomes
                ]
            ),
            node_endpoints=endpoints,
        )

    def _hint(self) -> tuple[NodeEndpoint, ...]:
        """Name the leaders we know beside errors of leadership, and where those are."""
        hints = LeaderHints(self.node, self.context)
        for topic, partitions in self.outcomes:
            for outcome in partitions:
                code = outcome.response.error_code
                if code is ErrorCode.NONE or code not in STALE_LEADER:
                    continue
                leader = hints.of(topic.name, topic.topic_id, outcome.response.index)
                if leader is not None:
                    hint = LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
                    outcome.response = replace(outcome.response, current_leader=hint)
        return tuple(
            NodeEndpoint(node_id=one.broker_id, host=one.host, port=one.port, rack=one.rack)
            for one in hints.endpoints()
        )


def _refuse_failures(outcomes: _Outcomes) -> None:
    """Nobody hears of an error with acks=0, so the connection is closed and the client looks for the leader anew."""
    for topic, partitions in outcomes:
        for outcome in partitions:
            if outcome.response.error_code is not ErrorCode.NONE:
                name = topic.name or topic.topic_id
                raise ConnectionRefused(
                    f"acks=0 to {name}-{outcome.response.index}: {outcome.response.error_code.name}"
                )


def _failure(index: int, error: ApiError) -> PartitionProduceResponse:
    record_errors: tuple[BatchIndexAndErrorMessage, ...] = ()
    if isinstance(error, InvalidRecords):
        record_errors = tuple(
            BatchIndexAndErrorMessage(batch_index=record.batch_index, batch_index_error_message=record.message)
            for record in error.record_errors
        )
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=NO_OFFSET,
        record_errors=record_errors,
        error_message=error.message,
    )
