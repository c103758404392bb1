"""How members leave a consumer group: they say so, are silent for too long, or do not give up what they must."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tidelog.coordinator.group.consumer.checking import check_place
from tidelog.coordinator.group.consumer.group import ConsumerGroup, names_of
from tidelog.coordinator.group.consumer.member import LEAVES_FOR_A_WHILE, NOTHING, Member
from tidelog.coordinator.group.consumer.timing import RevocationTimer
from tidelog.coordinator.group.consumer.turn import Turn
from tidelog.coordinator.group.records import (
    consumer_group_current_member_assignment_record,
    consumer_group_member_metadata_record,
    consumer_group_metadata_record,
    consumer_group_partition_metadata_tombstone,
    consumer_group_regular_expression_record,
    consumer_group_target_assignment_member_record,
    consumer_group_target_assignment_metadata_record,
)
from tidelog.coordinator.machine import CoordinatorRecord


def known_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member:
    """Who it is that says so, by its id and the place it may have. Raises ApiError."""
    if instance_id is None:
        return group.member(member_id)
    return check_place(group.static_member(instance_id), member_id, instance_id)


def leave_for_a_while(turn: Turn, member: Member) -> None:
    """A static member has let go of everything, but its place and its part are kept for it until its session ends."""
    turn.write_assignment(replace(member, epoch=LEAVES_FOR_A_WHILE, revoking=NOTHING))
    turn.timers[RevocationTimer(turn.group.group_id, member.member_id)] = None


def remove_members(turn: Turn, gone: Collection[str]) -> None:
    """Members are gone, and their expressions if nobody else has them. The group gets another epoch."""
    group = turn.group
    for member_id in gone:
        turn.forget_member(member_id)
        turn.stop_timers(member_id)
    rest = [member for member_id, member in group.members.items() if member_id not in gone]
    regexes = {member.regex for member in rest}
    for regex in sorted({group.members[member_id].regex or "" for member_id in gone}):
        if regex and regex not in regexes:
            turn.records.append(consumer_group_regular_expression_record(group.group_id, regex, None))
    turn.write_epoch(group.epoch + 1, names_of(rest, group.resolutions))


def tombstones(group: ConsumerGroup) -> tuple[CoordinatorRecord, ...]:
    """All that was ever written about a group, in the order in which it can be taken back."""
    group_id = group.group_id
    member_ids = list(group.members)
    targeted_ids = list(dict.fromkeys([*member_ids, *group.targets]))
    records = [consumer_group_current_member_assignment_record(group_id, member_id, None) for member_id in member_ids]
    records += [consumer_group_target_assignment_member_record(group_id, member_id, None) for member_id in targeted_ids]
    records.append(consumer_group_target_assignment_metadata_record(group_id, None))
    records += [consumer_group_member_metadata_record(group_id, member_id, None) for member_id in member_ids]
    if group.has_partition_metadata:
        records.append(consumer_group_partition_metadata_tombstone(group_id))
    records += [consumer_group_regular_expression_record(group_id, regex, None) for regex in sorted(group.resolutions)]
    records.append(consumer_group_metadata_record(group_id, None))
    return tuple(records)
