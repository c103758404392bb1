"""Copies what one leader has into the replicas that follow it: one connection, one request under way, one session for all partitions.

There is no acknowledgement but the next request: its fetch offset says what we hold. So a position is named only once everything below it is
held as durably as the settings ask. An answer is used only for a partition that is still followed, under the epoch and at the offset it was
asked for (R05, R08): while it was under way, the controller may have told us anything.

A partition that comes while a request is parked at the leader does not wait for that: the connection is dropped and the next one begins
with a full fetch. That happens once; for a second afterwards requests wait only briefly, so that partitions that come in the wake of the
first find a request about to leave.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from tidelog.broker.replica_fetch_session import VERSION, FollowedKey, is_session_error
from tidelog.broker.replica_reset import ask_bounds
from tidelog.broker.replica_roster import Followed, Roster, replica_backoff
from tidelog.broker.replication_quota import ReplicationQuotas
from tidelog.broker.topic_traffic import TopicTraffic
from tidelog.broker.waiters import Waiters
from tidelog.client.connection import Connection, ConnectionLimits, open_connection
from tidelog.client.errors import ConnectionLost, UnsupportedApi
from tidelog.config import BrokerConfig
from tidelog.model import ApiError, BrokerEpoch, BrokerId, ErrorCode, TopicPartition, invariant
from tidelog.partition import Partition, PartitionEvent
from tidelog.runtime import Address, DiskFull, Runtime, StorageFailure
from tidelog.runtime.logs import fields
from tidelog.storage import EpochEndOffset
from tidelog.wire.messages.fetch import (
    NO_DIVERGENCE,
    NO_REPLICA,
    FetchRequest,
    FetchResponse,
    PartitionData,
    ReplicaState,
)

logger = logging.getLogger(__name__)

_HURRY_MS: Final = 200.0  # A newcomer that has not caught up by then gains nothing from answers without records.
_HURRIED_WAIT_MS: Final = 20
_OVERDUE_MS: Final = 1_000.0
_SETUP_MS_MAX: Final = 5_000.0
_FLUSH_WAIT_MS: Final = 200.0
_IDLE_MS: Final = 1_000.0
_BYTES_BETWEEN_LOOKS: Final = 1 << 20
_PARTITIONS_BETWEEN_LOOKS: Final = 200
_NOWHERE: Final = Address("", 0)


class FollowerReplicas(Protocol):
    """What a fetcher needs of the replica manager."""

    flushes: Waiters[TopicPartition]

    @property
    def traffic(self) -> TopicTraffic:
        """Where what was copied is counted."""
        ...

    def perform(self, partition: Partition, events: list[PartitionEvent]) -> None:
        """Do what a change of a replica calls for."""
        ...

    def storage_error(self, topic_partition: TopicPartition, failure: StorageFailure) -> ApiError:
        """Note that the disk under a replica said no."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherSurroundings:
    """What all fetchers of a broker share."""

    config: BrokerConfig
    runtime: Runtime
    replicas: FollowerReplicas
    quotas: ReplicationQuotas
    address_of: Callable[[BrokerId], Address | None]
    broker_epoch: Callable[[], BrokerEpoch]


