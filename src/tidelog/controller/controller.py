"""The controller: what should be written to the registry, and what the cluster is once it is written. It changes nothing itself.

A decision is a list of writes. Each write is atomic and guarded by the controller epoch; between two of them the process may die. So the
writes are ordered so that what is there after any of them is something the next start completes:

- Creating: settings and assignment first, then the partitions' states. An assignment without states is a topic whose partitions are new.
- Deleting: the mark first, then the parts, then topic, settings and mark together. A marked topic is deleted further.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from tidelog.config import BrokerConfig
from tidelog.controller import layout
from tidelog.controller.image import NO_BROKER, ClusterImage, PartitionState, TopicImage
from tidelog.controller.placement import Assignment, place_replicas
from tidelog.controller.topics import (
    NewTopic,
    TopicResult,
    check_assignments,
    check_configs,
    check_name,
    check_not_taken,
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
    """Make these topics, or only check that it could be done."""

    topics: Sequence[NewTopic]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopics:
    """Begin to delete these topics: from now on they do not exist for anybody, and a mark promises the rest."""

    names: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeaders:
    """Find a leader for each partition that has none alive; a broker that has restarted is dead to what it led before."""

    restarted: frozenset[BrokerId] = frozenset()


Command: TypeAlias = CreateTopics | DeleteTopics | ElectLeaders


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to write, in this order, what the cluster then is, and what to answer."""

    writes: tuple[Write, ...]
    image: ClusterImage
    results: tuple[TopicResult, ...] = ()


class Controller:
    """Decides for one reign, on the image it was loaded with; whoever performed the writes gives back the new image."""

    def __init__(self, config: BrokerConfig, image: ClusterImage, randomness: Randomness) -> None:
        self._config = config
        self._randomness = randomness
        self.image = image

    def decide(self, command: Command) -> Decision:
        """What follows from a command."""
        match command:
            case CreateTopics(topics=topics, validate_only=validate_only):
                return self._create(topics, validate_only=validate_only)
            case DeleteTopics(names=names):
                return self._delete(names)
            case ElectLeaders(restarted=restarted):
                return self._elect(restarted)

    def _create(self, topics: Sequence[NewTopic], *, validate_only: bool) -> Decision:
        if self._partitions_asked_for(topics) > self._config.partitions_per_request_max:
            error = ApiError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
            refused = tuple(TopicResult(name=wanted.name, error=error) for wanted in topics)
            return Decision(writes=(), image=self.image, results=refused)
        image, writes, results = self.image, list[Write](), list[TopicResult]()
        for wanted in topics:
            try:
                topic = self._new_topic(wanted, image)
            except ApiError as error:
                results.append(TopicResult(name=wanted.name, error=error))
                continue
            image = image.with_topics([topic])
            writes += creation_writes(topic, image.controller_epoch)
            results.append(
                TopicResult(
                    name=topic.name,
                    topic_id=None if validate_only else topic.topic_id,
                    partition_count=len(topic.partitions),
                    replication_factor=topic.replication_factor,
                )
            )
        if validate_only:
            return Decision(writes=(), image=self.image, results=tuple(results))
        return Decision(writes=tuple(writes), image=image, results=tuple(results))

    def _partitions_asked_for(self, topics: Sequence[NewTopic]) -> int:
        default = self._config.num_partitions
        return sum(
            len(topic.assignments) or (topic.num_partitions if topic.num_partitions > 0 else default)
            for topic in topics
        )

    def _new_topic(self, wanted: NewTopic, image: ClusterImage) -> TopicImage:
        check_name(wanted.name)
        check_not_taken(wanted.name, image.topics)
        configs = check_configs(wanted, self._config)
        assignments = self._assignments(wanted, image)
        topic_id = self._randomness.uuid()
        live = image.brokers.keys()
        return TopicImage(
            name=wanted.name,
            topic_id=topic_id,
            configs=configs,
            partitions={
                index: new_partition(topic_id, assignment, live) for index, assignment in enumerate(assignments)
            },
        )

    def _assignments(self, wanted: NewTopic, image: ClusterImage) -> list[Assignment]:
        if wanted.assignments:
            assignments = check_assignments(wanted, image.brokers)
            self._check_policy(len(assignments))
            return assignments
        partition_count, replication_factor = counts(wanted, self._config)
        self._check_policy(partition_count)
        return place_replicas(
            {broker_id: broker.rack for broker_id, broker in image.brokers.items()},
            partition_count=partition_count,
            replication_factor=replication_factor,
            start=self._randomness.below(max(1, len(image.brokers))),
            shift=self._randomness.below(max(1, len(image.brokers))),
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
        writes = tuple((Create(layout.deletion_path(name)),) for name in gone)
        return Decision(writes=writes, image=self.image.without_topics(gone), results=tuple(results))

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
        live = self.image.brokers.keys()
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
        writes = tuple(_chunks(operations, PARTITIONS_PER_WRITE))
        return Decision(writes=writes, image=self.image.with_topics(changed))


def new_partition(topic_id: TopicId, assignment: Assignment, live: Iterable[BrokerId]) -> PartitionState:
    """A partition nobody has written to: led by its first live replica, all live ones in sync."""
    alive = frozenset(live)
    isr = tuple(broker for broker in assignment if broker in alive)
    return PartitionState(
        topic_id=topic_id,
        assignment=assignment,
        leader=isr[0] if isr else NO_BROKER,
        leader_epoch=0,
        isr=isr or assignment,
        partition_epoch=0,
    )


def elect(state: PartitionState, live: Iterable[BrokerId], *, unclean: bool) -> PartitionState:
    """The partition under its next leader: the first live replica of the ISR in order of assignment.

    Without one, the first live replica if `unclean` allows it to forget what only the others have; else nobody, and the ISR stays as it is,
    since only its members can come back cleanly.
    """
    alive = frozenset(live)
    clean = [broker for broker in state.assignment if broker in alive and broker in state.isr]
    others = [broker for broker in state.assignment if broker in alive]
    if clean:
        leader, isr = clean[0], tuple(broker for broker in state.isr if broker in alive)
    elif unclean and others:
        leader, isr = others[0], (others[0],)
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
    """The writes that make a topic: first what it is, then who leads its partitions."""
    assignments = {index: state.assignment for index, state in topic.partitions.items()}
    yield (
        Create(layout.topic_config_path(topic.name), layout.encode_configs(topic.configs)),
        Create(layout.topic_path(topic.name), layout.encode_topic(topic.topic_id, assignments)),
        Create(layout.partitions_path(topic.name)),
    )
    for chunk in _chunks(list(topic.partitions.items()), PARTITIONS_PER_WRITE):
        yield tuple(
            operation
            for index, state in chunk
            for operation in state_creation(topic.name, index, state, controller_epoch)
        )


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
    for chunk in _chunks(parts, 2 * PARTITIONS_PER_WRITE):
        yield tuple(Delete(path) for path in chunk)
    yield tuple(Delete(path) for path in last if path in existing)


def _chunks(items: Sequence[T], size: int) -> Iterator[tuple[T, ...]]:
    return (tuple(items[start : start + size]) for start in range(0, len(items), size))
