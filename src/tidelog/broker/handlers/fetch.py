"""Fetch, versions 4 to 18.

Behaviour: partitions are served in the order asked for, each up to its own limit, all together up to the response's; the first that has
data gives at least one whole batch, however large (KIP-74). Too little data parks the request until enough is committed or the wait is
over. Incremental sessions (KIP-227) leave out partitions with nothing new. Followers are served on the inter-broker listener only, since
they read what is not committed yet (see `follower_fetch`). A consumer that tells its rack may be sent to a nearer replica, and is served by
a follower as far as that knows records to be committed (KIP-392). Who is not the leader says who is (KIP-951).

v4: isolation level, aborted transactions (KIP-98).  v5: log start offset.  v7: sessions (KIP-227).  v9: current leader epoch (KIP-320).
v10: zstd.  v11: rack, preferred replica (KIP-392).  v12: flexible, last fetched epoch and divergence (KIP-595).  v13: topic ids (KIP-516).
v15: replica state (KIP-903).  v16: leader endpoints (KIP-951).  v17: directory ids (KIP-853).  v18: high watermark of the fetcher (KIP-1166).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from typing import Final

from tidelog.broker.fetch_sessions import FetchPartition, FetchSession, PartitionNews
from tidelog.broker.handlers import follower_fetch
from tidelog.broker.handlers.fetch_answers import PartitionAnswer, failed, refused, response
from tidelog.broker.handlers.hosting import replica_of
from tidelog.broker.handlers.isolation import isolation_level
from tidelog.broker.handlers.leader_hints import STALE_LEADER, LeaderHints
from tidelog.broker.node import Node
from tidelog.broker.session_terms import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, PartitionKey
from tidelog.controller import NO_BROKER
from tidelog.model import ApiError, BrokerId, ErrorCode, TopicPartition
from tidelog.partition import Partition
from tidelog.runtime import StorageFailure
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages import fetch as messages
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse

API = ApiKey.FETCH

# What one request may occupy the loop with; a client that asked for more comes again.
_PARTITION_BYTES_MAX: Final = 1 << 20
_RESPONSE_BYTES_MAX: Final = 8 << 20
_WAIT_MS_MAX: Final = 300_000
_PARTITIONS_AT_ONCE: Final = 500
_CROWD: Final = 200
_FOLLOWERS_SERVE_FROM: Final = 11
_HINTS_FROM: Final = 12
_LOOK_S: Final = 20e-6  # What counting what is there costs one fetch.


@dataclass(slots=True)
class _Served:
    """One partition's part of the answer."""

    partition: FetchPartition
    data: messages.PartitionData
    doubted: Partition | None = None  # the leader, if its log is too short for the offset

    @property
    def byte_count(self) -> int:
        """Bytes of records in it."""
        return len(self.data.records or b"")

    @property
    def has_error(self) -> bool:
        """Whether it must go out at once: an error, or another place to read from."""
        return self.data.error_code is not ErrorCode.NONE or self.data.preferred_read_replica != NO_BROKER

    def news(self) -> PartitionNews:
        """What a session wants to know of it."""
        return PartitionNews(
            self.partition, self.byte_count > 0, self.has_error, self.data.high_watermark, self.data.log_start_offset
        )


def handle(node: Node, context: RequestContext, request: FetchRequest) -> FetchResponse | Awaitable[FetchResponse]:
    """Answer at once if there is enough to say, else when there is."""
    if request.follower_id >= 0:
        if not node.is_inter_broker(context.listener):
            return refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return follower_fetch.handle(node, request)
    try:
        fetch = _Fetch(node, context, request)
    except ApiError as error:
        return refused(error.code)
    if fetch.is_wide:
        return fetch.serve_in_slices()
    served = fetch.read()
    if any(item.doubted is not None for item in served):
        return fetch.answer_with_care(served)
    if fetch.is_enough(served):
        return fetch.answer(served)
    return fetch.wait()


