"""What the groups of one partition share: the groups by id, and what is known of topics."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tidelog.model import TimestampMs, TopicId


class GroupKind(enum.Enum):
    """Which protocol a group speaks, as ListGroups says it."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Group(Protocol):
    """What offsets and administration need to know of a group, whichever protocol it speaks. A value: it is replaced, not changed."""

    @property
    def group_id(self) -> str:
        """Its name."""
        ...

    @property
    def kind(self) -> GroupKind:
        """The protocol it speaks."""
        ...

    @property
    def state_name(self) -> str:
        """As Kafka's tools print it: Empty, PreparingRebalance, CompletingRebalance, Stable, Assigning, Reconciling, Dead."""
        ...

    @property
    def protocol_type(self) -> str:
        """`consumer` for consumers; empty for a group that only commits offsets."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        ...

    @property
    def empty_since_ms(self) -> TimestampMs | None:
        """When it lost its last member, by the wall clock; None while it has some, or if nobody knows."""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member is; where nobody can tell, it is."""
        ...

    def check_commit(self, *, member_id: str, instance_id: str | None, epoch: int, is_transactional: bool) -> None:
        """Whether somebody may commit offsets; `epoch` is the generation or the member epoch, -1 if none. Raises ApiError."""
        ...

    def check_fetch(self, *, member_id: str | None, epoch: int) -> None:
        """Whether somebody may ask for offsets. Raises ApiError."""
        ...


class GroupChange(NamedTuple):
    """A change in memory: the group as it is now; None if it is gone."""

    group_id: str
    group: Group | None


class TopicsSeen(NamedTuple):
    """A change in memory: which topics were there when the offsets of topics that are gone were last looked for."""

    topic_ids: dict[bytes, TopicId]


class TopicView(NamedTuple):
    """A topic as the assignors see it: the racks of the replicas of each partition."""

    name: str
    topic_id: TopicId
    racks: tuple[frozenset[str], ...]  # one per partition, in order

    @property
    def partition_count(self) -> int:
        """How many partitions it has."""
        return len(self.racks)


class Topics(Protocol):
    """The topics of the cluster as this broker knows them at present."""

    def by_name(self, name: str) -> TopicView | None:
        """The topic of this name."""
        ...

    def by_id(self, topic_id: TopicId) -> TopicView | None:
        """The topic of this id."""
        ...

    def id_of(self, name: str) -> TopicId | None:
        """The id of the topic of this name, and nothing else about it."""
        ...

    def names(self) -> list[str]:
        """All, in order."""
        ...

    @property
    def is_whole(self) -> bool:
        """Whether everything is known here that was there when this broker began to lead what it leads: what is missing was deleted since."""
        ...

    @property
    def version(self) -> int:
        """Another number whenever something about topics has changed."""
        ...


@dataclass(slots=True)
class GroupBook:
    """The groups of one partition. Changed by replay and adopt only."""

    topics: Topics
    groups: dict[str, Group] = field(default_factory=dict)
    #: The ids of topics that offsets were committed for, as soon as they are known.
    topic_ids: dict[bytes, TopicId] = field(default_factory=dict)

    def put(self, change: GroupChange) -> None:
        """Take over a change."""
        if change.group is None:
            self.groups.pop(change.group_id, None)
        else:
            self.groups[change.group_id] = change.group

    def see(self, change: TopicsSeen) -> None:
        """Take over a change."""
        self.topic_ids = change.topic_ids
