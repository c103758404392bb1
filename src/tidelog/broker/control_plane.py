"""What the controller tells this broker: which of its replicas lead, which follow, which go, and what clients are to be told.

One request is applied at a time, whichever connection it came by, under two fences: an older controller epoch than one seen is a controller
that was replaced (C01), an older broker epoch than ours was meant for a former life of ours. What is applied is remembered by the replica
itself and only after it worked, so that a request told again completes what was left half done (C03). Thousands of logs take longer than
the loop may be held; between slices others are served.

A full telling may take several requests: the last of them says so, and then everything that none of them named is nobody's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from tidelog.broker.config_follower import ConfigFollower
from tidelog.broker.hosting import Told
from tidelog.broker.metadata_cache import MetadataCache
from tidelog.broker.replica_manager import ReplicaManager
from tidelog.broker.replica_roles import ReplicaRoles
from tidelog.broker.told_metadata import brokers_of, leaders_of, merge_topics
from tidelog.model import ApiError, BrokerEpoch, BrokerId, ErrorCode, TopicId, TopicPartition
from tidelog.partition import Leadership
from tidelog.runtime import Clock
from tidelog.runtime.logs import fields
from tidelog.wire.messages import leader_and_isr as lisr
from tidelog.wire.messages import stop_replica as stops
from tidelog.wire.messages import update_metadata as updates

logger = logging.getLogger(__name__)

T = TypeVar("T")

_SLICE_MS: Final = 5.0
_LINES_MAX: Final = 20
"""State changes of one request that are logged one by one; of more only the sum is."""


class _Teller(NamedTuple):
    """Who tells whom; another one begins by telling everything."""

    controller_epoch: int
    broker_epoch: BrokerEpoch


class _Role(NamedTuple):
    """One replica of a LeaderAndIsr request."""

    topic_partition: TopicPartition
    topic_id: TopicId | None
    state: lisr.LeaderAndIsrPartitionState


@dataclass(slots=True)
class _FullTelling:
    """What was named since the teller changed, until it has said that this was all."""

    teller: _Teller
    replicas: set[TopicPartition] | None
    topics: set[str] | None
    deleted: set[str]


class ControlPlane:
    """Applies control requests. Handlers give it those of other brokers, the controller of this process its own."""

    def __init__(
        self,
        broker_id: BrokerId,
        clock: Clock,
        metadata: MetadataCache,
        replicas: ReplicaManager,
        roles: ReplicaRoles,
        configs: ConfigFollower,
    ) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._metadata = metadata
        self._replicas = replicas
        self._roles = roles
        self._configs = configs
        self._turn = asyncio.Lock()
        self._controller_epoch = 0
        self.broker_epoch: BrokerEpoch = -1
        """The epoch of our registration; set before anybody can be told of it."""
        self._telling = _FullTelling(_Teller(-1, -1), None, None, set())
        self.was_told_all = asyncio.Event()
        """Set once a controller has told everything there is to this process."""

    # LeaderAndIsr.

    async def leader_and_isr(self, request: lisr.LeaderAndIsrRequest) -> lisr.LeaderAndIsrResponse:
        """Lead and follow as told; a result per partition."""
        async with self._turn:
            fenced = self._fence(request.controller_epoch, request.broker_epoch)
            if fenced is not None:
                return lisr.LeaderAndIsrResponse(error_code=fenced)
            try:
                await self._configs.learn(
                    _known_ids((topic.topic_name, topic.topic_id) for topic in request.topic_states)
                )
            except ApiError as error:
                return lisr.LeaderAndIsrResponse(error_code=error.code)
            self._metadata.take_leaders(leaders_of(request))
            codes = await self._take_roles(list(_roles(request)))
            if request.type == lisr.FULL:
                self._let_go_of_the_unnamed()
            return _lisr_response(request, codes)

    async def _take_roles(self, roles: list[_Role]) -> dict[TopicPartition, ErrorCode]:
        """Leaders first, so that followers elsewhere find them leading."""
        codes: dict[TopicPartition, ErrorCode] = {}
        changed: list[_Role] = []
        leading = [role for role in roles if role.state.leader == self._broker_id]
        following = [role for role in roles if role.state.leader != self._broker_id]
        async for role in self._in_slices([*leading, *following]):
            if self._telling.replicas is not None:
                self._telling.replicas.add(role.topic_partition)
            known = self._replicas.hosting.partition(role.topic_partition)
            before = None if known is None else known.leader_epoch
            try:
                self._take_role(role)
                codes[role.topic_partition] = ErrorCode.NONE
            except ApiError as error:
                codes[role.topic_partition] = error.code
                continue
            if before != role.state.leader_epoch:
                changed.append(role)
        _log_roles(self._broker_id, changed)
        return codes

    def _take_role(self, role: _Role) -> None:
        """Raises ApiError where the request is out of date or cannot be obeyed."""
        state, topic_id = role.state, role.topic_id
        if self._replicas.hosting.is_offline(role.topic_partition):
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        known = self._replicas.hosting.partition(role.topic_partition)
        if topic_id is None or (known is not None and known.log.topic_id != topic_id):
            raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID)
        leadership = None if known is None else known.leadership
        if leadership is not None and (state.leader_epoch, state.partition_epoch) <= (
            leadership.leader_epoch,
            leadership.partition_epoch,
        ):
            raise ApiError(ErrorCode.STALE_CONTROLLER_EPOCH)
        if self._broker_id not in state.replicas:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        told = Told(
            role.topic_partition,
            topic_id,
            self._configs.log_config(role.topic_partition.topic, topic_id),
            Leadership(
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                isr=state.isr,
                assignment=state.replicas,
                adding=state.adding_replicas,
                removing=state.removing_replicas,
            ),
            state.is_new,
        )
        self._roles.lead(told) if state.leader == self._broker_id else self._roles.follow(told)

    def _let_go_of_the_unnamed(self) -> None:
        """Replicas we have and were not told of are nobody's; what becomes of their logs is decided once all topics are known."""
        named = self._telling.replicas
        if named is not None:
            self._telling.replicas = None
            for topic_partition in self._roles.let_go(named):
                logger.info("replica let go", extra=fields(partition=topic_partition))

    # UpdateMetadata.

    async def update_metadata(self, request: updates.UpdateMetadataRequest) -> updates.UpdateMetadataResponse:
        """Tell clients this from now on."""
        async with self._turn:
            fenced = self._fence(request.controller_epoch, request.broker_epoch)
            if fenced is not None:
                return updates.UpdateMetadataResponse(error_code=fenced)
            ids = _known_ids((topic.topic_name, topic.topic_id) for topic in request.topic_states)
            try:
                await self._configs.learn(ids)
            except (
                ApiError
            ) as error:  # What clients are told of leaders does not wait for settings; those are read later.
                logger.warning("settings of topics not read", extra=fields(topic_count=len(ids), reason=error.message))
            self._metadata.take_brokers(
                brokers_of(request), controller_id=request.controller_id, controller_epoch=request.controller_epoch
            )
            merged = await merge_topics(self._metadata.image.topics, request, self._configs.topic_configs)
            gone = set(merged.gone)
            if self._telling.topics is not None:
                self._telling.deleted.update(merged.deleted)
                self._telling.topics.update(topic.name for topic in merged.changed)
                if request.type == updates.FULL:
                    gone |= self._metadata.image.topics.keys() - self._telling.topics
            self._metadata.take_topics(merged.changed, gone=sorted(gone))
            self._configs.forget(gone)
            if request.type == updates.FULL:
                self._on_told_all()
            return updates.UpdateMetadataResponse(error_code=ErrorCode.NONE)

    def _on_told_all(self) -> None:
        self._telling.topics = None
        self._metadata.is_whole = True
        self._replicas.placement.set_aside_strays(
            self._replicas.hosting, self._is_deleted, self._replicas.on_directory_failed
        )
        self.was_told_all.set()

    def _is_deleted(self, topic_partition: TopicPartition, topic_id: TopicId | None) -> bool:
        """Whether a log that we do not host may be removed: its topic was deleted, or the replica moved elsewhere."""
        topic = self._metadata.topic(topic_partition.topic)
        if topic is None:
            return topic_partition.topic in self._telling.deleted
        if topic_id is not None and topic_id != topic.topic_id:
            return True
        state = topic.partitions.get(topic_partition.index)
        return topic_id is not None and state is not None and self._broker_id not in state.assignment

    # StopReplica.

    async def stop_replica(self, request: stops.StopReplicaRequest) -> stops.StopReplicaResponse:
        """Let go of replicas, and of their logs where told so; a result per partition."""
        async with self._turn:
            fenced = self._fence(request.controller_epoch, request.broker_epoch)
            if fenced is not None:
                return stops.StopReplicaResponse(error_code=fenced)
            errors = []
            async for topic_partition, state in self._in_slices(_stopped(request)):
                errors.append(
                    stops.StopReplicaPartitionError(
                        topic_name=topic_partition.topic,
                        partition_index=topic_partition.index,
                        error_code=self._stop(topic_partition, state),
                    )
                )
            return stops.StopReplicaResponse(error_code=ErrorCode.NONE, partition_errors=tuple(errors))

    def _stop(self, topic_partition: TopicPartition, state: stops.StopReplicaPartitionState) -> ErrorCode:
        if self._replicas.hosting.is_offline(topic_partition):
            return ErrorCode.KAFKA_STORAGE_ERROR
        known = self._replicas.hosting.partition(topic_partition)
        is_epoch_told = state.leader_epoch not in (stops.NO_EPOCH, stops.EPOCH_DURING_DELETE)
        if known is not None and is_epoch_told and state.leader_epoch < known.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        self._roles.stop(topic_partition, is_deleted=state.delete_partition, leader_epoch=state.leader_epoch)
        return ErrorCode.NONE

    # Fences and slices.

    def _fence(self, controller_epoch: int, broker_epoch: BrokerEpoch) -> ErrorCode | None:
        """Why the request is not heeded, if it is not. Whoever is heeded fences all who came before."""
        if broker_epoch < self.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if controller_epoch < self._controller_epoch:
            known = fields(order_epoch=controller_epoch, known_epoch=self._controller_epoch)
            logger.warning("order of a controller that was replaced refused", extra=known)
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self._controller_epoch = controller_epoch
        teller = _Teller(controller_epoch, broker_epoch)
        if teller != self._telling.teller:
            self._telling = _FullTelling(teller, set(), set(), set())
            self._metadata.is_whole = (
                False  # It may know topics that nobody before has told us of, and tells them one after the other.
            )
        return None

    async def _in_slices(self, items: Iterable[T]) -> AsyncIterator[T]:
        """The items, with a look at the world every few milliseconds."""
        slice_end_ms = self._clock.monotonic_ms() + _SLICE_MS
        for item in items:
            yield item
            if self._clock.monotonic_ms() >= slice_end_ms:
                await asyncio.sleep(0)
                slice_end_ms = self._clock.monotonic_ms() + _SLICE_MS


