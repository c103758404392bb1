"""The controller: what should be written to the registry, and what the cluster is once it is written. It changes nothing itself.

A decision is a list of writes. Each write is atomic and guarded by the controller epoch; between two of them the process may die. So the
writes are ordered so that what is there after any of them is something the next start completes:

- Creating and growing: settings and assignment first, then the partitions' states. A partition without a state is a new one.
- Deleting: the mark first, then the leaves, the topic, and the mark last. A marked topic is deleted further.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, TypeAlias, TypeVar

from tidelog.config import BrokerConfig
from tidelog.controller import layout
from tidelog.controller.alteration import ConfigAlteration, ConfigEntity, altered_broker, altered_topic
from tidelog.controller.growth import MorePartitions, added_assignments
from tidelog.controller.image import NO_BROKER, ClusterImage, PartitionState, TopicImage
from tidelog.controller.placement import Assignment, place_replicas
from tidelog.controller.topics import (
    NewTopic,
    TakenNames,
    TopicResult,
    check_assignments,
    check_configs,
    check_name,
    counts,
)
from tidelog.model import ApiError, BrokerId, ErrorCode, TopicId
from tidelog.registry import Create, Delete, Operation, Set
from tidelog.runtime import Randomness

T = TypeVar("T")

PARTITIONS_PER_WRITE: Final = 200  # keeps a write well below the data one request to a ZooKeeper may hold

Write: TypeAlias = tuple[Operation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopics:
    """Make these topics. Whoever only wants to know whether they could be made performs none of the writes."""

    topics: Sequence[NewTopic]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopics:
    """Begin to delete these topics: from now on they do not exist for anybody, and a mark promises the rest."""

    names: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeaders:
    """Find a leader for each partition that has none alive; a broker that has restarted is dead to what it led before."""

    restarted: frozenset[BrokerId] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitions:
    """Give these topics more partitions."""

    topics: Sequence[MorePartitions]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigs:
    """Change the settings of these topics and brokers, each for itself."""

    alterations: Sequence[ConfigAlteration]


Command: TypeAlias = CreateTopics | DeleteTopics | ElectLeaders | CreatePartitions | AlterConfigs


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to write, in this order, what the cluster then is, and what to answer.

    Writes are encoded one by one as they are asked for: all states of a large topic take longer than the loop may be held.
    """

    writes: Iterable[Write]
    image: ClusterImage
    results: tuple[TopicResult, ...] = ()  # of topics that come or go
    errors: tuple[ApiError | None, ...] = ()  # of what is changed: per item, why it is not


