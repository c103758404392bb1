"""What one broker must still be told, between the image it has taken and the newest one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidelog.controller.image import ClusterImage, PartitionState, TopicImage, partitions_of
from tidelog.model import BrokerId, LeaderEpoch, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One entry of a LeaderAndIsr request: what the broker is to this partition."""

    topic_partition: TopicPartition
    state: PartitionState
    is_new: bool  # it has never had this replica, so that it may make one in any directory


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedReplica:
    """One entry of a StopReplica request."""

    topic_partition: TopicPartition
    leader_epoch: LeaderEpoch  # the newest, or TOPIC_IS_DELETED
    is_deleted: bool  # also remove the log


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The requests that bring a broker up to date, in the order in which they are sent.

    `replaced` comes first: a topic that was deleted and made again under its name must go before the new one can come.
    """

    replaced: tuple[StoppedReplica, ...] = ()  # StopReplica
    roles: tuple[Role, ...] = ()  # LeaderAndIsr
    is_full: bool = False  # the roles are all that the broker has: what it holds beyond them is nobody's
    metadata: tuple[tuple[TopicPartition, PartitionState], ...] = ()  # UpdateMetadata
    deleted: tuple[tuple[TopicPartition, PartitionState], ...] = ()  # UpdateMetadata with leader -2
    are_brokers_changed: bool = False  # UpdateMetadata, even without partitions
    stopped: tuple[StoppedReplica, ...] = ()  # StopReplica

    @property
    def is_nothing(self) -> bool:
        """Whether the broker knows all there is."""
        return not (
            self.replaced
            or self.roles
            or self.is_full
            or self.metadata
            or self.deleted
            or self.are_brokers_changed
            or self.stopped
        )


TOPIC_IS_DELETED = -2  # the leader epoch that says so in StopReplica, and the leader that says so in UpdateMetadata


def difference(before: ClusterImage | None, after: ClusterImage, broker_id: BrokerId) -> Told:
    """What to tell a broker that has taken `before`, or nothing yet in this life of it. Costs as much as was changed."""
    if before is None:
        return _everything(after, broker_id)
    if before is after:
        return Told()
    telling = _Telling(before, after, broker_id)
    if before.topics is not after.topics:
        telling.compare_topics()
    if before.offline is not after.offline or before.shutting_down != after.shutting_down:
        telling.stop_unserved()
    return telling.told()


def _everything(image: ClusterImage, broker_id: BrokerId) -> Told:
    return Told(
        roles=tuple(
            Role(topic_partition=partition, state=state, is_new=state.partition_epoch == 0)
            for partition, state in partitions_of(image, broker_id)
        ),
        is_full=True,
        metadata=tuple(
            (TopicPartition(name, index), state)
            for name, topic in image.topics.items()
            for index, state in topic.partitions.items()
        ),
        are_brokers_changed=True,
    )


class _Telling:
    """Collects the entries; partitions that are the same object in both images cost one look."""

    def __init__(self, before: ClusterImage, after: ClusterImage, broker_id: BrokerId) -> None:
        self._before = before
        self._after = after
        self._broker_id = broker_id
        self._replaced: list[StoppedReplica] = []
        self._roles: list[Role] = []
        self._metadata: list[tuple[TopicPartition, PartitionState]] = []
        self._deleted: list[tuple[TopicPartition, PartitionState]] = []
        self._stopped: dict[TopicPartition, StoppedReplica] = {}

    def told(self) -> Told:
        before, after = self._before, self._after
        return Told(
            replaced=tuple(self._replaced),
            roles=tuple(self._roles),
            metadata=tuple(self._metadata),
            deleted=tuple(self._deleted),
            are_brokers_changed=before.brokers != after.brokers or before.controller_epoch != after.controller_epoch,
            stopped=tuple(self._stopped.values()),
        )

    def compare_topics(self) -> None:
        for name, topic in self._after.topics.items():
            known = self._before.topics.get(name)
            if known is topic:
                continue
            if known is not None and known.topic_id != topic.topic_id:
                self._replaced += self._removed(known)
                known = None
            for index, state in topic.partitions.items():
                old = None if known is None else known.partitions.get(index)
                if old is not state and old != state:
                    self._compare(TopicPartition(name, index), old, state)
        for name, topic in self._before.topics.items():
            if name not in self._after.topics:
                self._deleted += ((TopicPartition(name, index), state) for index, state in topic.partitions.items())
                self._stopped.update((one.topic_partition, one) for one in self._removed(topic))

    def stop_unserved(self) -> None:
        """Stop what the broker followed until it began to leave, and what its disks do not serve any more."""
        newly_leaving = self._broker_id in self._after.shutting_down - self._before.shutting_down
        for partition, state in partitions_of(self._after, self._broker_id) if newly_leaving else ():
            if state.leader != self._broker_id:
                self._stop(partition, state)
        for partition, brokers in self._after.offline.items():
            state_now = self._after.state_of(partition)
            was_offline = self._broker_id in self._before.offline.get(partition, ())
            if state_now is not None and self._broker_id in brokers and not was_offline:
                self._stop(partition, state_now)

    def _compare(self, partition: TopicPartition, old: PartitionState | None, state: PartitionState) -> None:
        self._metadata.append((partition, state))
        had = old is not None and self._broker_id in old.assignment
        if self._broker_id not in state.assignment:
            if had:
                self._stop(partition, state, is_deleted=True)
        elif not self._is_served(partition, state):
            self._stop(partition, state)
        elif old is None or not had or self._is_news(old, state):
            self._roles.append(Role(topic_partition=partition, state=state, is_new=not had))

    def _is_news(self, old: PartitionState, state: PartitionState) -> bool:
        """Followers need only hear of other leader epochs. A leader builds its next proposal on the newest partition epoch: what we changed

        ourselves it must hear, and the answer to what it proposed may have been lost.
        """
        is_leader = state.leader == self._broker_id
        return old.leader_epoch != state.leader_epoch or (is_leader and old.partition_epoch != state.partition_epoch)

    def _is_served(self, partition: TopicPartition, state: PartitionState) -> bool:
        is_leaving = self._broker_id in self._after.shutting_down and state.leader != self._broker_id
        return not is_leaving and self._broker_id not in self._after.offline.get(partition, ())

    def _stop(self, partition: TopicPartition, state: PartitionState, *, is_deleted: bool = False) -> None:
        self._stopped[partition] = StoppedReplica(
            topic_partition=partition, leader_epoch=state.leader_epoch, is_deleted=is_deleted
        )

    def _removed(self, topic: TopicImage) -> Iterator[StoppedReplica]:
        for index, state in topic.partitions.items():
            if self._broker_id in state.assignment:
                yield StoppedReplica(
                    topic_partition=TopicPartition(topic.name, index), leader_epoch=TOPIC_IS_DELETED, is_deleted=True
                )
