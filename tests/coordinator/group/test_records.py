"""Kafka's records of groups: the golden bytes were written by the classes of Kafka 4.1.0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.coordinator import CoordinatorRecord
from tidelog.coordinator.group.records import (
    ClassicGroupValue,
    ClassicMemberMetadata,
    ClassicMemberValue,
    ClassicProtocol,
    CommittedOffset,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
    MalformedRecord,
    MemberKey,
    OffsetKey,
    PartitionMetadata,
    RegularExpressionKey,
    TopicMetadata,
    TopicPartitions,
    consumer_group_current_member_assignment_record,
    consumer_group_member_metadata_record,
    consumer_group_metadata_record,
    consumer_group_partition_metadata_tombstone,
    consumer_group_regular_expression_record,
    consumer_group_target_assignment_member_record,
    consumer_group_target_assignment_metadata_record,
    group_record,
    key_version,
    offset_record,
    read_committed_offset,
    read_consumer_group_current_member_assignment,
    read_consumer_group_member_metadata,
    read_consumer_group_metadata,
    read_consumer_group_partition_metadata,
    read_consumer_group_regular_expression,
    read_consumer_group_target_assignment_member,
    read_consumer_group_target_assignment_metadata,
    read_group_key,
    read_group_value,
    read_member_key,
    read_offset_key,
    read_regular_expression_key,
)
from tidelog.wire.errors import UnencodableMessage

TOPIC_ID = UUID("01234567-89ab-cdef-0fed-cba987654321")
OFFSET = CommittedOffset(42, 5, "m", 1000)
MEMBER = ClassicMemberValue(
    member_id="a",
    instance_id="i",
    client_id="c",
    client_host="/127.0.0.1",
    rebalance_timeout_ms=300_000,
    session_timeout_ms=45_000,
    subscription=b"\x01\x02",
    assignment=b"\x03",
)
GROUP = ClassicGroupValue(
    protocol_type="consumer", generation=3, protocol="range", leader="a", state_timestamp_ms=1000, members=(MEMBER,)
)
CONSUMER_MEMBER = ConsumerGroupMemberMetadataValue(
    instance_id="i",
    rack_id="r",
    client_id="c",
    client_host="/h",
    subscribed_topic_names=("a", "b"),
    subscribed_topic_regex="x.*",
    rebalance_timeout_ms=5000,
    server_assignor="uniform",
)
CLASSIC_MEMBER = ConsumerGroupMemberMetadataValue(
    instance_id=None,
    rack_id=None,
    client_id="c",
    client_host="/h",
    subscribed_topic_names=(),
    subscribed_topic_regex=None,
    rebalance_timeout_ms=5000,
    server_assignor=None,
    classic_member_metadata=ClassicMemberMetadata(
        session_timeout_ms=45_000, supported_protocols=(ClassicProtocol(name="range", metadata=b"\x09\x08"),)
    ),
)
CURRENT = ConsumerGroupCurrentMemberAssignmentValue(
    member_epoch=4,
    previous_member_epoch=3,
    state=1,
    assigned_partitions=(TopicPartitions(TOPIC_ID, (0,)),),
    partitions_pending_revocation=(TopicPartitions(TOPIC_ID, (5,)),),
)
TARGET = ConsumerGroupTargetAssignmentMemberValue(topic_partitions=(TopicPartitions(TOPIC_ID, (0, 3)),))
EXPRESSION = ConsumerGroupRegularExpressionValue(topics=("xa", "xb"), version=12, timestamp=1000)

# The record, its key and its value as Kafka has them.
WRITTEN = {
    "offset": (
        offset_record(OffsetKey("g", "té", 7), OFFSET),
        "0001000167000374c3a900000007",
        "0004000000000000002a00000005026d00000000000003e800",
    ),
    "offset of a topic id": (
        offset_record(OffsetKey("g", "té", 7), OFFSET._replace(topic_id=TOPIC_ID)),
        "0001000167000374c3a900000007",
        "0004000000000000002a00000005026d00000000000003e80100100123456789abcdef0fedcba987654321",
    ),
    "offset with a retention of its own": (
        offset_record(OffsetKey("g", "té", 7), OFFSET._replace(expire_ms=2000)),
        "0001000167000374c3a900000007",
        "0001000000000000002a00016d00000000000003e800000000000007d0",
    ),
    "classic group": (
        group_record("g", GROUP),
        "0002000167",
        "00030008636f6e73756d657200000003000572616e676500016100000000000003e800000001000161000169000163000a2f3132372e30"
        "2e302e31000493e00000afc80000000201020000000103",
    ),
    "empty classic group": (
        group_record(
            "g",
            ClassicGroupValue(
                protocol_type="", generation=0, protocol=None, leader=None, state_timestamp_ms=1000, members=()
            ),
        ),
        "0002000167",
        "0003000000000000ffffffff00000000000003e800000000",
    ),
    "consumer group": (
        consumer_group_metadata_record("g", ConsumerGroupMetadataValue(epoch=9)),
        "0003000167",
        "00000000000900",
    ),
    "consumer group with a hash": (
        consumer_group_metadata_record("g", ConsumerGroupMetadataValue(epoch=9, metadata_hash=-77)),
        "0003000167",
        "000000000009010008ffffffffffffffb3",
    ),
    "member": (
        consumer_group_member_metadata_record("g", "m", CONSUMER_MEMBER),
        "000500016700016d",
        "0000026902720263032f68030261026204782e2a0000138808756e69666f726d00",
    ),
    "member of the classic protocol": (
        consumer_group_member_metadata_record("g", "m", CLASSIC_MEMBER),
        "000500016700016d",
        "000000000263032f6801000000138800010011010000afc8020672616e67650309080000",
    ),
    "target epoch": (
        consumer_group_target_assignment_metadata_record(
            "g", ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=11)
        ),
        "0006000167",
        "00000000000b00",
    ),
    "target": (
        consumer_group_target_assignment_member_record("g", "m", TARGET),
        "000700016700016d",
        "0000020123456789abcdef0fedcba9876543210300000000000000030000",
    ),
    "current": (
        consumer_group_current_member_assignment_record("g", "m", CURRENT),
        "000800016700016d",
        "0000000000040000000301020123456789abcdef0fedcba987654321020000000000020123456789abcdef0fedcba98765432102"
        "000000050000",
    ),
    "regular expression": (
        consumer_group_regular_expression_record("g", "x.*", EXPRESSION),
        "00100001670003782e2a",
        "000003037861037862000000000000000c00000000000003e800",
    ),
}
READERS: list[Callable[[bytes], Any]] = [
    read_committed_offset,
    read_group_value,
    read_consumer_group_metadata,
    read_consumer_group_partition_metadata,
    read_consumer_group_member_metadata,
    read_consumer_group_target_assignment_metadata,
    read_consumer_group_target_assignment_member,
    read_consumer_group_current_member_assignment,
    read_consumer_group_regular_expression,
    read_offset_key,
    read_group_key,
    read_member_key,
    read_regular_expression_key,
]


@pytest.mark.parametrize(("record", "key", "value"), WRITTEN.values(), ids=WRITTEN.keys())
def test_a_record_is_written_as_kafka_writes_it(record: CoordinatorRecord, key: str, value: str) -> None:
    assert record.key.hex() == key
    assert record.value is not None
    assert record.value.hex() == value


def test_what_kafka_wrote_is_read() -> None:
    def read(name: str, reader: Callable[[bytes], Any]) -> object:
        return reader(bytes.fromhex(WRITTEN[name][2]))

    assert read("offset of a topic id", read_committed_offset) == OFFSET._replace(topic_id=TOPIC_ID)
    assert read("classic group", read_group_value) == GROUP
    hashed = ConsumerGroupMetadataValue(epoch=9, metadata_hash=-77)
    assert read("consumer group with a hash", read_consumer_group_metadata) == hashed
    assert read("member", read_consumer_group_member_metadata) == CONSUMER_MEMBER
    assert read("member of the classic protocol", read_consumer_group_member_metadata) == CLASSIC_MEMBER
    assert read("target epoch", read_consumer_group_target_assignment_metadata) == (
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=11)
    )
    assert read("target", read_consumer_group_target_assignment_member) == TARGET
    assert read("current", read_consumer_group_current_member_assignment) == CURRENT
    assert read("regular expression", read_consumer_group_regular_expression) == EXPRESSION


def test_keys_are_read() -> None:
    assert read_offset_key(bytes.fromhex("0001000167000374c3a900000007")) == OffsetKey("g", "té", 7)
    assert read_offset_key(bytes.fromhex("000000016700017400000007")) == OffsetKey("g", "t", 7)
    assert [read_group_key(bytes.fromhex(f"000{version}000167")) for version in (2, 3, 4, 6)] == ["g"] * 4
    assert [read_member_key(bytes.fromhex(f"000{version}00016700016d")) for version in (5, 7, 8)] == [
        MemberKey("g", "m")
    ] * 3
    assert read_regular_expression_key(bytes.fromhex("00100001670003782e2a")) == RegularExpressionKey("g", "x.*")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0000000000000000002a00016d00000000000003e8", OFFSET._replace(leader_epoch=-1)),
        (
            "0001000000000000002a00016d00000000000003e800000000000007d0",
            OFFSET._replace(leader_epoch=-1, expire_ms=2000),
        ),
        ("0002000000000000002a00016d00000000000003e8", OFFSET._replace(leader_epoch=-1)),
        ("0003000000000000002a0000000500016d00000000000003e8", OFFSET),
        ("0004000000000000002a00000005026d00000000000003e800", OFFSET),
    ],
)
def test_every_version_of_a_committed_offset_is_read(value: str, expected: CommittedOffset) -> None:
    assert read_committed_offset(bytes.fromhex(value)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            "00000008636f6e73756d657200000003000572616e676500016100000001000161000163000a2f3132372e302e302e310000afc8"
            "0000000201020000000103",
            replace(
                GROUP,
                state_timestamp_ms=-1,
                members=(replace(MEMBER, instance_id=None, rebalance_timeout_ms=MEMBER.session_timeout_ms),),
            ),
        ),
        (
            "00010008636f6e73756d657200000003000572616e676500016100000001000161000163000a2f3132372e302e302e31000493e0"
            "0000afc80000000201020000000103",
            replace(GROUP, state_timestamp_ms=-1, members=(replace(MEMBER, instance_id=None),)),
        ),
        (
            "00020008636f6e73756d657200000003000572616e676500016100000000000003e800000001000161000163000a2f3132372e30"
            "2e302e31000493e00000afc80000000201020000000103",
            replace(GROUP, members=(replace(MEMBER, instance_id=None),)),
        ),
        (
            "000409636f6e73756d6572000000030672616e6765026100000000000003e8020261026902630b2f3132372e302e302e31000493"
            "e00000afc803010202030000",
            GROUP,
        ),
    ],
    ids=["v0", "v1", "v2", "v4"],
)
def test_every_version_of_a_classic_group_is_read(value: str, expected: ClassicGroupValue) -> None:
    assert read_group_value(bytes.fromhex(value)) == expected


def test_the_topics_that_kafka_4_0_wrote_are_read_and_deleted() -> None:
    value = "0000020123456789abcdef0fedcba987654321027400000002020000000103037231037232000000"
    assert read_consumer_group_partition_metadata(bytes.fromhex(value)) == ConsumerGroupPartitionMetadataValue(
        topics=(
            TopicMetadata(
                topic_id=TOPIC_ID,
                topic_name="t",
                num_partitions=2,
                partition_metadata=(PartitionMetadata(partition=1, racks=("r1", "r2")),),
            ),
        )
    )
    assert consumer_group_partition_metadata_tombstone("g") == CoordinatorRecord(bytes.fromhex("0004000167"), None)


def test_no_value_makes_a_tombstone() -> None:
    tombstones = [
        offset_record(OffsetKey("g", "t", 0), None),
        group_record("g", None),
        consumer_group_metadata_record("g", None),
        consumer_group_member_metadata_record("g", "m", None),
        consumer_group_target_assignment_metadata_record("g", None),
        consumer_group_target_assignment_member_record("g", "m", None),
        consumer_group_current_member_assignment_record("g", "m", None),
        consumer_group_regular_expression_record("g", "x", None),
    ]
    assert [record.value for record in tombstones] == [None] * 8
    assert [key_version(record.key) for record in tombstones] == [1, 2, 3, 5, 6, 7, 8, 16]


def test_a_tagged_field_of_a_later_kafka_is_passed_over() -> None:
    value = bytes.fromhex("0004000000000000002a00000005026d00000000000003e8" + "01" + "0702aabb")
    assert read_committed_offset(value) == OFFSET
    assert read_consumer_group_metadata(bytes.fromhex("000000000009" + "01" + "0702aabb")).epoch == 9


def test_a_value_of_a_version_that_does_not_exist_is_refused() -> None:
    with pytest.raises(MalformedRecord, match="version 5"):
        read_committed_offset(bytes.fromhex("0005" + "00" * 40))
    with pytest.raises(MalformedRecord, match="version 5"):
        read_group_value(bytes.fromhex("0005" + "00" * 40))


def test_a_key_of_another_kind_is_refused() -> None:
    with pytest.raises(MalformedRecord, match="version 2"):
        read_offset_key(bytes.fromhex("0002000167000174" + "00000007"))
    with pytest.raises(MalformedRecord, match="version 5"):
        read_group_key(bytes.fromhex("0005000167"))


def test_a_key_too_short_for_a_version_has_none() -> None:
    assert key_version(b"\x00") == -1


def test_a_name_too_long_for_a_key_is_refused_by_the_writer() -> None:
    with pytest.raises(UnencodableMessage):
        offset_record(OffsetKey("g" * 40_000, "t", 0), None)
    with pytest.raises(UnencodableMessage):
        group_record("g" * 40_000, None)


int64s = st.integers(min_value=-(1 << 63), max_value=(1 << 63) - 1)
int32s = st.integers(min_value=-(1 << 31), max_value=(1 << 31) - 1)
names = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=200)


@given(
    st.builds(OffsetKey, names, names, int32s),
    st.builds(CommittedOffset, int64s, int32s, names, int64s, st.just(-1), st.none() | st.uuids()),
)
def test_a_committed_offset_comes_back(key: OffsetKey, value: CommittedOffset) -> None:
    record = offset_record(key, value)
    assert record.value is not None
    assert read_offset_key(record.key) == key
    expected = value if value.topic_id != UUID(int=0) else value._replace(topic_id=None)
    assert read_committed_offset(record.value) == expected


members = st.builds(
    ClassicMemberValue,
    member_id=names,
    instance_id=st.none() | names,
    client_id=names,
    client_host=names,
    rebalance_timeout_ms=int32s,
    session_timeout_ms=int32s,
    subscription=st.binary(),
    assignment=st.binary(),
)


@settings(max_examples=30)
@given(
    st.builds(
        ClassicGroupValue,
        protocol_type=names,
        generation=int32s,
        protocol=st.none() | names,
        leader=st.none() | names,
        state_timestamp_ms=int64s,
        members=st.lists(members, max_size=3).map(tuple),
    )
)
def test_a_classic_group_comes_back(value: ClassicGroupValue) -> None:
    record = group_record("g", value)
    assert record.value is not None
    assert read_group_value(record.value) == value


topics = st.lists(st.builds(TopicPartitions, st.uuids(), st.lists(int32s, max_size=4).map(tuple)), max_size=3).map(
    tuple
)


@settings(max_examples=30)
@given(
    st.builds(
        ConsumerGroupCurrentMemberAssignmentValue,
        member_epoch=int32s,
        previous_member_epoch=int32s,
        state=st.integers(0, 127),
        assigned_partitions=topics,
        partitions_pending_revocation=topics,
    )
)
def test_an_assignment_comes_back(value: ConsumerGroupCurrentMemberAssignmentValue) -> None:
    record = consumer_group_current_member_assignment_record("g", "m", value)
    assert record.value is not None
    assert read_consumer_group_current_member_assignment(record.value) == value


@given(st.data())
def test_damage_shows_as_one_exception(data: st.DataObject) -> None:
    _, key, value = data.draw(st.sampled_from(sorted(WRITTEN.values(), key=lambda each: each[1] + each[2])))
    damaged = bytearray.fromhex(data.draw(st.sampled_from([key, value])))
    for _ in range(data.draw(st.integers(0, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    damaged = damaged[: data.draw(st.integers(0, len(damaged)))] + data.draw(st.binary(max_size=8))
    for read in READERS:
        try:
            read(bytes(damaged))
        except MalformedRecord:
            continue


@given(st.binary(max_size=60), st.sampled_from(READERS))
def test_noise_shows_as_one_exception(noise: bytes, read: Callable[[bytes], Any]) -> None:
    try:
        read(noise)
    except MalformedRecord:
        return
