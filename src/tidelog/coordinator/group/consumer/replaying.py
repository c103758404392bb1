"""Takes over the records of consumer groups (key versions 3 to 8 and 16), be they just written or read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidelog.coordinator.group.area import Replayer
from tidelog.coordinator.group.book import GroupBook
from tidelog.coordinator.group.consumer.group import NO_EPOCH, ConsumerGroup, Resolution
from tidelog.coordinator.group.consumer.member import LEAVES, NOTHING, Member, read
from tidelog.coordinator.group.records import (
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY,
    CONSUMER_GROUP_MEMBER_METADATA_KEY,
    CONSUMER_GROUP_METADATA_KEY,
    CONSUMER_GROUP_PARTITION_METADATA_KEY,
    CONSUMER_GROUP_REGULAR_EXPRESSION_KEY,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY,
    read_consumer_group_current_member_assignment,
    read_consumer_group_member_metadata,
    read_consumer_group_metadata,
    read_consumer_group_regular_expression,
    read_consumer_group_target_assignment_member,
    read_consumer_group_target_assignment_metadata,
    read_group_key,
    read_member_key,
    read_regular_expression_key,
)
from tidelog.coordinator.machine import CoordinatorRecord, Written


class Replay:
    """Makes groups of records. Tombstones of what is not there mean nothing: compaction may have left them alone."""

    def __init__(self, book: GroupBook) -> None:
        self._book = book

    @property
    def replayers(self) -> Mapping[int, Replayer]:
        """By the version of the key."""
        return {
            CONSUMER_GROUP_METADATA_KEY: self._group,
            CONSUMER_GROUP_PARTITION_METADATA_KEY: self._partition_metadata,
            CONSUMER_GROUP_MEMBER_METADATA_KEY: self._member,
            CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY: self._assignment_epoch,
            CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY: self._target,
            CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY: self._assignment,
            CONSUMER_GROUP_REGULAR_EXPRESSION_KEY: self._regex,
        }

    def apply(self, record: CoordinatorRecord) -> None:
        """For a group that is not in any log yet."""
        self.replayers[int.from_bytes(record.key[:2], "big")](record, Written(-1))

    def _group(self, record: CoordinatorRecord, written: Written) -> None:
        group_id = read_group_key(record.key)
        if record.value is not None:
            group = self._needed(group_id)
            value = read_consumer_group_metadata(record.value)
            group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        elif self._present(group_id) is not None:
            del self._book.groups[group_id]

    def _partition_metadata(self, record: CoordinatorRecord, written: Written) -> None:
        """Only that it is there: since 4.1 a hash says what it said."""
        group_id = read_group_key(record.key)
        group = self._needed(group_id) if record.value is not None else self._present(group_id)
        if group is not None:
            group.has_partition_metadata = record.value is not None

    def _member(self, record: CoordinatorRecord, written: Written) -> None:
        group_id, member_id = read_member_key(record.key)
        if record.value is not None:
            group = self._needed(group_id)
            member = group.members.get(member_id) or Member(member_id=member_id)
            group.put_member(member.with_metadata(read_consumer_group_member_metadata(record.value)))
        elif (present := self._present(group_id)) is not None:
            present.remove_member(member_id)

    def _assignment_epoch(self, record: CoordinatorRecord, written: Written) -> None:
        group_id = read_group_key(record.key)
        if record.value is not None:
            value = read_consumer_group_target_assignment_metadata(record.value)
            self._needed(group_id).assignment_epoch = value.assignment_epoch
        elif (group := self._present(group_id)) is not None:
            group.assignment_epoch = NO_EPOCH

    def _target(self, record: CoordinatorRecord, written: Written) -> None:
        group_id, member_id = read_member_key(record.key)
        if record.value is not None:
            value = read_consumer_group_target_assignment_member(record.value)
            self._needed(group_id).targets[member_id] = read(value.topic_partitions)
        elif (group := self._present(group_id)) is not None:
            group.targets.pop(member_id, None)

    def _assignment(self, record: CoordinatorRecord, written: Written) -> None:
        group_id, member_id = read_member_key(record.key)
        if record.value is not None:
            group = self._needed(group_id)
            member = group.members.get(member_id) or Member(member_id=member_id)
            group.put_member(member.with_assignment(read_consumer_group_current_member_assignment(record.value)))
        elif (present := self._present(group_id)) is not None and member_id in present.members:
            left = replace(
                present.members[member_id], epoch=LEAVES, previous_epoch=LEAVES, assigned=NOTHING, revoking=NOTHING
            )
            present.put_member(left)

    def _regex(self, record: CoordinatorRecord, written: Written) -> None:
        group_id, regex = read_regular_expression_key(record.key)
        if record.value is not None:
            value = read_consumer_group_regular_expression(record.value)
            resolution = Resolution(frozenset(value.topics), value.version, value.timestamp)
            self._needed(group_id).put_resolution(regex, resolution)
        elif (present := self._present(group_id)) is not None:
            present.drop_resolution(regex)

    def _present(self, group_id: str) -> ConsumerGroup | None:
        group = self._book.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def _needed(self, group_id: str) -> ConsumerGroup:
        """A group begins with its first record, and takes the place of a classic one that had none but offsets."""
        group = self._present(group_id)
        if group is None:
            group = self._book.groups[group_id] = ConsumerGroup(group_id)
        return group
