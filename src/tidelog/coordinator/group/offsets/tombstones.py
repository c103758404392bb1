"""The records that forget a group, whichever protocol it spoke. Its offsets have records of their own."""

from __future__ import annotations

from tidelog.coordinator.group.book import Group
from tidelog.coordinator.group.consumer.group import ConsumerGroup
from tidelog.coordinator.group.consumer.leaving import tombstones
from tidelog.coordinator.group.records import group_record
from tidelog.coordinator.machine import CoordinatorRecord


def group_tombstones(group: Group) -> tuple[CoordinatorRecord, ...]:
    """Of a classic group there is one, even if it was never written: then its offsets have made it, and it goes with this record."""
    if isinstance(group, ConsumerGroup):
        return tombstones(group)
    return (group_record(group.group_id, None),)
