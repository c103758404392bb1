"""A room full of readers of one consumer group who obey the protocol, and what they have been told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from tests.coordinator.driving import Driver
from tidelog.coordinator import Machine
from tidelog.coordinator.group.assembly import make_group_machine
from tidelog.coordinator.group.book import TopicView
from tidelog.coordinator.group.consumer import ConsumerGroup
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.coordinator.group.records import key_version
from tidelog.coordinator.group.settings import GroupSettings
from tidelog.model import ErrorCode, TopicId
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from tidelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

GROUP = "readers"
REBALANCE_MS = 30_000
SESSION_MS = 45_000
Owned = dict[TopicId, set[int]]


class FakeTopics:
    """Topics come, grow and go."""

    def __init__(self, **partitions: int) -> None:
        self.views: dict[str, TopicView] = {}
        self.version = 0
        self.is_whole = False
        for name, count in partitions.items():
            self.put(name, count)

    def put(self, name: str, count: int, *, racks: frozenset[str] = frozenset()) -> TopicId:
        self.version += 1
        known = self.views.get(name)
        topic_id = UUID(int=1_000 + self.version) if known is None else known.topic_id
        self.views[name] = TopicView(name, topic_id, (racks,) * count)
        return topic_id

    def delete(self, name: str) -> None:
        self.version += 1
        del self.views[name]

    def by_name(self, name: str) -> TopicView | None:
        return self.views.get(name)

    def id_of(self, name: str) -> TopicId | None:
        view = self.by_name(name)
        return None if view is None else view.topic_id

    def by_id(self, topic_id: TopicId) -> TopicView | None:
        return next((view for view in self.views.values() if view.topic_id == topic_id), None)

    def names(self) -> list[str]:
        return sorted(self.views)


@dataclass
class Reader:
    """A member as a client keeps it: what it owns, and what it has heard last."""

    room: Room
    member_id: str
    topics: tuple[str, ...] = ("t",)
    regex: str | None = None
    instance_id: str | None = None
    assignor: str | None = None
    epoch: int = 0
    owned: Owned = field(default_factory=dict)
    wanted: Owned = field(default_factory=dict)  # the assignment that was heard last
    is_full_due: bool = True
    said: Owned | None = None  # what it has said last that it owns

    def request(self, **other: Any) -> ConsumerGroupHeartbeatRequest:
        """A full one when it joins or something went wrong; else only what has changed."""
        fields: dict[str, Any] = {
            "group_id": GROUP,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "instance_id": self.instance_id,
        }
        if self.is_full_due:
            fields |= {
                "rebalance_timeout_ms": REBALANCE_MS,
                "subscribed_topic_names": self.topics,
                "subscribed_topic_regex": self.regex,
                "server_assignor": self.assignor,
            }
        if self.is_full_due or self.owned != self.said:
            fields["topic_partitions"] = message(self.owned)
        return ConsumerGroupHeartbeatRequest(**(fields | other))

    def beat(self, *, is_lost: bool = False, **other: Any) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat and do what the answer says, unless it never arrives."""
        request = self.request(**other)
        response = self.room.beat(request)
        if is_lost:
            self.is_full_due = True
            return response
        if response.error_code is ErrorCode.NONE:
            self.epoch = response.member_epoch
            self.is_full_due = False
            self.said = {topic_id: set(partitions) for topic_id, partitions in self.owned.items()}
            if response.assignment is not None:
                self.wanted = partitions_of(response)
        elif response.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self.abandon()
        return response

    def settle(self, **other: Any) -> ConsumerGroupHeartbeatResponse:
        """Send one and take over at once what it says."""
        response = self.beat(**other)
        self.apply()
        return response

    def apply(self) -> None:
        """Give up what is not wanted any more, and begin with what is new."""
        self.owned = {topic_id: set(partitions) for topic_id, partitions in self.wanted.items()}

    def revoke(self) -> None:
        """Give up only."""
        kept = {topic_id: partitions & self.wanted.get(topic_id, set()) for topic_id, partitions in self.owned.items()}
        self.owned = {topic_id: partitions for topic_id, partitions in kept.items() if partitions}

    def abandon(self) -> None:
        """Let go of everything, and join anew."""
        self.epoch, self.owned, self.wanted, self.is_full_due, self.said = 0, {}, {}, True, None

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        response = self.room.beat(
            ConsumerGroupHeartbeatRequest(
                group_id=GROUP, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id
            )
        )
        self.abandon()
        return response

    @property
    def partitions(self) -> list[int]:
        """Of whatever topics it reads."""
        return sorted(partition for partitions in self.owned.values() for partition in partitions)


class Room:
    """A coordinator, topics and readers."""

    def __init__(self, settings: GroupSettings | None = None, **topics: int) -> None:
        self.topics = FakeTopics(**(topics or {"t": 4}))
        self.settings = settings or GroupSettings()
        self.randomness = SimulatedRandomness(7)
        self.machine: GroupMachine
        self.driver = Driver(self._make)

    def _make(self) -> Machine:
        self.machine = make_group_machine(self.settings, self.topics, self.randomness)
        return self.machine

    def send(self, request: Any, *, version: int = 1, client_id: str = "client") -> Any:
        return self.driver.ask(request, version=version, client_id=client_id)

    def beat(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        response = self.send(request)
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        return response

    def reader(self, member_id: str, **other: Any) -> Reader:
        return Reader(self, member_id, **other)

    @property
    def group(self) -> ConsumerGroup:
        group = self.machine._book.groups[GROUP]  # noqa: SLF001  # the state is what these tests are about
        assert isinstance(group, ConsumerGroup)
        return group

    def describe(self, group_id: str = GROUP) -> DescribedGroup:
        [described] = self.send(ConsumerGroupDescribeRequest(group_ids=(group_id,))).groups
        assert isinstance(described, DescribedGroup)
        return described

    def written(self, since: int = 0) -> list[int]:
        """The kinds of records since one; tombstones are negative."""
        return [key_version(record.key) * (1 if record.value is not None else -1) for record in self.driver.log[since:]]

    def fail_over(self) -> None:
        """Another coordinator, which has to know exactly what this one knew."""
        before = self.group
        self.driver.fail_over()
        assert self.group == before
        assert self.group is not before
        assert self.group.owners == before.owners
        assert self.group.instances == before.instances
        assert self.group.regexes == before.regexes

    def grow(self, name: str, count: int) -> None:
        self.topics.put(name, count)
        self.driver.topics_changed()

    def settle(self, *readers: Reader, rounds: int = 8) -> None:
        for _ in range(rounds):
            for reader in readers:
                reader.settle()


def message(owned: Mapping[TopicId, set[int]]) -> tuple[TopicPartitions, ...]:
    return tuple(
        TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(partitions)))
        for topic_id, partitions in owned.items()
    )


def partitions_of(response: ConsumerGroupHeartbeatResponse) -> Owned:
    assert response.assignment is not None
    found: Owned = {}
    for topic in response.assignment.topic_partitions:
        assert topic.topic_id is not None
        found[topic.topic_id] = set(topic.partitions)
    return found
