"""Produce, versions 3 to 13.

Behaviour: each partition's batch is validated and appended by itself; a partition that fails keeps its own error while the others go on.
acks=0 is never answered (an error closes the connection, so that the client looks for the leader again), acks=1 is answered once the log
holds the batch as durably as its flush settings ask, acks=all once the high watermark has passed it, or with REQUEST_TIMED_OUT while the
data stays in the log (NOT_LEADER_OR_FOLLOWER where the registry does not confirm then that we lead). Too few in-sync replicas are
NOT_ENOUGH_REPLICAS before the append, NOT_ENOUGH_REPLICAS_AFTER_APPEND after it. The wait ends at once when leadership is lost, since
nobody can promise any more that the records stay; a new epoch of the same leader does not end it. Further batches of the connection are
appended meanwhile, so that several go to the followers together.

Batches of transactions need a transactional id. Before the first of a transaction in a partition its coordinator is asked whether the
partition is part of it (up to v11), or is told that it is from now on (v12, where producers no longer do that): see `produce_permits`.

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
from tidelog.broker.handlers.produce_permits import Permits, is_transactional, permission_of, permits_of
from tidelog.broker.handlers.settlement import Settlement, until_settled
from tidelog.broker.internal_topics import INTERNAL_TOPICS
from tidelog.broker.node import Node
from tidelog.model import NO_OFFSET, Acks, ApiError, ErrorCode, TopicPartition
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


@dataclass(slots=True, kw_only=True)
class _Outcome(Settlement):
    """What became of one partition of the request so far."""

    response: PartitionProduceResponse

    def note_failure(self, code: ErrorCode) -> None:
        """As an answer says it."""
        self.response = _failure(self.response.index, ApiError(code))


_Outcomes: TypeAlias = list[tuple[TopicProduceData, list[_Outcome]]]
_Answered: TypeAlias = "ProduceResponse | Settling[ProduceResponse] | None"


def handle(node: Node, context: RequestContext, request: ProduceRequest) -> _Answered | Awaitable[_Answered]:
    """Append everything, then answer at once or when the slowest partition has settled."""
    appending = _Appending(node, context, request, _ACKS.get(request.acks))
    if request.transactional_id is not None and appending.acks is not None:
        permits = permits_of(node, context, request)
        if permits.must_ask:
            return _append_permitted(appending, permits)
        appending = appending._replace(permits=permits)
    return appending.perform()


async def _append_permitted(appending: _Appending, permits: Permits) -> _Answered:
    """Have it seen to that the transaction is open, then append. Requests behind this one wait so long: no batch overtakes another."""
    with permits.in_use():
        permits.begin()
        await permits.ask()
        answer = appending._replace(permits=permits).perform()
        return await answer if isinstance(answer, Awaitable) else answer


class _Appending(NamedTuple):
    """A request while its batches are appended."""

    node: Node
    context: RequestContext
    request: ProduceRequest
    acks: Acks | None
    permits: Permits | None = None  # Of a request with a transactional id.

    def perform(self) -> _Answered | Awaitable[_Answered]:
        """Everything in one go, unless that would hold the loop for too long."""
        if self._is_long_work():
            return self._append_in_slices()
        return self._answer([(topic, self._append_topic(topic)) for topic in self.request.topic_data])

    def _is_long_work(self) -> bool:
        byte_count = partition_count = 0
        for topic in self.request.topic_data:
            partition_count += len(topic.partition_data)
            for data in topic.partition_data:
                byte_count += len(data.records or b"")
                if not is_small(data.records or b"") and self._is_laborious(topic, data):
                    return True
        return byte_count > _BYTES_AT_ONCE or partition_count > _PARTITIONS_AT_ONCE

    def _is_laborious(self, topic: TopicProduceData, data: PartitionProduceData) -> bool:
        node = self.node
        try:
            name = node.metadata.topic_name(topic.name, topic.topic_id)
        except ApiError:
            return False
        partition, version = TopicPartition(name, data.index), self.context.version
        return node.replicas.validation.is_long_work(partition, data.records or b"", produce_version=version)

    async def _append_in_slices(self) -> _Answered:
        """Partition by partition, with a look at the world in between, and laborious batches validated in a thread."""
        outcomes: _Outcomes = []
        for topic in self.request.topic_data:
            done: list[_Outcome] = []
            outcomes.append((topic, done))
            for number, data in enumerate(topic.partition_data):
                one = replace(topic, partition_data=(data,))
                validated: Validated | ApiError | None = None
                if self.acks is not None and self._is_laborious(topic, data):
                    validated = await self._validated(topic, data)
                elif number % _PARTITIONS_BETWEEN_LOOKS == 0 or len(data.records or b"") > _BYTES_BETWEEN_LOOKS:
                    await asyncio.sleep(0)
                if isinstance(validated, ApiError):
                    done.append(_failed(data.index, validated))
                else:
                    done += self._append_topic(one, validated)
        return self._answer(outcomes)

    async def _validated(self, topic: TopicProduceData, data: PartitionProduceData) -> Validated | ApiError:
        node, version = self.node, self.context.version
        try:
            partition = TopicPartition(node.metadata.topic_name(topic.name, topic.topic_id), data.index)
            return await node.replicas.validation.validate(partition, data.records or b"", produce_version=version)
        except ApiError as error:
            return error

    def _append_topic(self, topic: TopicProduceData, validated: Validated | None = None) -> list[_Outcome]:
        try:
            name = self.node.metadata.topic_name(topic.name, topic.topic_id)
        except ApiError as error:
            return [_failed(data.index, error) for data in topic.partition_data]
        return [self._append(name, data, validated) for data in topic.partition_data]

    def _append(self, topic: str, data: PartitionProduceData, validated: Validated | None) -> _Outcome:
        key = TopicPartition(topic, data.index)
        acks, records, permits = self.acks, data.records, self.permits
        traffic = self.node.replicas.traffic.of(topic)
        traffic.produce_requests += 1
        try:
            if acks is None:
                raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS, "acks must be -1, 0 or 1")
            if topic in INTERNAL_TOPICS:
                raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic}")
            if not records:
                raise ApiError(ErrorCode.INVALID_RECORD, "a partition without a record batch")
            guard = None
            if is_transactional(records):
                guard = permission_of(permits, key)
            partition, appended = self.node.replicas.append(
                key,
                records,
                acks=acks,
                produce_version=self.context.version,
                validated=validated,
                guard=guard,
            )
        except ApiError as error:
            traffic.failed_produce_requests += 1
            return _failed(data.index, elsewhere(self.node, key, error))
        response = PartitionProduceResponse(
            index=data.index,
            error_code=ErrorCode.NONE,
            base_offset=appended.base_offset,
            log_append_time_ms=appended.append_time_ms,
            log_start_offset=partition.log.log_start_offset,
        )
        return _Outcome(
            response=response, partition=partition, reign=partition.reign, next_offset=appended.last_offset + 1
        )

    def _answer(self, outcomes: _Outcomes) -> _Answered:
        return _Answer(self.node, self.context, self.request, outcomes).when_settled(self.acks)


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
        await until_settled(self.node, waiting, acks, timeout_ms=self.request.timeout_ms)
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


def _failed(index: int, error: ApiError) -> _Outcome:
    return _Outcome(response=_failure(index, error))


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
