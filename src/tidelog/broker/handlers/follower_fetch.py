"""Fetch as followers ask for it, on the inter-broker listener: up to the log end, and every fetch says what its sender holds.

The first look at a partition counts the fetch (remote log end, ISR, high watermark); one that is parked and looks again counts nothing. The
high watermark in an answer is that of before the fetch counted, so what it commits shows in the next answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Iterator
from typing import Final, NamedTuple

from tidelog.broker.follower_sessions import FollowedPartition, FollowerSession
from tidelog.broker.handlers.fetch_answers import PartitionAnswer, failed, refused, response
from tidelog.broker.node import Node
from tidelog.broker.session_terms import FINAL_EPOCH, INITIAL_EPOCH, PartitionKey
from tidelog.model import ApiError, ErrorCode, TopicPartition
from tidelog.partition import FollowerFetch, FollowerRead, Partition
from tidelog.runtime import StorageFailure
from tidelog.wire.messages.fetch import NO_DIVERGENCE, EpochEndOffset, FetchRequest, FetchResponse, PartitionData

_RESPONSE_BYTES_MAX: Final = 10 << 20
_WAIT_MS_MAX: Final = 300_000
_PARTITIONS_AT_ONCE: Final = 500
_LOOKS_PER_LAG_TIME: Final = 4


def handle(node: Node, request: FetchRequest) -> FetchResponse | Awaitable[FetchResponse]:
    """Answer at once if there is something to say, else when there is."""
    try:
        fetch = _Fetch(node, request)
    except ApiError as error:
        return refused(error.code)
    due = fetch.due()
    if len(due) > _PARTITIONS_AT_ONCE:
        return fetch.serve_in_slices(due)
    looks = list(fetch.look_at(due))
    return fetch.answer(looks) if fetch.is_enough(looks) else fetch.wait(looks)


class _Ask(NamedTuple):
    """How to look at one partition."""

    budget: int
    monotonic_ms: float
    at_least_one: bool
    is_again: bool


class _Look(NamedTuple):
    """What a look at one partition has shown."""

    partition: FollowedPartition
    data: PartitionData
    byte_count: int
    has_objection: bool  # The follower cannot go on as it does.

    @property
    def is_urgent(self) -> bool:
        """Whether an answer must not wait for anything else: somebody who deletes records waits for followers to delete them too."""
        return self.has_objection or 0 <= self.partition.told_log_start_offset < self.data.log_start_offset


def _look(partition: FollowedPartition, data: PartitionData) -> _Look:
    has_objection = data.error_code is not ErrorCode.NONE or data.diverging_epoch is not NO_DIVERGENCE
    return _Look(partition, data, len(data.records or b""), has_objection)


class _Fetch:
    """One fetch of one follower."""

    def __init__(self, node: Node, request: FetchRequest) -> None:
        self._node = node
        self._request = request
        self._clock = node.runtime.clock
        self._deadline_ms = self._clock.monotonic_ms() + min(request.max_wait_ms, _WAIT_MS_MAX)
        self._max_bytes = min(request.max_bytes, _RESPONSE_BYTES_MAX)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._session = self._found() if request.session_epoch > INITIAL_EPOCH else self._begun()
        self._session.merge(self._asked(), self._forgotten())

    def _found(self) -> FollowerSession:
        request = self._request
        return self._node.fetch_sessions.followers.resume(
            request.session_id, request.session_epoch, request.follower_id
        )

    def _begun(self) -> FollowerSession:
        node, request = self._node, self._request
        session = FollowerSession(
            1 + node.runtime.randomness.below(2**31 - 1),
            request.follower_id,
            node.replicas.follower_waiters,
            node.replicas.fetch_waiters,
        )
        node.fetch_sessions.followers.begin(session, request.session_epoch)
        return session

    def _asked(self) -> Iterator[FollowedPartition]:
        request = self._request
        replica_id, replica_epoch = request.follower_id, request.replica_state.replica_epoch
        for topic in request.topics:
            for row in topic.partitions:
                yield FollowedPartition(
                    key=PartitionKey(topic.topic, topic.topic_id, row.partition),
                    max_bytes=row.partition_max_bytes,
                    fetch=FollowerFetch(
                        replica_id=replica_id,
                        broker_epoch=replica_epoch,
                        fetch_offset=row.fetch_offset,
                        current_leader_epoch=row.current_leader_epoch,
                        last_fetched_epoch=row.last_fetched_epoch,
                        log_start_offset=row.log_start_offset,
                    ),
                )

    def _forgotten(self) -> Iterator[PartitionKey]:
        for topic in self._request.forgotten_topics_data:
            for index in topic.partitions:
                yield PartitionKey(topic.topic, topic.topic_id, index)

    # Looking.

    def due(self) -> list[FollowedPartition]:
        """What to look at: what was named or has stirred, and all of it if that was not done for long."""
        session, now_ms = self._session, self._clock.monotonic_ms()
        session.waiter.forget()  # Whatever stirred until now is looked at now.
        between_ms = self._node.config.replica_lag_time_max_ms / _LOOKS_PER_LAG_TIME
        if now_ms - session.looked_ms < between_ms:
            return list(session.stirred)
        session.looked_ms = now_ms
        return [*session.stirred, *(one for one in session.partitions.values() if one not in session.stirred)]

    def look_at(self, partitions: Iterable[FollowedPartition], *, is_again: bool = False) -> Iterator[_Look]:
        """Read under the limits, in order."""
        stirred, budget, has_data = self._session.stirred, self._max_bytes, False
        now_ms = self._clock.monotonic_ms()
        for partition in partitions:
            stirred.pop(partition, None)  # Before the look: what happens from here on stirs it again.
            ask = _Ask(budget, now_ms, at_least_one=not has_data, is_again=is_again)
            look = _look(partition, self._read(partition, ask))
            budget = max(0, budget - look.byte_count)
            has_data = has_data or look.byte_count > 0
            yield look

    def _read(self, partition: FollowedPartition, ask: _Ask) -> PartitionData:
        topic_partition: TopicPartition | None = None
        try:
            topic_partition = self._topic_partition(partition)
            replica = self._replica(topic_partition, partition.key)
            is_throttled = self._is_throttled(replica, ask.monotonic_ms)
            read, events = replica.read_for_follower(
                partition.fetch,
                max_bytes=0 if is_throttled else min(partition.max_bytes, ask.budget),
                at_least_one=ask.at_least_one and not is_throttled,
                monotonic_ms=ask.monotonic_ms,
                is_again=ask.is_again,
            )
        except ApiError as error:
            return failed(partition.key.index, error.code)
        except StorageFailure as failure:
            return failed(partition.key.index, self._storage_error(topic_partition, failure))
        if events:
            self._node.replicas.perform(replica, events)
        if read.records:
            self._node.replicas.traffic.of(topic_partition.topic).replication_bytes_out += len(read.records)
            if self._is_on_the_list(replica):
                self._node.quota.given.record(len(read.records), ask.monotonic_ms)
        has_more = not read.records and partition.fetch.fetch_offset < replica.log.log_end_offset
        if has_more or self._session.replica_id not in replica.isr:  # Who wants into the ISR is looked at each time.
            self._session.stirred[partition] = None
        return _data(partition.key.index, read)

    def _topic_partition(self, partition: FollowedPartition) -> TopicPartition:
        known = partition.topic_partition
        if known is None:
            key = partition.key
            known = TopicPartition(self._node.metadata.topic_name(key.topic, key.topic_id), key.index)
            self._session.watch(partition, known)
        return known

    def _replica(self, topic_partition: TopicPartition, key: PartitionKey) -> Partition:
        replica = self._node.replicas.partition(topic_partition)
        if key.topic_id is not None and replica.log.topic_id != key.topic_id:
            raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID)
        return replica

    def _storage_error(self, topic_partition: TopicPartition | None, failure: StorageFailure) -> ErrorCode:
        if topic_partition is None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return self._node.replicas.storage_error(topic_partition, failure).code

    def _is_on_the_list(self, replica: Partition) -> bool:
        """Whether this follower's share counts for the quota: only while it is out of sync."""
        is_listed = self._node.quota.is_giving_throttled(replica.log.config, replica.topic_partition.index)
        return is_listed and self._session.replica_id not in replica.isr

    def _is_throttled(self, replica: Partition, monotonic_ms: float) -> bool:
        return self._is_on_the_list(replica) and self._node.quota.given.is_exceeded(monotonic_ms)

    # Answering.

    def is_enough(self, looks: list[_Look]) -> bool:
        """Whether the answer must not wait: enough bytes, an error, a parting of logs, a session that begins, or no time left."""
        if self._request.session_epoch == INITIAL_EPOCH or self._is_over():
            return True
        byte_count = 0
        for look in looks:
            byte_count += look.byte_count
            if byte_count >= self._min_bytes or look.is_urgent:
                return True
        return False

    def _is_over(self) -> bool:
        replicas = self._node.replicas
        return self._clock.monotonic_ms() >= self._deadline_ms or replicas.follower_waiters.is_dismissed

    async def serve_in_slices(self, due: list[FollowedPartition]) -> FetchResponse:
        """The same for very many partitions, with a look at the world now and then."""
        looks = await self._look_in_slices(due, is_again=False)
        return self.answer(looks) if self.is_enough(looks) else await self.wait(looks)

    async def _look_in_slices(self, keys: list[FollowedPartition], *, is_again: bool) -> list[_Look]:
        looks: list[_Look] = []
        for look in self.look_at(keys, is_again=is_again):
            looks.append(look)
            if len(looks) % _PARTITIONS_AT_ONCE == 0:
                await asyncio.sleep(0)
        return looks

    async def wait(self, looks: list[_Look]) -> FetchResponse:
        """Park until there is something worth an answer. Nothing that was read is held meanwhile."""
        session = self._session
        try:
            while not self.is_enough(looks):
                self._put_back(looks)
                looks = []
                left_ms = self._deadline_ms - self._clock.monotonic_ms()
                await session.waiter.woken(timeout_s=max(left_ms, 0) / 1000)
                looks = await self._look_in_slices(list(session.stirred), is_again=True)
            return self.answer(looks)
        finally:
            if self._request.session_epoch == FINAL_EPOCH:
                session.close()

    def _put_back(self, looks: Iterable[_Look]) -> None:
        """What is news but no reason to answer is looked at again when there is a reason."""
        for partition, data, byte_count, _ in looks:
            if byte_count or partition.is_news(data.high_watermark, data.log_start_offset):
                self._session.stirred[partition] = None

    def answer(self, looks: list[_Look]) -> FetchResponse:
        """What is news to the follower; it counts as told.

        What had records or an error stays stirred: the follower may not be able to use it, and then says nothing new about it.
        """
        session = self._session
        told: list[PartitionAnswer] = []
        for partition, data, byte_count, has_objection in looks:
            if byte_count or has_objection:
                session.stirred[partition] = None
            elif not partition.is_news(data.high_watermark, data.log_start_offset):
                continue
            partition.told_high_watermark = data.high_watermark
            partition.told_log_start_offset = data.log_start_offset
            partition.must_tell = has_objection
            told.append(PartitionAnswer(partition.key, data))
        if self._request.session_epoch == FINAL_EPOCH:
            session.close()
        return response(session.session_id, told)


def _data(index: int, read: FollowerRead) -> PartitionData:
    parted = read.diverging
    divergence = NO_DIVERGENCE
    if parted is not None:
        divergence = EpochEndOffset(epoch=parted.leader_epoch, end_offset=parted.end_offset)
    return PartitionData(
        partition_index=index,
        error_code=ErrorCode.NONE,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.log_start_offset,
        diverging_epoch=divergence,
        aborted_transactions=None,
        records=read.records,
    )
