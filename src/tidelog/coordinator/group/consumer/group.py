"""A consumer group (KIP-848), as its records make it. Changed by replay only; decisions read it and write records.

Three epochs: the group's moves when members, subscriptions or topics change; the assignment's says for which of them the target was
computed; a member's says to which target it has come. What is counted along beside the records (who owns what, who supports what) is there
so that a heartbeat does not have to look through all members.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.coordinator.group.book import GroupKind
from tidelog.coordinator.group.consumer.assignors import Assignment
from tidelog.coordinator.group.consumer.member import Member
from tidelog.model import ApiError, ErrorCode, TimestampMs, TopicId

NO_EPOCH = -1


class Resolution(NamedTuple):
    """The topics that a regular expression matched, when, and in which version of what is known of topics."""

    topics: frozenset[str]
    version: int
    timestamp_ms: TimestampMs


@dataclass(slots=True)
class Seen:
    """What a coordinator has looked at already; it need not be written down, and the next one looks again."""

    topics_version: int | None = None  # to which the metadata hash belongs
    resolved_version: int | None = None  # of the topics, in which an expression was resolved last
    resolved: set[str] = field(default_factory=set)  # which expressions were resolved in it


@dataclass(slots=True)
class ConsumerGroup:
    """Two groups are equal if their records are."""

    group_id: str
    epoch: int = 0
    metadata_hash: int = 0
    assignment_epoch: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    targets: dict[str, Assignment] = field(default_factory=dict)
    resolutions: dict[str, Resolution] = field(default_factory=dict)
    has_partition_metadata: bool = False  # a record of Kafka 4.0, to be deleted at the next occasion

    instances: dict[str, str] = field(default_factory=dict, compare=False)  # ids of static members
    owners: dict[TopicId, dict[int, str]] = field(default_factory=dict, compare=False)
    assignors: Counter[str] = field(default_factory=Counter, compare=False)
    regexes: Counter[str] = field(default_factory=Counter, compare=False)  # how many members subscribe to each
    classic_support: Counter[str] = field(default_factory=Counter, compare=False)  # members by classic protocol
    classic_count: int = field(default=0, compare=False)
    seen: Seen = field(default_factory=Seen, compare=False)
    join_deadlines: dict[str, float] = field(default_factory=dict, compare=False)  # of classic members told to rejoin

    # What every group has.

    @property
    def kind(self) -> GroupKind:
        """Consumer."""
        return GroupKind.CONSUMER

    @property
    def protocol_type(self) -> str:
        """Of consumers."""
        return "consumer"

    @property
    def state_name(self) -> str:
        """As Kafka's tools print it."""
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    @property
    def empty_since_ms(self) -> TimestampMs | None:
        """Nobody writes it down: offsets expire by when they were committed."""
        return None

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member is, by name or by what its expression matched."""
        return topic in self.subscribed_topics()

    def check_commit(self, *, member_id: str, instance_id: str | None, epoch: int, is_transactional: bool) -> None:
        """Members at their present epoch may; of an empty group anybody may. Raises ApiError."""
        if epoch < 0 and not self.members:
            return
        if is_transactional and epoch < 0 and not member_id and instance_id is None:
            return
        self._check_epoch(member_id, epoch)

    def check_fetch(self, *, member_id: str | None, epoch: int) -> None:
        """Members at their present epoch may, and whoever does not say that it is one. Raises ApiError."""
        if epoch < 0 and not member_id:
            return
        self._check_epoch(member_id or "", epoch)

    def _check_epoch(self, member_id: str, epoch: int) -> None:
        member = self.member(member_id)
        if epoch != member.epoch:
            is_classic = member.classic is not None
            raise ApiError(ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH)

    # Members.

    def member(self, member_id: str) -> Member:
        """One of its members. Raises ApiError if it is none."""
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not a member of {self.group_id}.")
        return member

    def static_member(self, instance_id: str | None) -> Member | None:
        """Who has this place, be it that it is away."""
        member_id = None if instance_id is None else self.instances.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def owner(self, topic_id: TopicId, partition: int) -> str | None:
        """Who has a partition or has yet to give it up."""
        owners = self.owners.get(topic_id)
        return None if owners is None else owners.get(partition)

    def subscribed_topics(self) -> frozenset[str]:
        """The names that all members subscribe to, in either way."""
        return frozenset(names_of(self.members.values(), self.resolutions))

    def is_resolved_in(self, topics_version: int) -> bool:
        """Whether all expressions were, and not only the one of somebody who has just joined."""
        seen = self.seen
        return seen.resolved_version == topics_version and len(seen.resolved) == len(self.resolutions)

    # Replay.

    def put_resolution(self, regex: str, resolution: Resolution) -> None:
        """An expression was resolved."""
        if self.seen.resolved_version != resolution.version:
            self.seen.resolved_version, self.seen.resolved = resolution.version, set()
        self.seen.resolved.add(regex)
        self.resolutions[regex] = resolution

    def drop_resolution(self, regex: str) -> None:
        """Nobody subscribes to an expression any more."""
        self.seen.resolved.discard(regex)
        self.resolutions.pop(regex, None)

    def put_member(self, member: Member) -> None:
        """A member that is new or has changed."""
        former = self.members.get(member.member_id)
        if former is not None:
            self._forget(former)
        self.members[member.member_id] = member
        self.join_deadlines.pop(member.member_id, None)
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id
        for topic_id, partition in _partitions(member):
            self.owners.setdefault(topic_id, {})[partition] = member.member_id
        self._count(member, 1)

    def remove_member(self, member_id: str) -> None:
        """A member is gone; so is its target, whatever the order of their records."""
        member = self.members.pop(member_id, None)
        self.join_deadlines.pop(member_id, None)
        if member is not None:
            self._forget(member)

    def _forget(self, member: Member) -> None:
        """Take away what was counted. Places and partitions that another has taken over stay with it."""
        if member.instance_id is not None and self.instances.get(member.instance_id) == member.member_id:
            del self.instances[member.instance_id]
        for topic_id, partition in _partitions(member):
            owners = self.owners.get(topic_id, {})
            if owners.get(partition) == member.member_id:
                del owners[partition]
                if not owners:
                    del self.owners[topic_id]
        self._count(member, -1)

    def _count(self, member: Member, by: int) -> None:
        if member.assignor is not None:
            _add(self.assignors, member.assignor, by)
        if member.regex:
            _add(self.regexes, member.regex, by)
        if member.classic is not None:
            self.classic_count += by
            for protocol in member.classic.supported_protocols:
                _add(self.classic_support, protocol.name, by)


def names_of(members: Iterable[Member], resolutions: dict[str, Resolution]) -> set[str]:
    """What these members subscribe to, if expressions match that."""
    names: set[str] = set()
    regexes: set[str] = set()
    for member in members:
        names |= member.topics
        if member.regex:
            regexes.add(member.regex)
    for regex in regexes:
        if regex in resolutions:
            names |= resolutions[regex].topics
    return names


def _partitions(member: Member) -> Iterator[tuple[TopicId, int]]:
    for assignment in (member.assigned, member.revoking):
        for topic_id, partitions in assignment.items():
            for partition in partitions:
                yield topic_id, partition


def _add(counter: Counter[str], key: str, by: int) -> None:
    counter[key] += by
    if not counter[key]:
        del counter[key]