class Controller:
    """Decides for one reign, on the image it was loaded with; whoever performed the writes gives back the new image."""

    def __init__(self, config: BrokerConfig, image: ClusterImage, randomness: Randomness) -> None:
        self._static_config = config
        self._config = config
        self._randomness = randomness
        self.image = image

    @property
    def config(self) -> BrokerConfig:
        """The settings that hold now."""
        return self.image.layers_of(self._static_config).merged()

    def decide(self, command: Command) -> Decision:
        """What follows from a command."""
        self._config = self.config
        match command:
            case CreateTopics(topics=topics):
                return self._create(topics)
            case DeleteTopics(names=names):
                return self._delete(names)
            case ElectLeaders(restarted=restarted):
                return self._elect(restarted)
            case CreatePartitions(topics=growing):
                return self._grow(growing)
            case AlterConfigs(alterations=alterations):
                return self._alter(alterations)

    def _create(self, topics: Sequence[NewTopic]) -> Decision:
        taken = TakenNames(self.image.topics)
        made: list[TopicImage] = []
        results: list[TopicResult] = []
        for wanted in topics:
            try:
                topic = self._new_topic(wanted, taken)
            except ApiError as error:
                results.append(TopicResult(name=wanted.name, error=error))
                continue
            taken.add(topic.name)
            made.append(topic)
            results.append(
                TopicResult(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_count=len(topic.partitions),
                    replication_factor=topic.replication_factor,
                )
            )
        epoch = self.image.controller_epoch
        return Decision(
            writes=(write for topic in made for write in creation_writes(topic, epoch)),
            image=self.image.with_topics(made) if made else self.image,
            results=tuple(results),
        )

    def _new_topic(self, wanted: NewTopic, taken: TakenNames) -> TopicImage:
        check_name(wanted.name)
        taken.check(wanted.name)
        configs = check_configs(wanted, self._config)
        assignments = self._assignments(wanted)
        topic_id = self._randomness.uuid()
        live = frozenset(self.image.brokers)
        return TopicImage(
            name=wanted.name,
            topic_id=topic_id,
            configs=configs,
            partitions={
                index: new_partition(topic_id, assignment, live) for index, assignment in enumerate(assignments)
            },
        )

    def _assignments(self, wanted: NewTopic) -> list[Assignment]:
        brokers = self.image.brokers
        if wanted.assignments:
            assignments = check_assignments(wanted, brokers)
            self._check_policy(len(assignments))
            return assignments
        partition_count, replication_factor = counts(wanted, self._config)
        self._check_policy(partition_count)
        return place_replicas(
            {broker_id: broker.rack for broker_id, broker in brokers.items()},
            partition_count=partition_count,
            replication_factor=replication_factor,
            start=self._randomness.below(max(1, len(brokers))),
            shift=self._randomness.below(max(1, len(brokers))),
        )

    def _check_policy(self, partition_count: int) -> None:
        limit = self._config.partitions_per_topic_max
        if partition_count > limit:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"{partition_count} partitions are more than tidelog.topic.partitions.max = {limit}.",
            )

    def _delete(self, names: Sequence[str]) -> Decision:
        results = [self._deletion(name) for name in names]
        gone = dict.fromkeys(result.name for result in results if result.error is None)
        marks = [Create(layout.deletion_path(name)) for name in gone]
        image = self.image.without_topics(gone) if gone else self.image
        return Decision(writes=_chunks(marks, PARTITIONS_PER_WRITE), image=image, results=tuple(results))

    def _deletion(self, name: str) -> TopicResult:
        topic = self.image.topics.get(name)
        if topic is None:
            return TopicResult(name=name, error=ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        if not self._config.delete_topic_enable:
            return TopicResult(
                name=name, error=ApiError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
            )
        return TopicResult(name=name, topic_id=topic.topic_id)

    def _elect(self, restarted: frozenset[BrokerId]) -> Decision:
        live = frozenset(self.image.brokers)
        operations: list[Operation] = []
        changed: list[TopicImage] = []
        for topic in self.image.topics.values():
            unclean = topic.log_config(self._config).unclean_leader_election_enable
            elected = {
                index: elect(state, live, unclean=unclean)
                for index, state in topic.partitions.items()
                if state.leader not in live or state.leader in restarted
            }
            elected = {index: state for index, state in elected.items() if state != topic.partitions[index]}
            if elected:
                changed.append(dataclasses.replace(topic, partitions={**topic.partitions, **elected}))
                operations += election_operations(topic.name, elected, self.image.controller_epoch)
        image = self.image.with_topics(changed) if changed else self.image
        return Decision(writes=_chunks(operations, PARTITIONS_PER_WRITE), image=image)

    def _grow(self, growing: Sequence[MorePartitions]) -> Decision:
        live = frozenset(self.image.brokers)
        grown: list[tuple[TopicImage, int]] = []
        errors: list[ApiError | None] = []
        room = self._config.partitions_per_request_max
        for wanted in growing:
            try:
                topic, added = self._added(wanted, room)
            except ApiError as error:
                errors.append(error)
                continue
            first, room = len(topic.partitions), room - len(added)
            states = {first + step: new_partition(topic.topic_id, one, live) for step, one in enumerate(added)}
            grown.append((dataclasses.replace(topic, partitions={**topic.partitions, **states}), first))
            errors.append(None)
        epoch = self.image.controller_epoch
        return Decision(
            writes=(write for topic, first in grown for write in growth_writes(topic, first, epoch)),
            image=self.image.with_topics(topic for topic, _ in grown) if grown else self.image,
            errors=tuple(errors),
        )

    def _added(self, wanted: MorePartitions, room: int) -> tuple[TopicImage, list[Assignment]]:
        topic = self.image.topics.get(wanted.name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{wanted.name}' does not exist.")
        self._check_policy(wanted.count)
        if wanted.count - len(topic.partitions) > room:
            raise ApiError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
        return topic, added_assignments(topic, wanted, self.image.brokers)

    def _alter(self, alterations: Sequence[ConfigAlteration]) -> Decision:
        image = self.image
        writes: list[Write] = []
        errors: list[ApiError | None] = []
        for alteration in alterations:
            try:
                changed, write = self._alteration(image, alteration)
            except ApiError as error:
                errors.append(error)
                continue
            errors.append(None)
            if write:
                image = changed
                writes.append(write)
        return Decision(writes=writes, image=image, errors=tuple(errors))

    def _alteration(self, image: ClusterImage, alteration: ConfigAlteration) -> tuple[ClusterImage, Write]:
        """The image with one resource altered, and the write that does it; empty if nothing changes."""
        name = alteration.name
        if alteration.entity is ConfigEntity.BROKER:
            known = image.broker_configs.get(name)
            configs = altered_broker(image, alteration, self._static_config)
            path = layout.broker_config_path(name)
            changed = image.with_broker_configs(name, configs)
        else:
            configs = altered_topic(image, alteration, image.layers_of(self._static_config))
            path = layout.topic_config_path(name)
            known = image.topics[name].configs
            changed = image.with_topics([dataclasses.replace(image.topics[name], configs=configs)])
        if configs == (known or {}):
            return image, ()
        content = layout.encode_configs(configs)
        notification = Create(layout.CHANGE_NOTIFICATION, layout.encode_change(path), sequential=True)
        return changed, (Create(path, content) if known is None else Set(path, content), notification)


def new_partition(topic_id: TopicId, assignment: Assignment, live: frozenset[BrokerId]) -> PartitionState:
    """A partition nobody has written to: led by its first live replica, all live ones in sync."""
    isr = tuple(broker for broker in assignment if broker in live)
    return PartitionState(
        topic_id=topic_id,
        assignment=assignment,
        leader=isr[0] if isr else NO_BROKER,
        leader_epoch=0,
        isr=isr or assignment,
        partition_epoch=0,
    )


def elect(state: PartitionState, live: frozenset[BrokerId], *, unclean: bool) -> PartitionState:
    """The partition under its next leader: the first live replica of the ISR in order of assignment.

    Without one, the first live replica if `unclean` allows it to forget what only the others have; else nobody, and the ISR stays as it is,
    since only its members can come back cleanly.
    """
    replicas = [broker for broker in state.assignment if broker in live]
    in_sync = [broker for broker in replicas if broker in state.isr]
    if in_sync:
        leader, isr = in_sync[0], tuple(broker for broker in state.isr if broker in live)
    elif unclean and replicas:
        leader, isr = replicas[0], (replicas[0],)
    elif state.has_leader:
        leader, isr = NO_BROKER, state.isr
    else:
        return state
    return dataclasses.replace(
        state,
        leader=leader,
        leader_epoch=state.leader_epoch + 1,
        isr=isr,
        partition_epoch=state.partition_epoch + 1,
    )


def creation_writes(topic: TopicImage, controller_epoch: int) -> Iterator[Write]:
    """The writes that make a topic: what it is, with its first partitions, then the other partitions. Mostly there are none."""
    assignments = {index: state.assignment for index, state in topic.partitions.items()}
    head: Write = (
        Create(layout.topic_config_path(topic.name), layout.encode_configs(topic.configs)),
        Create(layout.topic_path(topic.name), layout.encode_topic(topic.topic_id, assignments)),
        Create(layout.partitions_path(topic.name)),
    )
    return _with_states(head, topic.name, list(topic.partitions.items()), controller_epoch)


def growth_writes(topic: TopicImage, first: int, controller_epoch: int) -> Iterator[Write]:
    """The writes that give a topic its partitions from `first` on."""
    assignments = {index: state.assignment for index, state in topic.partitions.items()}
    head: Write = (Set(layout.topic_path(topic.name), layout.encode_topic(topic.topic_id, assignments)),)
    added = [(index, state) for index, state in topic.partitions.items() if index >= first]
    return _with_states(head, topic.name, added, controller_epoch)


def _with_states(
    head: Write, topic: str, partitions: Sequence[tuple[int, PartitionState]], controller_epoch: int
) -> Iterator[Write]:
    for chunk in _chunks(partitions, PARTITIONS_PER_WRITE):
        states = (state_creation(topic, index, state, controller_epoch) for index, state in chunk)
        yield (*head, *chain.from_iterable(states))
        head = ()


def state_creation(topic: str, index: int, state: PartitionState, controller_epoch: int) -> Write:
    """The operations that make one partition's state."""
    return (
        Create(layout.partition_path(topic, index)),
        Create(layout.state_path(topic, index), layout.encode_state(state, controller_epoch)),
    )


def election_operations(
    topic: str, elected: Mapping[int, PartitionState], controller_epoch: int
) -> Iterator[Operation]:
    """The operations that write newly elected states over the ones they were decided on."""
    for index, state in elected.items():
        content = layout.encode_state(state, controller_epoch)
        yield Set(layout.state_path(topic, index), content, version=state.partition_epoch - 1)


def deletion_writes(topic: str, existing: Sequence[str]) -> Iterator[Write]:
    """The writes that remove a marked topic, whose nodes still there are `existing`: leaves first, the mark last."""
    last = (layout.topic_path(topic), layout.topic_config_path(topic), layout.deletion_path(topic))
    parts = sorted((path for path in existing if path not in last), reverse=True)
    ends = [path for path in last if path in existing]
    return _chunks([Delete(path) for path in (*parts, *ends)], 2 * PARTITIONS_PER_WRITE)


def _chunks(items: Sequence[T], size: int) -> Iterator[tuple[T, ...]]:
    return (tuple(items[start : start + size]) for start in range(0, len(items), size))