def _known_ids(topics: Iterable[tuple[str, TopicId | None]]) -> list[tuple[str, TopicId]]:
    return [(name, topic_id) for name, topic_id in topics if topic_id is not None]


def _roles(request: lisr.LeaderAndIsrRequest) -> Iterator[_Role]:
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield _Role(TopicPartition(topic.topic_name, state.partition_index), topic.topic_id, state)


def _stopped(request: stops.StopReplicaRequest) -> Iterator[tuple[TopicPartition, stops.StopReplicaPartitionState]]:
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield TopicPartition(topic.topic_name, state.partition_index), state


def _lisr_response(
    request: lisr.LeaderAndIsrRequest, codes: dict[TopicPartition, ErrorCode]
) -> lisr.LeaderAndIsrResponse:
    return lisr.LeaderAndIsrResponse(
        error_code=ErrorCode.NONE,
        topics=tuple(
            lisr.LeaderAndIsrTopicError(
                topic_id=topic.topic_id,
                partition_errors=tuple(
                    lisr.LeaderAndIsrPartitionError(
                        partition_index=state.partition_index,
                        error_code=codes[TopicPartition(topic.topic_name, state.partition_index)],
                    )
                    for state in topic.partition_states
                ),
            )
            for topic in request.topic_states
        ),
    )


def _log_roles(broker_id: BrokerId, changed: list[_Role]) -> None:
    """One line per replica, in words an operator greps for; where there are many, one line for all."""
    level = logging.INFO
    if len(changed) > _LINES_MAX:
        led = sum(1 for role in changed if role.state.leader == broker_id)
        logger.info("became leader and follower", extra=fields(leader_count=led, follower_count=len(changed) - led))
        level = logging.DEBUG
    if logger.isEnabledFor(level):
        for role in changed:
            _log_role(level, broker_id, role)


def _log_role(level: int, broker_id: BrokerId, role: _Role) -> None:
    state = role.state
    if state.leader == broker_id:
        known = fields(partition=role.topic_partition, leader_epoch=state.leader_epoch, isr=list(state.isr))
        logger.log(level, "became leader", extra=known)
    else:
        known = fields(partition=role.topic_partition, leader_epoch=state.leader_epoch, leader=state.leader)
        logger.log(level, "became follower", extra=known)
