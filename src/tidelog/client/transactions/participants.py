"""What one transaction writes to, and what its coordinator knows of that. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.model import ProducerIdentity, TopicPartition


class Participants:
    """Partitions and groups of one transaction, which `writer` writes.

    In version 2 of the protocol (KIP-890) leaders add their partitions by themselves; before, the coordinator must be told of a partition
    before anything is written to it.
    """

    def __init__(self, writer: ProducerIdentity | None = None, *, is_version_two: bool = False) -> None:
        self.writer = writer
        self.is_version_two = is_version_two
        self.may_be_ongoing = False
        """Whether the coordinator may know of the transaction, so that it has to be ended."""
        self.is_joined = False
        """Whether the coordinator has said that it knows."""
        self._partitions: dict[TopicPartition, bool] = {}  # whether they may be written to

    @property
    def wanted(self) -> list[TopicPartition]:
        """Partitions that the coordinator must be told of."""
        return [topic_partition for topic_partition, is_added in self._partitions.items() if not is_added]

    def enlist(self, topic_partition: TopicPartition) -> bool:
        """A record for this partition was taken; returns whether it may leave at once."""
        if topic_partition not in self._partitions:
            self._partitions[topic_partition] = self.is_version_two
            if self.is_version_two:
                self.on_joining()
        return self._partitions[topic_partition]

    def may_send(self, topic_partition: TopicPartition) -> bool:
        """Whether batches of this partition may leave."""
        return self._partitions.get(topic_partition, False)

    def on_joining(self) -> None:
        """The coordinator is asked something that makes the transaction ongoing there; the answer may get lost."""
        self.may_be_ongoing = True

    def on_joined(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """It has said that it is, with these partitions."""
        self.may_be_ongoing = self.is_joined = True
        self._partitions.update(dict.fromkeys(partitions, True))

    def on_end_answered(self) -> None:
        """The coordinator knows of it no more."""
        self.may_be_ongoing = self.is_joined = False
