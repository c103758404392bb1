"""The records of a consumer group (KIP-848), as Kafka 4.1 writes them. No value means a tombstone."""

from __future__ import annotations

from struct import pack
from typing import Final

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
from tidelog.coordinator.group.record_codec import (
    INT16,
    INT32,
    INT64,
    FieldReader,
    damage_is_malformed,
    key_of,
    open_key,
    open_value,
    write_bytes,
    write_partitions,
    write_strings,
)
from tidelog.coordinator.machine import CoordinatorRecord
from tidelog.wire.primitives import write_compact_string, write_uvarint

CONSUMER_GROUP_METADATA_KEY: Final = 3
CONSUMER_GROUP_PARTITION_METADATA_KEY: Final = 4
CONSUMER_GROUP_MEMBER_METADATA_KEY: Final = 5
CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY: Final = 6
CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY: Final = 7
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY: Final = 8
CONSUMER_GROUP_REGULAR_EXPRESSION_KEY: Final = 16

_VERSION_0: Final = INT16.pack(0)
_NO_TAGS: Final = 0
_METADATA_HASH_TAG: Final = 0
_CLASSIC_MEMBER_TAG: Final = 0
_IS_PRESENT: Final = 1  # before a structure that may be null


@damage_is_malformed
def read_member_key(key: bytes) -> MemberKey:
    """The group and the member in a key that names both (5, 7 and 8)."""
    fields = open_key(
        key,
        CONSUMER_GROUP_MEMBER_METADATA_KEY,
        CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY,
        CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY,
    )
    return MemberKey(fields.string(), fields.string())


@damage_is_malformed
def read_regular_expression_key(key: bytes) -> RegularExpressionKey:
    """The group and the expression (16)."""
    fields = open_key(key, CONSUMER_GROUP_REGULAR_EXPRESSION_KEY)
    return RegularExpressionKey(fields.string(), fields.string())


def consumer_group_metadata_record(group_id: str, value: ConsumerGroupMetadataValue | None) -> CoordinatorRecord:
    """Key version 3: the group and its epoch."""
    key = key_of(CONSUMER_GROUP_METADATA_KEY, group_id)
    if value is None:
        return CoordinatorRecord(key, None)
    if not value.metadata_hash:
        return CoordinatorRecord(key, pack(">hib", 0, value.epoch, _NO_TAGS))
    return CoordinatorRecord(key, pack(">hibbbq", 0, value.epoch, 1, _METADATA_HASH_TAG, 8, value.metadata_hash))


@damage_is_malformed
def read_consumer_group_metadata(value: bytes) -> ConsumerGroupMetadataValue:
    """Reads what the function before writes."""
    fields = _open(value)
    epoch = fields.int32()
    metadata_hash = fields.tagged().get(_METADATA_HASH_TAG)
    return ConsumerGroupMetadataValue(
        epoch=epoch, metadata_hash=0 if metadata_hash is None else INT64.unpack(metadata_hash)[0]
    )


def consumer_group_partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """Key version 4, which is only deleted any more."""
    return CoordinatorRecord(key_of(CONSUMER_GROUP_PARTITION_METADATA_KEY, group_id), None)


@damage_is_malformed
def read_consumer_group_partition_metadata(value: bytes) -> ConsumerGroupPartitionMetadataValue:
    """Reads what Kafka 4.0 wrote."""
    fields = _open(value)
    topics = fields.array(lambda: _read_topic_metadata(fields))
    fields.tagged()
    return ConsumerGroupPartitionMetadataValue(topics=topics)


def consumer_group_member_metadata_record(
    group_id: str, member_id: str, value: ConsumerGroupMemberMetadataValue | None
) -> CoordinatorRecord:
    """Key version 5: a member."""
    key = key_of(CONSUMER_GROUP_MEMBER_METADATA_KEY, group_id, member_id)
    if value is None:
        return CoordinatorRecord(key, None)
    out = bytearray(_VERSION_0)
    for text in (value.instance_id, value.rack_id, value.client_id, value.client_host):
        write_compact_string(out, text)
    write_strings(out, value.subscribed_topic_names)
    write_compact_string(out, value.subscribed_topic_regex)
    out += INT32.pack(value.rebalance_timeout_ms)
    write_compact_string(out, value.server_assignor)
    if value.classic_member_metadata is None:
        out.append(_NO_TAGS)
    else:
        out += bytes((1, _CLASSIC_MEMBER_TAG))
        classic = _classic_member(value.classic_member_metadata)
        write_uvarint(out, len(classic))
        out += classic
    return CoordinatorRecord(key, bytes(out))


@damage_is_malformed
def read_consumer_group_member_metadata(value: bytes) -> ConsumerGroupMemberMetadataValue:
    """Reads what the function before writes."""
    fields = _open(value)
    return ConsumerGroupMemberMetadataValue(
        instance_id=fields.nullable_string(),
        rack_id=fields.nullable_string(),
        client_id=fields.string(),
        client_host=fields.string(),
        subscribed_topic_names=fields.array(fields.string),
        subscribed_topic_regex=fields.nullable_string(),
        rebalance_timeout_ms=fields.int32(),
        server_assignor=fields.nullable_string(),
        classic_member_metadata=_read_classic_member(fields.tagged().get(_CLASSIC_MEMBER_TAG)),
    )


