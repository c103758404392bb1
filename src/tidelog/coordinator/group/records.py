"""Kafka's records of groups, in one place: what `__consumer_offsets` consists of, byte for byte as Kafka 4.1 writes it.

A key begins with its version, which says what the record is about: 0 and 1 committed offsets, 2 a classic group, 3 to 8 and 16 a consumer
group (KIP-848). Others are passed over, as Kafka does. A value begins with a version of its own. Keys are never compact.
"""

from __future__ import annotations

from tidelog.coordinator.group.classic_records import (
    CLASSIC_GROUP_KEY,
    ClassicGroupValue,
    ClassicMemberValue,
    group_record,
    read_group_value,
)
from tidelog.coordinator.group.consumer_records import (
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY,
    CONSUMER_GROUP_MEMBER_METADATA_KEY,
    CONSUMER_GROUP_METADATA_KEY,
    CONSUMER_GROUP_PARTITION_METADATA_KEY,
    CONSUMER_GROUP_REGULAR_EXPRESSION_KEY,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY,
    consumer_group_current_member_assignment_record,
    consumer_group_member_metadata_record,
    consumer_group_metadata_record,
    consumer_group_partition_metadata_tombstone,
    consumer_group_regular_expression_record,
    consumer_group_target_assignment_member_record,
    consumer_group_target_assignment_metadata_record,
    read_consumer_group_current_member_assignment,
    read_consumer_group_member_metadata,
    read_consumer_group_metadata,
    read_consumer_group_partition_metadata,
    read_consumer_group_regular_expression,
    read_consumer_group_target_assignment_member,
    read_consumer_group_target_assignment_metadata,
    read_member_key,
    read_regular_expression_key,
)
from tidelog.coordinator.group.consumer_values import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
    MemberKey,
    PartitionMetadata,
    RegularExpressionKey,
    TopicMetadata,
    TopicPartitions,
)
from tidelog.coordinator.group.offset_records import (
    LEGACY_OFFSET_KEY,
    OFFSET_KEY,
    CommittedOffset,
    OffsetKey,
    offset_record,
    read_committed_offset,
    read_offset_key,
)
from tidelog.coordinator.group.record_codec import (
    INT16,
    damage_is_malformed,
    open_key,
)
from tidelog.coordinator.machine import MalformedRecord


def key_version(key: bytes) -> int:
    """What a record is about; -1 if its key is too short to say."""
    return INT16.unpack_from(key)[0] if len(key) >= 2 else -1


@damage_is_malformed
def read_group_key(key: bytes) -> str:
    """The id of the group in a key that names nothing else: 2, 3, 4 and 6."""
    return open_key(
        key,
        CLASSIC_GROUP_KEY,
        CONSUMER_GROUP_METADATA_KEY,
        CONSUMER_GROUP_PARTITION_METADATA_KEY,
        CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY,
    ).string()


__all__ = [
    "CLASSIC_GROUP_KEY",
    "CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY",
    "CONSUMER_GROUP_MEMBER_METADATA_KEY",
    "CONSUMER_GROUP_METADATA_KEY",
    "CONSUMER_GROUP_PARTITION_METADATA_KEY",
    "CONSUMER_GROUP_REGULAR_EXPRESSION_KEY",
    "CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY",
    "CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY",
    "LEGACY_OFFSET_KEY",
    "OFFSET_KEY",
    "ClassicGroupValue",
    "ClassicMemberMetadata",
    "ClassicMemberValue",
    "ClassicProtocol",
    "CommittedOffset",
    "ConsumerGroupCurrentMemberAssignmentValue",
    "ConsumerGroupMemberMetadataValue",
    "ConsumerGroupMetadataValue",
    "ConsumerGroupPartitionMetadataValue",
    "ConsumerGroupRegularExpressionValue",
    "ConsumerGroupTargetAssignmentMemberValue",
    "ConsumerGroupTargetAssignmentMetadataValue",
    "MalformedRecord",
    "MemberKey",
    "OffsetKey",
    "PartitionMetadata",
    "RegularExpressionKey",
    "TopicMetadata",
    "TopicPartitions",
    "consumer_group_current_member_assignment_record",
    "consumer_group_member_metadata_record",
    "consumer_group_metadata_record",
    "consumer_group_partition_metadata_tombstone",
    "consumer_group_regular_expression_record",
    "consumer_group_target_assignment_member_record",
    "consumer_group_target_assignment_metadata_record",
    "group_record",
    "key_version",
    "offset_record",
    "read_committed_offset",
    "read_consumer_group_current_member_assignment",
    "read_consumer_group_member_metadata",
    "read_consumer_group_metadata",
    "read_consumer_group_partition_metadata",
    "read_consumer_group_regular_expression",
    "read_consumer_group_target_assignment_member",
    "read_consumer_group_target_assignment_metadata",
    "read_group_key",
    "read_group_value",
    "read_member_key",
    "read_offset_key",
    "read_regular_expression_key",
]