class ReplicaFetcher:
    """The conversation with one leader."""

    def __init__(self, leader_id: BrokerId, surroundings: FetcherSurroundings) -> None:
        self._leader_id = leader_id
        self._around = surroundings
        self._clock = surroundings.runtime.clock
        self._backoff = replica_backoff(surroundings.config)
        self._roster = Roster(surroundings.config, surroundings.quotas, surroundings.runtime.randomness)
        self._session = self._roster.session
        self._replica = NO_REPLICA
        self._news = asyncio.Event()
        self._hurried_until_ms = 0.0
        self._connection: Connection | None = None
        self._parked_until_ms = 0.0  # When the request under way is answered at the latest; 0 while there is none.
        self._is_abandoned = False
        self._is_session_doubted = False
        self._losses = 0

    # What the replica manager tells.

    def follow(self, partition: Partition) -> None:
        """Fetch for it from now on; one that failed or rests starts anew."""
        topic_id = partition.log.topic_id
        invariant(topic_id is not None, "a replica that follows knows the id of its topic")
        if topic_id is None or not self._roster.add(partition, topic_id):
            return
        now_ms = self._clock.monotonic_ms()
        if self._connection is not None and self._is_held_up(self._connection, now_ms):
            self._is_abandoned = True
            self._connection.close("another partition is followed")
        self._hurried_until_ms = now_ms + _HURRY_MS
        self._losses = 0
        self._news.set()

    def unfollow(self, topic_partition: TopicPartition) -> None:
        """Fetch no more for it."""
        self._roster.remove(topic_partition)

    def _is_held_up(self, connection: Connection, now_ms: float) -> bool:
        """Whether the request under way keeps a newcomer waiting: it is parked, or overdue, or its leader has moved meanwhile."""
        if self._parked_until_ms == 0.0:
            return False
        is_parked = self._parked_until_ms > now_ms + _HURRIED_WAIT_MS
        is_overdue = self._parked_until_ms < now_ms - _OVERDUE_MS
        return is_parked or is_overdue or connection.address != self._around.address_of(self._leader_id)

    @property
    def failed(self) -> list[TopicPartition]:
        """Those that are not fetched until the controller speaks."""
        return self._roster.failed

    # The loop.

    async def run(self) -> None:
        """Fetch for ever, connecting again whenever the connection is lost."""
        while True:
            await self._until_wanted()
            try:
                await self._converse()
            except (ConnectionLost, UnsupportedApi) as lost:
                await self._on_lost(lost)

    async def _until_wanted(self) -> None:
        while self._roster.is_idle:
            self._news.clear()
            await self._news.wait()

    async def _on_lost(self, lost: Exception) -> None:
        self._session.restart()
        if self._is_abandoned:
            self._is_abandoned = False
            return
        self._losses += 1
        if self._losses == 1:
            logger.info("replication interrupted", extra=fields(leader=self._leader_id, reason=lost))
        self._news.clear()
        await self._news_within(self._backoff.delay_ms(self._losses, self._around.runtime.randomness))

    async def _converse(self) -> None:
        """Fetch over one connection until it is lost, or not needed any more."""
        config = self._around.config
        address = self._around.address_of(self._leader_id)
        if address is None:
            raise ConnectionLost(_NOWHERE, f"nobody knows where broker {self._leader_id} is")
        limits = ConnectionLimits(
            client_id=f"broker-{config.broker_id}-fetcher",
            setup_timeout_ms=min(config.replica_socket_timeout_ms, _SETUP_MS_MAX),
            request_timeout_ms=config.replica_socket_timeout_ms,
            in_flight_max=1,
            receive_bytes_max=config.socket_request_max_bytes + config.replica_fetch_response_max_bytes,
        )
        self._connection = connection = await open_connection(self._around.runtime.network, address, limits)
        try:
            while await self._has_work():
                response = await self._exchange(connection, self._request())
                await self._take(connection, response)
        finally:
            self._connection = None
            self._parked_until_ms = 0.0
            connection.close("nothing more to fetch")
            self._session.restart()

    async def _has_work(self) -> bool:
        """Whether there is something to fetch; waits for it for a while."""
        roster = self._roster
        while True:
            self._news.clear()
            roster.settle(self._clock.monotonic_ms())
            if not self._session.is_empty:
                return True
            wait_ms = roster.rest_end_ms - self._clock.monotonic_ms() if roster.has_resting else _IDLE_MS
            if not await self._news_within(max(wait_ms, 1.0)) and not roster.has_resting:
                return False

    async def _news_within(self, timeout_ms: float) -> bool:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._news.wait()
        except TimeoutError:
            return False
        return True

    # Asking.

    def _request(self) -> FetchRequest:
        config, now_ms = self._around.config, self._clock.monotonic_ms()
        wait_ms = config.replica_fetch_wait_max_ms
        if now_ms < self._hurried_until_ms:
            wait_ms = min(wait_ms, _HURRIED_WAIT_MS)
        if self._roster.has_resting:
            wait_ms = min(wait_ms, max(int(self._roster.rest_end_ms - now_ms), 1))
        self._parked_until_ms = now_ms + wait_ms
        broker_epoch = self._around.broker_epoch()
        if broker_epoch != self._replica.replica_epoch:
            # Registered anew: the leader must hear it for every partition, or it would propose our former life for the ISR.
            self._replica = ReplicaState(replica_id=config.broker_id, replica_epoch=broker_epoch)
            self._session.restart()
        return self._session.request(self._replica, max_wait_ms=wait_ms)

    async def _exchange(self, connection: Connection, request: FetchRequest) -> FetchResponse:
        try:
            return await connection.send(request, version=VERSION).answer
        finally:
            self._parked_until_ms = 0.0

    # Taking what came.

    async def _take(self, connection: Connection, response: FetchResponse) -> None:
        if not self._session.on_response(response):
            if not is_session_error(response.error_code) or self._is_session_doubted:
                raise ConnectionLost(connection.address, f"the leader answered {response.error_code.name}")
            self._is_session_doubted = True  # A full fetch heals it; if not, haste would not help.
            return
        self._is_session_doubted = False
        if self._losses:
            self._losses = 0
            logger.info("replication resumed", extra=fields(leader=self._leader_id))
        strays: list[Followed] = []
        byte_count = partition_count = 0
        for key, data in _answers(response):
            followed, position = self._roster.get(key), self._session.position_told(key)
            if followed is None or position is None:
                continue
            self._roster.moved(followed)
            if followed.is_at(position) and self._take_one(followed, data):
                strays.append(followed)
            byte_count += len(data.records or b"")
            partition_count += 1
            if byte_count > _BYTES_BETWEEN_LOOKS or partition_count > _PARTITIONS_BETWEEN_LOOKS:
                byte_count = partition_count = 0
                await asyncio.sleep(0)
        if strays:
            await self._reset(connection, strays)
        settling = [one.partition for one in self._roster.due() if _is_settling(one.partition)]
        if settling:
            await self._flushed(settling)

    def _take_one(self, followed: Followed, data: PartitionData) -> bool:
        """Use one partition's answer; whether the leader has nothing at our offset."""
        code = data.error_code
        if code is ErrorCode.NONE:
            self._store(followed, data)
        elif code is ErrorCode.OFFSET_OUT_OF_RANGE:
            return True
        elif code is ErrorCode.FENCED_LEADER_EPOCH:
            # The leader was told a newer epoch than we were: until we are, nothing it says is meant for us. At every change of an epoch
            # some are faster than others, so that is nothing to tell an operator.
            self._roster.fail(followed)
        else:
            self._rest_after_failure(followed)
        return False

    def _rest_after_failure(self, followed: Followed) -> None:
        self._roster.rest_after_failure(followed, self._clock.monotonic_ms())

    def _store(self, followed: Followed, data: PartitionData) -> None:
        partition, now_ms = followed.partition, self._clock.wall_ms()
        diverging, records = data.diverging_epoch, data.records or b""
        try:
            if diverging is not NO_DIVERGENCE:
                answer = EpochEndOffset(diverging.epoch, diverging.end_offset)
                events = partition.truncate_where_parted(
                    answer, leader_log_start_offset=data.log_start_offset, now_ms=now_ms
                )
            else:
                events = partition.append_as_follower(
                    records,
                    leader_high_watermark=data.high_watermark,
                    leader_log_start_offset=data.log_start_offset,
                    now_ms=now_ms,
                )
                followed.leader_high_watermark = data.high_watermark
        except (ApiError, StorageFailure) as failure:
            self._on_not_stored(followed, failure)
            return
        followed.failures = 0
        self._around.replicas.perform(partition, events)
        if records:
            self._around.replicas.traffic.of(partition.topic_partition.topic).replication_bytes_in += len(records)
            if self._around.quotas.is_taking_throttled(partition.log.config, followed.key.index):
                self._around.quotas.taken.record(len(records), self._clock.monotonic_ms())

    def _on_not_stored(self, followed: Followed, failure: ApiError | StorageFailure) -> None:
        """Nothing of it counts. What the leader sent may have been damaged on its way, and a full disk may find space."""
        topic_partition = followed.partition.topic_partition
        if isinstance(failure, StorageFailure):
            self._around.replicas.storage_error(topic_partition, failure)
            if not isinstance(failure, DiskFull):
                self._roster.fail(followed)
                logger.error("replica failed", extra=fields(partition=topic_partition, reason=failure))
                return
        elif followed.failures == 0:
            logger.error("replicated data refused", extra=fields(partition=topic_partition, reason=failure))
        self._rest_after_failure(followed)

    async def _reset(self, connection: Connection, strays: Iterable[Followed]) -> None:
        """Find out where the leader's logs begin and end, and go where both have something."""
        asked = {one.partition.topic_partition: (one, one.partition.fetch_position()) for one in strays}
        positions = {key: position for key, (_, position) in asked.items() if position is not None}
        bounds = await ask_bounds(connection, self._around.config.broker_id, positions)
        for key, (followed, position) in asked.items():
            if self._roster.get(followed.key) is not followed or position is None:
                continue
            bound = bounds.get(key)
            if bound is None:
                self._rest_after_failure(followed)
            elif followed.is_at(position):
                self._reset_one(followed, *bound)

    def _reset_one(self, followed: Followed, start_offset: int, end_offset: int) -> None:
        try:
            events = followed.partition.reset_to(
                leader_log_start_offset=start_offset, leader_log_end_offset=end_offset, now_ms=self._clock.wall_ms()
            )
        except (ApiError, StorageFailure) as failure:
            self._on_not_stored(followed, failure)
            return
        self._around.replicas.perform(followed.partition, events)
        self._roster.moved(followed)

    async def _flushed(self, waiting: list[Partition]) -> None:
        """Wait for the flushes that what was stored asked for, since it may not be named as held before; not for ever."""
        until_ms = self._clock.monotonic_ms() + _FLUSH_WAIT_MS
        with self._around.replicas.flushes.parked([partition.topic_partition for partition in waiting]) as waiter:
            while waiting := [partition for partition in waiting if _is_settling(partition)]:
                left_ms = until_ms - self._clock.monotonic_ms()
                if left_ms <= 0:
                    return
                await waiter.woken(timeout_s=left_ms / 1000)


def _is_settling(partition: Partition) -> bool:
    """Whether a flush is on its way without which the next position cannot be named."""
    return partition.log.settled_end_offset < partition.log.log_end_offset and partition.is_follower


def _answers(response: FetchResponse) -> Iterator[tuple[FollowedKey, PartitionData]]:
    for topic in response.responses:
        if topic.topic_id is not None:
            for data in topic.partitions:
                yield FollowedKey(topic.topic_id.int, data.partition_index), data