class _Fetch:
    """One fetch: the partitions it covers and how to read and answer them."""

    def __init__(self, node: Node, context: RequestContext, request: FetchRequest) -> None:
        self._node = node
        self._request = request
        self._isolation = isolation_level(request.isolation_level)
        self._context = context
        self._uses_topic_ids = context.version >= 13
        self._may_follow = context.version >= _FOLLOWERS_SERVE_FROM
        self._hints = LeaderHints(node, context)
        self._deadline_ms = node.runtime.clock.monotonic_ms() + min(request.max_wait_ms, _WAIT_MS_MAX)
        # Nobody is made to wait for more than one answer can carry.
        self._max_bytes = min(request.max_bytes, node.config.fetch_max_bytes, _RESPONSE_BYTES_MAX)
        self._min_bytes = min(request.min_bytes, self._max_bytes, _PARTITION_BYTES_MAX)
        self._is_full = request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH)
        self._session: FetchSession | None = None
        self._partitions = self._wanted()

    def _wanted(self) -> list[FetchPartition]:
        """The partitions to serve; continues or drops the session the request names. Raises ApiError."""
        sessions = self._node.fetch_sessions
        asked = list(self._asked())
        if self._is_full:
            if self._request.session_id != NO_SESSION:
                sessions.close(self._request.session_id)
            return list({partition.key: partition for partition in asked}.values())
        self._session = sessions.resume(
            self._request.session_id,
            self._request.session_epoch,
            uses_topic_ids=self._uses_topic_ids,
            now_ms=self._node.runtime.clock.monotonic_ms(),
        )
        self._session.merge(asked, self._forgotten())
        sessions.check_room(self._session)
        return list(self._session.partitions.values())

    def _asked(self) -> Iterator[FetchPartition]:
        for topic in self._request.topics:
            for partition in topic.partitions:
                yield FetchPartition(
                    key=PartitionKey(topic.topic, topic.topic_id, partition.partition),
                    fetch_offset=partition.fetch_offset,
                    max_bytes=partition.partition_max_bytes,
                    current_leader_epoch=partition.current_leader_epoch,
                    last_fetched_epoch=partition.last_fetched_epoch,
                    log_start_offset=partition.log_start_offset,
                )

    def _forgotten(self) -> Iterator[PartitionKey]:
        for topic in self._request.forgotten_topics_data:
            for index in topic.partitions:
                yield PartitionKey(topic.topic, topic.topic_id, index)

    @property
    def is_wide(self) -> bool:
        """Whether reading all partitions would hold the loop for too long."""
        return len(self._partitions) > _PARTITIONS_AT_ONCE

    def read(self) -> list[_Served]:
        """Read every partition under the limits, in order."""
        return list(self._read_each())

    async def _read_in_slices(self) -> list[_Served]:
        served: list[_Served] = []
        for item in self._read_each():
            served.append(item)
            if len(served) % _PARTITIONS_AT_ONCE == 0:
                await asyncio.sleep(0)
        return served

    def _read_each(self) -> Iterator[_Served]:
        budget = self._max_bytes
        has_data = False
        for partition in self._partitions:
            item = self._read_one(partition, budget, at_least_one=not has_data)
            budget = max(0, budget - item.byte_count)
            has_data = has_data or item.byte_count > 0
            yield item

    def _read_one(self, partition: FetchPartition, budget: int, *, at_least_one: bool) -> _Served:
        index = partition.key.index
        try:
            replica = self._replica(partition)
            if self._request.rack_id:
                elsewhere = self._preferred(replica, partition)
                if elsewhere is not None:
                    return _Served(partition, _sent_elsewhere(index, replica, elsewhere))
            read = replica.read(
                partition.fetch_offset,
                max_bytes=max(0, min(partition.max_bytes, budget, _PARTITION_BYTES_MAX)),
                isolation=self._isolation,
                current_leader_epoch=partition.current_leader_epoch,
                at_least_one=at_least_one,
                may_follow=self._may_follow,
            )
        except ApiError as error:
            doubted = self._doubted(partition) if error.code is ErrorCode.OFFSET_OUT_OF_RANGE else None
            return _Served(partition, self._failed(partition, error.code), doubted)
        except StorageFailure as failure:
            code = self._node.replicas.storage_error(self._topic_partition(partition), failure).code
            return _Served(partition, failed(index, code))
        aborted = read.aborted_transactions
        return _Served(
            partition,
            messages.PartitionData(
                partition_index=index,
                error_code=ErrorCode.NONE,
                high_watermark=read.high_watermark,
                last_stable_offset=read.last_stable_offset,
                log_start_offset=read.log_start_offset,
                aborted_transactions=None
                if aborted is None
                else tuple(
                    messages.AbortedTransaction(producer_id=txn.producer_id, first_offset=txn.first_offset)
                    for txn in aborted
                ),
                records=read.records,
            ),
        )

    def _preferred(self, replica: Partition, partition: FetchPartition) -> BrokerId | None:
        """Who nearer to this consumer should serve it; checked before the epoch is, so a wrong one keeps its error."""
        replica.check_leader_epoch(partition.current_leader_epoch, may_follow=self._may_follow)
        return self._node.selector.preferred(replica, partition.fetch_offset, self._request.rack_id)

    def _doubted(self, partition: FetchPartition) -> Partition | None:
        """The leader, if a longer log than its own would have the offset."""
        replica = self._replica(partition)
        return replica if replica.is_leader and partition.fetch_offset > replica.log.log_end_offset else None

    def _failed(self, partition: FetchPartition, code: ErrorCode) -> messages.PartitionData:
        key = partition.key
        if code not in STALE_LEADER or self._context.version < _HINTS_FROM:
            return failed(key.index, code)
        hint = self._hints.of(key.topic, key.topic_id, key.index)
        if hint is None:
            return failed(key.index, code)
        return failed(key.index, code, messages.LeaderIdAndEpoch(leader_id=hint[0], leader_epoch=hint[1]))

    def is_enough(self, served: list[_Served]) -> bool:
        """Whether the answer must not wait: enough bytes, an error, nothing asked for, or no time left."""
        if not served or self._node.runtime.clock.monotonic_ms() >= self._deadline_ms:
            return True
        byte_count = 0
        for item in served:
            if item.has_error:
                return True
            byte_count += item.byte_count
        return byte_count >= self._min_bytes

    async def serve_in_slices(self) -> FetchResponse:
        """The same for very many partitions, with a look at the world now and then."""
        served = await self._read_in_slices()
        if self.is_enough(served):
            return await self.answer_with_care(served)
        del served
        return await self.wait()

    async def wait(self) -> FetchResponse:
        """Park until the answer is worth sending, holding nothing that was read so far."""
        waiters = self._node.replicas.fetch_waiters
        with waiters.parked(list(self._keys())) as waiter:
            while True:
                if self._is_over() or self._is_worth_reading():
                    served = await self._read_in_slices()
                    if self._is_over() or self.is_enough(served):
                        return await self.answer_with_care(served)
                is_woken = await waiter.woken(timeout_s=self._left_s())
                if is_woken and waiters.count > _CROWD and not self._is_worth_reading():
                    # Each append wakes everybody: thousands who want more than that must not all count again each time.
                    await asyncio.sleep(min(self._left_s(), waiters.count * _LOOK_S))

    def _keys(self) -> Iterator[TopicPartition]:
        for partition in self._partitions:
            try:
                yield self._topic_partition(partition)
            except ApiError:
                continue  # A topic that is gone is an error worth reading, not worth waiting on.

    def _is_over(self) -> bool:
        return self._left_s() <= 0 or self._node.replicas.fetch_waiters.is_dismissed

    def _left_s(self) -> float:
        return max(self._deadline_ms - self._node.runtime.clock.monotonic_ms(), 0) / 1000

    def _is_worth_reading(self) -> bool:
        """Whether enough is there, or an error is. Counted, not read: many small appends must not have the same bytes read again."""
        available = 0
        for partition in self._partitions:
            try:
                replica = self._replica(partition)
                replica.check_leader_epoch(partition.current_leader_epoch, may_follow=self._may_follow)
            except ApiError:
                return True
            available += min(replica.available_bytes(partition.fetch_offset, self._isolation), partition.max_bytes)
            if available >= self._min_bytes:
                return True
        return False

    def _replica(self, partition: FetchPartition) -> Partition:
        return replica_of(self._node, self._topic_partition(partition))

    def _topic_partition(self, partition: FetchPartition) -> TopicPartition:
        key = partition.key
        return TopicPartition(self._node.metadata.topic_name(key.topic, key.topic_id), key.index)

    async def answer_with_care(self, served: list[_Served]) -> FetchResponse:
        """The answer, in which nobody is told that an offset does not exist by a leader that was deposed."""
        for item in served:
            if item.doubted is not None and not await self._node.leaderships.is_certain(item.doubted):
                item.data = self._failed(item.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.answer(served)

    def answer(self, served: list[_Served]) -> FetchResponse:
        """Wrap up, creating or continuing the session."""
        self._count(served)
        session = self._session
        if session is not None:
            news = session.select(item.news() for item in served)
            return self._response(
                session.session_id, [item for item, is_news in zip(served, news, strict=True) if is_news]
            )
        if self._request.session_epoch == INITIAL_EPOCH:
            session = self._node.fetch_sessions.create(
                1 + self._node.runtime.randomness.below(2**31 - 1),
                self._partitions,
                uses_topic_ids=self._uses_topic_ids,
                now_ms=self._node.runtime.clock.monotonic_ms(),
            )
            if session is not None:
                session.select(item.news() for item in served)
        return self._response(NO_SESSION if session is None else session.session_id, served)

    def _count(self, served: list[_Served]) -> None:
        """Note for those who watch what leaves; a topic that has no name any more is nobody's."""
        metadata, traffic_of = self._node.metadata, self._node.replicas.traffic.of
        for item in served:
            key = item.partition.key
            topic = None if key.topic_id is None else metadata.topic_by_id(key.topic_id)
            traffic = traffic_of(key.topic if topic is None else topic.name)
            traffic.fetch_requests += 1
            traffic.bytes_out += item.byte_count
            traffic.failed_fetch_requests += item.data.error_code is not ErrorCode.NONE

    def _response(self, session_id: int, served: list[_Served]) -> FetchResponse:
        endpoints = tuple(
            messages.NodeEndpoint(node_id=one.broker_id, host=one.host, port=one.port, rack=one.rack)
            for one in self._hints.endpoints()
        )
        return response(session_id, [PartitionAnswer(item.partition.key, item.data) for item in served], endpoints)


def _sent_elsewhere(index: int, replica: Partition, broker_id: BrokerId) -> messages.PartitionData:
    return messages.PartitionData(
        partition_index=index,
        error_code=ErrorCode.NONE,
        high_watermark=replica.high_watermark,
        last_stable_offset=replica.last_stable_offset,
        log_start_offset=replica.log.log_start_offset,
        aborted_transactions=None,
        preferred_read_replica=broker_id,
        records=b"",
    )