def consumer_group_target_assignment_metadata_record(
    group_id: str, value: ConsumerGroupTargetAssignmentMetadataValue | None
) -> CoordinatorRecord:
    """Key version 6: the epoch of the target assignment."""
    key = key_of(CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY, group_id)
    return CoordinatorRecord(key, None if value is None else pack(">hib", 0, value.assignment_epoch, _NO_TAGS))


@damage_is_malformed
def read_consumer_group_target_assignment_metadata(value: bytes) -> ConsumerGroupTargetAssignmentMetadataValue:
    """Reads what the function before writes."""
    fields = _open(value)
    epoch = fields.int32()
    fields.tagged()
    return ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch)


def consumer_group_target_assignment_member_record(
    group_id: str, member_id: str, value: ConsumerGroupTargetAssignmentMemberValue | None
) -> CoordinatorRecord:
    """Key version 7: what a member shall have."""
    key = key_of(CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY, group_id, member_id)
    if value is None:
        return CoordinatorRecord(key, None)
    out = bytearray(_VERSION_0)
    _write_topics(out, value.topic_partitions)
    out.append(_NO_TAGS)
    return CoordinatorRecord(key, bytes(out))


@damage_is_malformed
def read_consumer_group_target_assignment_member(value: bytes) -> ConsumerGroupTargetAssignmentMemberValue:
    """Reads what the function before writes."""
    fields = _open(value)
    topics = _read_topics(fields)
    fields.tagged()
    return ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics)


def consumer_group_current_member_assignment_record(
    group_id: str, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None
) -> CoordinatorRecord:
    """Key version 8: what a member has."""
    key = key_of(CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY, group_id, member_id)
    if value is None:
        return CoordinatorRecord(key, None)
    out = bytearray(pack(">hiib", 0, value.member_epoch, value.previous_member_epoch, value.state))
    _write_topics(out, value.assigned_partitions)
    _write_topics(out, value.partitions_pending_revocation)
    out.append(_NO_TAGS)
    return CoordinatorRecord(key, bytes(out))


@damage_is_malformed
def read_consumer_group_current_member_assignment(value: bytes) -> ConsumerGroupCurrentMemberAssignmentValue:
    """Reads what the function before writes."""
    fields = _open(value)
    assignment = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=fields.int32(),
        previous_member_epoch=fields.int32(),
        state=fields.int8(),
        assigned_partitions=_read_topics(fields),
        partitions_pending_revocation=_read_topics(fields),
    )
    fields.tagged()
    return assignment


def consumer_group_regular_expression_record(
    group_id: str, regular_expression: str, value: ConsumerGroupRegularExpressionValue | None
) -> CoordinatorRecord:
    """Key version 16: what an expression matched."""
    key = key_of(CONSUMER_GROUP_REGULAR_EXPRESSION_KEY, group_id, regular_expression)
    if value is None:
        return CoordinatorRecord(key, None)
    out = bytearray(_VERSION_0)
    write_strings(out, value.topics)
    out += pack(">qqb", value.version, value.timestamp, _NO_TAGS)
    return CoordinatorRecord(key, bytes(out))


@damage_is_malformed
def read_consumer_group_regular_expression(value: bytes) -> ConsumerGroupRegularExpressionValue:
    """Reads what the function before writes."""
    fields = _open(value)
    expression = ConsumerGroupRegularExpressionValue(
        topics=fields.array(fields.string), version=fields.int64(), timestamp=fields.int64()
    )
    fields.tagged()
    return expression


def _open(value: bytes) -> FieldReader:
    return open_value(value, newest=0, compact_since=0)[1]


def _write_topics(out: bytearray, topics: tuple[TopicPartitions, ...]) -> None:
    write_uvarint(out, len(topics) + 1)
    for topic_id, partitions in topics:
        write_partitions(out, topic_id, partitions)


def _read_topics(fields: FieldReader) -> tuple[TopicPartitions, ...]:
    def read_one() -> TopicPartitions:
        topic = TopicPartitions(fields.uuid(), fields.array(fields.int32))
        fields.tagged()
        return topic

    return fields.array(read_one)


def _read_topic_metadata(fields: FieldReader) -> TopicMetadata:
    def read_partition() -> PartitionMetadata:
        partition = PartitionMetadata(partition=fields.int32(), racks=fields.array(fields.string))
        fields.tagged()
        return partition

    topic = TopicMetadata(
        topic_id=fields.uuid(),
        topic_name=fields.string(),
        num_partitions=fields.int32(),
        partition_metadata=fields.array(read_partition),
    )
    fields.tagged()
    return topic


def _classic_member(value: ClassicMemberMetadata) -> bytes:
    out = bytearray(pack(">bi", _IS_PRESENT, value.session_timeout_ms))
    write_uvarint(out, len(value.supported_protocols) + 1)
    for protocol in value.supported_protocols:
        write_compact_string(out, protocol.name)
        write_bytes(out, protocol.metadata)
        out.append(_NO_TAGS)
    out.append(_NO_TAGS)
    return bytes(out)


def _read_classic_member(field: bytes | None) -> ClassicMemberMetadata | None:
    if field is None:
        return None
    fields = FieldReader(field)
    fields.is_compact = True
    if fields.int8() < 0:
        return None

    def read_protocol() -> ClassicProtocol:
        protocol = ClassicProtocol(name=fields.string(), metadata=fields.bytes_())
        fields.tagged()
        return protocol

    member = ClassicMemberMetadata(session_timeout_ms=fields.int32(), supported_protocols=fields.array(read_protocol))
    fields.tagged()
    return member
