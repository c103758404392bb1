"""One decision about one consumer group while it is being made: the group as it is, and what will be written, told and timed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.coordinator.group.book import Topics
from tidelog.coordinator.group.consumer.assignors import Assignment
from tidelog.coordinator.group.consumer.group import ConsumerGroup
from tidelog.coordinator.group.consumer.member import Member, written
from tidelog.coordinator.group.consumer.regex import Matches
from tidelog.coordinator.group.consumer.timing import TIMERS, MemberTimer, RevocationTimer, SessionTimer
from tidelog.coordinator.group.consumer.topics import TopicHashes
from tidelog.coordinator.group.records import (
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
    consumer_group_current_member_assignment_record,
    consumer_group_member_metadata_record,
    consumer_group_metadata_record,
    consumer_group_partition_metadata_tombstone,
    consumer_group_target_assignment_member_record,
    consumer_group_target_assignment_metadata_record,
)
from tidelog.coordinator.group.settings import GroupSettings
from tidelog.coordinator.machine import CoordinatorRecord, Decision, Moment, Reply, TimerChange, Token
from tidelog.wire.definition import Response


class Surroundings(NamedTuple):
    """What all decisions look at."""

    settings: GroupSettings
    topics: Topics
    hashes: TopicHashes
    matches: Matches

    @property
    def default_assignor(self) -> str:
        """For groups whose members have no wish."""
        return next(iter(self.settings.consumer_assignors), "uniform")


@dataclass(slots=True)
class Turn:
    """Begins with a group as it is, which does not change: what happens later in a decision has to be told what happened before."""

    group: ConsumerGroup
    around: Surroundings
    now: Moment
    records: list[CoordinatorRecord] = field(default_factory=list)
    timers: dict[object, float | None] = field(default_factory=dict)
    replies: list[Reply] = field(default_factory=list)

    def decision(self, *, is_told_at_once: bool = False) -> Decision:
        """What came out."""
        return Decision(
            replies=tuple(self.replies),
            records=tuple(self.records),
            timers=tuple(TimerChange(key, at_ms) for key, at_ms in self.timers.items()),
            is_told_at_once=is_told_at_once and not self.records,
        )

    def reply(self, token: Token, response: Response) -> None:
        """Tell somebody."""
        self.replies.append(Reply(token, response))

    # Timers.

    def set_timer(self, key: MemberTimer, delay_ms: float) -> None:
        """Ring after a time."""
        self.timers[key] = self.now.monotonic_ms + max(delay_ms, 0)

    def restart_session(self, member: Member) -> None:
        """A member has given a sign of life."""
        settings = self.around.settings
        timeout_ms = (
            settings.consumer_session_timeout_ms if member.classic is None else member.classic.session_timeout_ms
        )
        self.set_timer(SessionTimer(self.group.group_id, member.member_id), timeout_ms)

    def time_revocation(self, member: Member, *, is_revoking: bool) -> None:
        """It has to give something up, or has done so. Members of the classic protocol have other timers."""
        key = RevocationTimer(self.group.group_id, member.member_id)
        if is_revoking:
            self.set_timer(key, member.rebalance_timeout_ms)
        else:
            self.timers[key] = None

    def stop_timers(self, member_id: str) -> None:
        """It is gone."""
        for timer in TIMERS:
            self.timers[timer(self.group.group_id, member_id)] = None

    # Records.

    def write_member(self, member: Member) -> None:
        """Who it is."""
        self.records.append(
            consumer_group_member_metadata_record(self.group.group_id, member.member_id, member.metadata_value())
        )

    def write_assignment(self, member: Member) -> None:
        """What it has."""
        self.records.append(
            consumer_group_current_member_assignment_record(
                self.group.group_id, member.member_id, member.assignment_value()
            )
        )

    def write_target(self, member_id: str, target: Assignment) -> None:
        """What it shall have."""
        value = ConsumerGroupTargetAssignmentMemberValue(topic_partitions=written(target))
        self.records.append(consumer_group_target_assignment_member_record(self.group.group_id, member_id, value))

    def write_target_epoch(self, epoch: int) -> None:
        """For which epoch the target is."""
        value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch)
        self.records.append(consumer_group_target_assignment_metadata_record(self.group.group_id, value))

    def write_epoch(self, epoch: int, names: Iterable[str]) -> None:
        """A new epoch, and the hash of the topics by these names. What Kafka 4.0 wrote instead of a hash goes."""
        if self.group.has_partition_metadata:
            self.records.append(consumer_group_partition_metadata_tombstone(self.group.group_id))
        value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=self.around.hashes.metadata_hash(names))
        self.records.append(consumer_group_metadata_record(self.group.group_id, value))

    def forget_member(self, member_id: str) -> None:
        """All that was written about it, in the order in which it can be taken back."""
        group_id = self.group.group_id
        self.records += (
            consumer_group_current_member_assignment_record(group_id, member_id, None),
            consumer_group_target_assignment_member_record(group_id, member_id, None),
            consumer_group_member_metadata_record(group_id, member_id, None),
        )
