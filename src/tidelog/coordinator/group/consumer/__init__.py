"""Consumer groups of the new protocol (KIP-848): the coordinator decides who reads what, and members follow one by one."""

from tidelog.coordinator.group.consumer.area import ConsumerArea
from tidelog.coordinator.group.consumer.group import ConsumerGroup
from tidelog.coordinator.group.consumer.leaving import tombstones

__all__ = ["ConsumerArea", "ConsumerGroup", "tombstones"]
