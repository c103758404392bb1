"""Topics that come, grow and go: what is decided about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidelog.config import BrokerConfig
from tidelog.controller import layout
from tidelog.controller.commands import Decision
from tidelog.controller.election import new_partition
from tidelog.controller.growth import MorePartitions, added_assignments
from tidelog.controller.image import ClusterImage, TopicImage
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
from tidelog.controller.writes import PARTITIONS_PER_WRITE, chunks, creation_writes, growth_writes
from tidelog.model import ApiError, BrokerId, ErrorCode
from tidelog.registry import Create
from tidelog.runtime import Randomness


@dataclass(frozen=True, slots=True)
class TopicMaking:
    """The image and the settings under which topics are made."""

    image: ClusterImage
    config: BrokerConfig
    randomness: Randomness

    def create(self, topics: Sequence[NewTopic]) -> Decision:
        """Make topics, each for itself."""
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

    def delete(self, names: Sequence[str]) -> Decision:
        """Mark topics as deleted, each for itself; a running reassignment goes with its topic."""
        results = [self._deletion(name) for name in names]
        gone = dict.fromkeys(result.name for result in results if result.error is None)
        marks = [Create(layout.deletion_path(name)) for name in gone]
        image = self.image.without_topics(gone) if gone else self.image
        return Decision(writes=chunks(marks, PARTITIONS_PER_WRITE), image=image, results=tuple(results))

    def grow(self, growing: Sequence[MorePartitions]) -> Decision:
        """Give topics more partitions, each for itself."""
        live = self._able()
        grown: list[tuple[TopicImage, int]] = []
        errors: list[ApiError | None] = []
        room = self.config.partitions_per_request_max
        for wanted in growing:
            try:
                topic, added = self._added(wanted, room)
            except ApiError as error:
                errors.append(error)
                continue
            first, room = len(topic.partitions), room - len(added)
            states = {first + step: new_partition(topic.topic_id, one, live) for step, one in enumerate(added)}
            grown.append((topic.with_states(states), first))
            errors.append(None)
        epoch = self.image.controller_epoch
        return Decision(
            writes=(write for topic, first in grown for write in growth_writes(topic, first, epoch)),
            image=self.image.with_topics(topic for topic, _ in grown) if grown else self.image,
            errors=tuple(errors),
        )

    def _new_topic(self, wanted: NewTopic, taken: TakenNames) -> TopicImage:
        check_name(wanted.name)
        taken.check(wanted.name)
        configs = check_configs(wanted, self.config)
        assignments = self._assignments(wanted)
        topic_id = self.randomness.uuid()
        live = self._able()
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
        partition_count, replication_factor = counts(wanted, self.config)
        self._check_policy(partition_count)
        return place_replicas(
            {broker_id: broker.rack for broker_id, broker in brokers.items()},
            partition_count=partition_count,
            replication_factor=replication_factor,
            start=self.randomness.below(max(1, len(brokers))),
            shift=self.randomness.below(max(1, len(brokers))),
        )

    def _able(self) -> frozenset[BrokerId]:
        """Who may lead new partitions and be in sync; one that is about to leave can have a replica all the same."""
        return frozenset(self.image.brokers) - self.image.shutting_down

    def _check_policy(self, partition_count: int) -> None:
        limit = self.config.partitions_per_topic_max
        if partition_count > limit:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"{partition_count} partitions are more than tidelog.topic.partitions.max = {limit}.",
            )

    def _deletion(self, name: str) -> TopicResult:
        topic = self.image.topics.get(name)
        if topic is None:
            return TopicResult(name=name, error=ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        if not self.config.delete_topic_enable:
            return TopicResult(
                name=name, error=ApiError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
            )
        return TopicResult(name=name, topic_id=topic.topic_id)

    def _added(self, wanted: MorePartitions, room: int) -> tuple[TopicImage, list[Assignment]]:
        topic = self.image.topics.get(wanted.name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{wanted.name}' does not exist.")
        if any(state.is_reassigned for state in topic.partitions.values()):
            raise ApiError(
                ErrorCode.REASSIGNMENT_IN_PROGRESS, f"A partition reassignment is in progress for topic {wanted.name}."
            )
        self._check_policy(wanted.count)
        if wanted.count - len(topic.partitions) > room:
            raise ApiError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
        return topic, added_assignments(topic, wanted, self.image.brokers)
