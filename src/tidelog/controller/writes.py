"""The writes of decisions. Each is atomic and guarded by the controller epoch; between two of them the process may die.

So they are ordered so that what is there after any of them is something the next controller completes:

- Creating and growing: settings and assignment first, then the partitions' states. A partition without a state is a new one.
- Deleting: the mark first, then the leaves, the topic, and the mark last. A marked topic is deleted further.
- A partition's state and, where it changes too, its assignment are one write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, TypeVar

from tidelog.controller import layout
from tidelog.controller.commands import Change, Decision, Write
from tidelog.controller.image import ClusterImage, PartitionState, TopicImage
from tidelog.model import TopicPartition
from tidelog.registry import Create, Delete, Operation, Set

T = TypeVar("T")

PARTITIONS_PER_WRITE: Final = 200  # keeps a write well below the data one request to a ZooKeeper may hold
BYTES_PER_WRITE: Final = 256 * 1024  # a write that has come as far as this is not added to


def creation_writes(topic: TopicImage, controller_epoch: int) -> Iterator[Write]:
    """The writes that make a topic: what it is, with its first partitions, then the other partitions. Mostly there are none."""
    head: Write = (
        Create(layout.topic_config_path(topic.name), layout.encode_configs(topic.configs)),
        Create(layout.topic_path(topic.name), layout.encode_topic(topic.topic_id, topic.partitions)),
        Create(layout.partitions_path(topic.name)),
    )
    return _with_states(head, topic.name, list(topic.partitions.items()), controller_epoch)


def growth_writes(topic: TopicImage, first: int, controller_epoch: int) -> Iterator[Write]:
    """The writes that give a topic its partitions from `first` on."""
    head: Write = (Set(layout.topic_path(topic.name), layout.encode_topic(topic.topic_id, topic.partitions)),)
    added = [(index, state) for index, state in topic.partitions.items() if index >= first]
    return _with_states(head, topic.name, added, controller_epoch)


def _with_states(
    head: Write, topic: str, partitions: Sequence[tuple[int, PartitionState]], controller_epoch: int
) -> Iterator[Write]:
    for chunk in chunks(partitions, PARTITIONS_PER_WRITE):
        states = (state_creation(topic, index, state, controller_epoch) for index, state in chunk)
        yield (*head, *chain.from_iterable(states))
        head = ()


def state_creation(topic: str, index: int, state: PartitionState, controller_epoch: int) -> Write:
    """The operations that make one partition's state."""
    return (
        Create(layout.partition_path(topic, index)),
        Create(layout.state_path(topic, index), layout.encode_state(state, controller_epoch)),
    )


def deletion_writes(topic: str, existing: Sequence[str]) -> Iterator[Write]:
    """The writes that remove a marked topic, whose nodes still there are `existing`: leaves first, the mark last."""
    last = (layout.topic_path(topic), layout.topic_config_path(topic), layout.deletion_path(topic))
    parts = sorted((path for path in existing if path not in last), reverse=True)
    ends = [path for path in last if path in existing]
    return chunks([Delete(path) for path in (*parts, *ends)], 2 * PARTITIONS_PER_WRITE)


def state_set(partition: TopicPartition, after: PartitionState, controller_epoch: int) -> Set:
    """The operation that writes a state over the one it was decided on."""
    return Set(
        layout.state_path(partition.topic, partition.index),
        layout.encode_state(after, controller_epoch),
        version=after.partition_epoch - 1,
    )


class StateChanges:
    """States of partitions that a decision replaces, and what follows from that: the image and the writes, in time linear in the changes."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._changes: dict[str, dict[int, Change]] = {}

    def put(self, partition: TopicPartition, before: PartitionState, after: PartitionState) -> bool:
        """Take note of a partition's next state; whether it is another one. Each partition once."""
        if after is before:
            return False
        change = Change(topic_partition=partition, before=before, after=after)
        self._changes.setdefault(partition.topic, {})[partition.index] = change
        return True

    def image(self) -> ClusterImage:
        """The image with the new states."""
        return self._image.with_topics(self._topics().values()) if self._changes else self._image

    def all(self) -> tuple[Change, ...]:
        """The changes, topic by topic."""
        return tuple(chain.from_iterable(changes.values() for changes in self._changes.values()))

    def decision(self) -> Decision:
        """What all this comes to."""
        topics = self._topics()
        image = self._image.with_topics(topics.values()) if topics else self._image
        return Decision(writes=self._writes(topics), image=image, changes=self.all())

    def operations(self) -> Iterator[Operation]:
        """The operations that write the states."""
        return (state_set(one.topic_partition, one.after, self._image.controller_epoch) for one in self.all())

    def _topics(self) -> dict[str, TopicImage]:
        return {
            name: self._image.topics[name].with_states({index: one.after for index, one in changes.items()})
            for name, changes in self._changes.items()
        }

    def _writes(self, topics: Mapping[str, TopicImage]) -> Iterator[Write]:
        """The changes of a topic are always in one write, since they may share a change of its assignment."""
        write: list[Operation] = []
        size = 0
        for name, changes in self._changes.items():
            operations = list(self._operations(topics[name], changes.values()))
            write += operations
            size += sum(len(one.data) for one in operations)
            if len(write) >= PARTITIONS_PER_WRITE or size >= BYTES_PER_WRITE:
                yield tuple(write)
                write, size = [], 0
        if write:
            yield tuple(write)

    def _operations(self, topic: TopicImage, changes: Iterable[Change]) -> Iterator[Set]:
        moved = False
        for change in changes:
            moved = moved or _is_moved(change)
            yield state_set(change.topic_partition, change.after, self._image.controller_epoch)
        if moved:
            yield Set(layout.topic_path(topic.name), layout.encode_topic(topic.topic_id, topic.partitions))


def _is_moved(change: Change) -> bool:
    before, after = change.before, change.after
    return (before.assignment, before.adding, before.removing) != (after.assignment, after.adding, after.removing)


def chunks(items: Sequence[T], size: int) -> Iterator[tuple[T, ...]]:
    """The items in pieces."""
    return (tuple(items[start : start + size]) for start in range(0, len(items), size))
