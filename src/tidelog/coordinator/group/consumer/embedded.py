"""What members of the classic protocol say and are told in bytes, in the words of consumer groups: ids instead of names.

The bytes are those that clients exchange through the coordinator of a classic group, so the client's own codec reads and writes them.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.client.groups.subscription_codec import (
    VERSION_MAX,
    MemberAssignment,
    read_assignment,
    read_subscription,
    write_assignment,
)
from tidelog.coordinator.group.book import Topics
from tidelog.coordinator.group.consumer.assignors import Assignment
from tidelog.model import TopicId, TopicPartition


class EmbeddedSubscription(NamedTuple):
    """What a classic member subscribes to, has, and where it stands."""

    topics: frozenset[str]
    owned: Assignment
    rack: str | None


def parse_subscription(metadata: bytes, topics: Topics) -> EmbeddedSubscription:
    """Raises MalformedMessage."""
    said = read_subscription(metadata)
    return EmbeddedSubscription(frozenset(said.topics), _by_id(said.owned, topics), said.rack or None)


def parse_assignment(assignment: bytes, topics: Topics) -> Assignment:
    """Raises MalformedMessage."""
    return _by_id(read_assignment(assignment).partitions, topics)


def encode_assignment(assignment: Assignment, metadata: bytes, topics: Topics) -> bytes:
    """In the version in which the member has said what it subscribes to."""
    version = min(max(int.from_bytes(metadata[:2], "big", signed=True), 0), VERSION_MAX)
    partitions = [
        TopicPartition(view.name, partition)
        for topic_id, indexes in assignment.items()
        if (view := topics.by_id(topic_id)) is not None
        for partition in indexes
    ]
    return write_assignment(MemberAssignment(partitions=tuple(partitions)), version=version)


def _by_id(partitions: tuple[TopicPartition, ...], topics: Topics) -> Assignment:
    """Topics that are not there have no id, and nobody has to give them up."""
    found: dict[TopicId, set[int]] = {}
    for name, partition in partitions:
        view = topics.by_name(name)
        if view is not None:
            found.setdefault(view.topic_id, set()).add(partition)
    return {topic_id: frozenset(indexes) for topic_id, indexes in found.items()}
