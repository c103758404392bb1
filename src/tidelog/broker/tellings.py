"""What a broker is to be told, as requests in the order in which they are sent, none larger than the loop can bear."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple, TypeAlias, TypeVar

from tidelog.broker.internal_topics import INTERNAL_TOPICS
from tidelog.controller import BrokerImage, ClusterImage, PartitionState
from tidelog.controller.difference import Role, StoppedReplica, Told
from tidelog.model import BrokerId, TopicId, TopicPartition
from tidelog.wire.messages import leader_and_isr as lisr
from tidelog.wire.messages import stop_replica as stops
from tidelog.wire.messages import update_metadata as updates

T = TypeVar("T")

ControlRequest: TypeAlias = lisr.LeaderAndIsrRequest | updates.UpdateMetadataRequest | stops.StopReplicaRequest

PARTITIONS_PER_REQUEST: Final = 500
"""Encoding and decoding so many holds the loop for a few milliseconds."""
_PLAINTEXT: Final = 0


class _Row(NamedTuple):
    """One partition of an UpdateMetadata request."""

    topic_partition: TopicPartition
    topic_id: TopicId
    state: updates.UpdateMetadataPartitionState


@dataclass(frozen=True, slots=True)
class Telling:
    """One broker, and the image it is to learn."""

    broker: BrokerImage
    image: ClusterImage
    inter_broker_listener: str

    def requests(self, told: Told) -> Iterator[ControlRequest]:
        """What `told` says. Made one at a time, because all of them together are large."""
        yield from self.stops(told.replaced)
        yield from self.roles(told.roles, is_full=told.is_full)
        yield from self._metadata(told)
        yield from self.stops(told.stopped)

    def roles(self, roles: Sequence[Role], *, is_full: bool = False) -> Iterator[lisr.LeaderAndIsrRequest]:
        """LeaderAndIsr; the last of a full telling says that it was that."""
        for some, is_last in _slices(roles, is_one_needed=is_full):
            leaders = {role.state.leader: None for role in some}
            yield lisr.LeaderAndIsrRequest(
                controller_id=self.image.controller_id,
                controller_epoch=self.image.controller_epoch,
                broker_epoch=self.broker.broker_epoch,
                type=lisr.FULL if is_full and is_last else lisr.INCREMENTAL,
                topic_states=tuple(
                    lisr.LeaderAndIsrTopicState(
                        topic_name=topic,
                        topic_id=of_topic[0].state.topic_id,
                        partition_states=tuple(self._role(role) for role in of_topic),
                    )
                    for topic, of_topic in _by_topic(some, lambda role: role.topic_partition)
                ),
                live_leaders=tuple(self._leaders(leaders)),
            )

    def stops(self, stopped: Sequence[StoppedReplica]) -> Iterator[stops.StopReplicaRequest]:
        """StopReplica."""
        for some, _ in _slices(stopped):
            yield stops.StopReplicaRequest(
                controller_id=self.image.controller_id,
                controller_epoch=self.image.controller_epoch,
                broker_epoch=self.broker.broker_epoch,
                topic_states=tuple(
                    stops.StopReplicaTopicState(
                        topic_name=topic,
                        partition_states=tuple(
                            stops.StopReplicaPartitionState(
                                partition_index=one.topic_partition.index,
                                leader_epoch=one.leader_epoch,
                                delete_partition=one.is_deleted,
                            )
                            for one in of_topic
                        ),
                    )
                    for topic, of_topic in _by_topic(some, lambda one: one.topic_partition)
                ),
            )

    def _metadata(self, told: Told) -> Iterator[updates.UpdateMetadataRequest]:
        brokers = tuple(_broker(broker) for _, broker in sorted(self.image.brokers.items()))
        changed = [*((one, True) for one in told.deleted), *((one, False) for one in told.metadata)]
        is_one_needed = told.is_full or told.are_brokers_changed
        for some, is_last in _slices(changed, is_one_needed=is_one_needed, belong_together=_are_of_one_internal_topic):
            rows = (_Row(one[0], one[1].topic_id, self._state(*one, is_deleted=is_deleted)) for one, is_deleted in some)
            yield updates.UpdateMetadataRequest(
                controller_id=self.image.controller_id,
                controller_epoch=self.image.controller_epoch,
                broker_epoch=self.broker.broker_epoch,
                type=updates.FULL if told.is_full and is_last else updates.INCREMENTAL,
                topic_states=(*(self._finished_deletions() if told.is_full else ()), *_topic_states(rows)),
                live_brokers=brokers,
            )

    def _role(self, role: Role) -> lisr.LeaderAndIsrPartitionState:
        state = role.state
        return lisr.LeaderAndIsrPartitionState(
            partition_index=role.topic_partition.index,
            controller_epoch=self.image.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            partition_epoch=state.partition_epoch,
            replicas=state.assignment,
            adding_replicas=state.adding,
            removing_replicas=state.removing,
            is_new=role.is_new,
            leader_recovery_state=int(state.is_recovering),
        )

    def _state(
        self, partition: TopicPartition, state: PartitionState, *, is_deleted: bool
    ) -> updates.UpdateMetadataPartitionState:
        failed = self.image.offline.get(partition, frozenset())
        return updates.UpdateMetadataPartitionState(
            partition_index=partition.index,
            controller_epoch=self.image.controller_epoch,
            leader=updates.LEADER_DURING_DELETE if is_deleted else state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            zk_version=state.partition_epoch,
            replicas=state.assignment,
            offline_replicas=tuple(one for one in state.assignment if one in failed or one not in self.image.brokers),
        )

    def _finished_deletions(self) -> Iterator[updates.UpdateMetadataTopicState]:
        """Topics whose deletion this controller found finished but for the logs that may still lie about."""
        for name in sorted(self.image.finished_deletions - self.image.topics.keys()):
            state = updates.UpdateMetadataPartitionState(
                partition_index=0,
                controller_epoch=self.image.controller_epoch,
                leader=updates.LEADER_DURING_DELETE,
                leader_epoch=0,
                isr=(),
                zk_version=0,
                replicas=(),
            )
            yield updates.UpdateMetadataTopicState(topic_name=name, topic_id=None, partition_states=(state,))

    def _leaders(self, leaders: Iterable[BrokerId]) -> Iterator[lisr.LeaderAndIsrLiveLeader]:
        for leader in leaders:
            broker = self.image.brokers.get(leader)
            endpoint = None if broker is None else broker.endpoints.get(self.inter_broker_listener)
            if endpoint is not None:
                yield lisr.LeaderAndIsrLiveLeader(broker_id=leader, host_name=endpoint.host, port=endpoint.port)


def _broker(broker: BrokerImage) -> updates.UpdateMetadataBroker:
    return updates.UpdateMetadataBroker(
        id=broker.broker_id,
        endpoints=tuple(
            updates.UpdateMetadataEndpoint(
                port=endpoint.port, host=endpoint.host, listener=name, security_protocol=_PLAINTEXT
            )
            for name, endpoint in broker.endpoints.items()
        ),
        rack=broker.rack,
    )


def _topic_states(rows: Iterable[_Row]) -> Iterator[updates.UpdateMetadataTopicState]:
    for (topic, topic_id), of_topic in groupby(rows, lambda row: (row.topic_partition.topic, row.topic_id)):
        yield updates.UpdateMetadataTopicState(
            topic_name=topic, topic_id=topic_id, partition_states=tuple(row.state for row in of_topic)
        )


def _by_topic(items: Iterable[T], partition_of: Callable[[T], TopicPartition]) -> Iterator[tuple[str, list[T]]]:
    for topic, of_topic in groupby(items, lambda item: partition_of(item).topic):
        yield topic, list(of_topic)


def _are_of_one_internal_topic(
    one: tuple[tuple[TopicPartition, PartitionState], bool], other: tuple[tuple[TopicPartition, PartitionState], bool]
) -> bool:
    """How many partitions such a topic has says where everything in it lies: half of them must not be taken for all."""
    topic = one[0][0].topic
    return topic in INTERNAL_TOPICS and topic == other[0][0].topic


def _never(_: object, __: object) -> bool:
    return False


def _slices(
    items: Sequence[T], *, is_one_needed: bool = False, belong_together: Callable[[T, T], bool] = _never
) -> Iterator[tuple[Sequence[T], bool]]:
    """Some items at a time, and whether they are the last; nothing at all is one slice where one is needed."""
    if not items and is_one_needed:
        yield (), True
    start = 0
    while start < len(items):
        end = min(start + PARTITIONS_PER_REQUEST, len(items))
        while end < len(items) and belong_together(items[end - 1], items[end]):
            end += 1
        yield items[start:end], end == len(items)
        start = end
