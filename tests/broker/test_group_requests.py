"""What a coordinator says to members that ask for the impossible: Kafka's error codes, and nothing happens to anybody else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.broker.conversation import Conversation, topic_id_of
from tests.broker.group_checks import CLIENT_MADE_ID, consumer_heartbeat
from tests.broker.group_talk import (
    Member,
    commit_request,
    committed,
    described,
    join,
    join_request,
    stable,
    sync,
    wait_for_coordinator,
)
from tests.compatibility.processes import TidelogProcess
from tidelog.broker.handlers.find_coordinator import KEYS_PER_SLICE
from tidelog.broker.handlers.offset_fetch import INDEXES_PER_SLICE
from tidelog.model import ErrorCode
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.join_group import JoinGroupRequestProtocol
from tidelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.wire.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from tidelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics

pytestmark = pytest.mark.slow
CLIENT = ApiVersionsRequest(client_software_name="test", client_software_version="1")


def test_clients_are_told_that_the_consumer_protocol_and_an_epoch_per_transaction_are_served(
    tidelog: TidelogProcess,
) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        told = conversation.ask(CLIENT, 4)
        assert [(one.name, one.min_version, one.max_version) for one in told.supported_features] == [
            ("group.version", 0, 1),
            ("transaction.version", 0, 2),
        ]
        assert [(one.name, one.max_version_level) for one in told.finalized_features] == [
            ("group.version", 1),
            ("transaction.version", 2),
        ]
        assert told.finalized_features_epoch >= 0


def test_a_version_that_cannot_say_a_lowest_level_of_zero_is_not_told_of_it(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        told = conversation.ask(CLIENT, 3)
        assert told.supported_features == ()
        assert [one.name for one in told.finalized_features] == ["group.version", "transaction.version"]


def test_the_empty_group_id_has_no_members(tidelog: TidelogProcess) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        wait_for_coordinator(conversation, "")
        nobody = Member("", "m", 1)
        assert join(conversation, "").error_code is ErrorCode.INVALID_GROUP_ID
        assert sync(conversation, nobody).error_code is ErrorCode.INVALID_GROUP_ID
        assert conversation.ask(nobody.heartbeat(), 4).error_code is ErrorCode.INVALID_GROUP_ID
        leaving = LeaveGroupRequest(group_id="", members=(MemberIdentity(member_id="m"),))
        assert conversation.ask(leaving, 5).error_code is ErrorCode.INVALID_GROUP_ID
        assert conversation.ask(LeaveGroupRequest(group_id="", member_id="m"), 2).error_code is (
            ErrorCode.INVALID_GROUP_ID
        )
        deleting = OffsetDeleteRequest(group_id="", topics=())
        assert conversation.ask(deleting, 0).error_code is ErrorCode.INVALID_GROUP_ID
        heartbeat = conversation.ask(consumer_heartbeat("", CLIENT_MADE_ID, 0), 1)
        assert heartbeat.error_code is ErrorCode.INVALID_REQUEST


def test_the_empty_group_id_keeps_offsets_as_it_always_did(tidelog: TidelogProcess, topic: str) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        wait_for_coordinator(conversation, "")
        topic_id_of(conversation, topic)
        (answered,) = conversation.ask(commit_request("", topic, {0: 3}), 9).topics
        assert answered.partitions[0].error_code is ErrorCode.NONE
        assert committed(conversation, "", topic) == {0: 3, 1: -1}


@pytest.mark.parametrize("session_timeout_ms", [-1, 0, 1, 5_999, 1_800_001, 2**31 - 1])
def test_an_absurd_session_timeout_is_refused(tidelog: TidelogProcess, topic: str, session_timeout_ms: int) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        wait_for_coordinator(conversation, topic)
        refused = join(conversation, topic, session_timeout_ms=session_timeout_ms)
        assert refused.error_code is ErrorCode.INVALID_SESSION_TIMEOUT
        assert described(conversation, topic).error_code is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("rebalance_timeout_ms", [-(2**31), -1, 0, 2**31 - 1])
def test_an_absurd_rebalance_timeout_harms_nobody_who_comes_in_time(
    tidelog: TidelogProcess, topic: str, rebalance_timeout_ms: int
) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        wait_for_coordinator(conversation, topic)
        joined = join(conversation, topic, rebalance_timeout_ms=rebalance_timeout_ms)
        assert joined.error_code is ErrorCode.NONE
    with Conversation(tidelog.bootstrap) as other:
        assert described(other, topic).error_code is ErrorCode.NONE


def test_a_member_nobody_knows_is_refused_in_a_group_nobody_knows(tidelog: TidelogProcess, topic: str) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        wait_for_coordinator(conversation, topic)
        stranger = Member(topic, "stranger", 1)
        assert conversation.ask(stranger.heartbeat(), 4).error_code is ErrorCode.UNKNOWN_MEMBER_ID
        assert sync(conversation, stranger).error_code is ErrorCode.UNKNOWN_MEMBER_ID
        assert conversation.ask(join_request(topic, "stranger"), 9).error_code is ErrorCode.UNKNOWN_MEMBER_ID
        (left,) = conversation.ask(
            LeaveGroupRequest(group_id=topic, members=(MemberIdentity(member_id="stranger"),)), 5
        ).members
        assert left.error_code is ErrorCode.UNKNOWN_MEMBER_ID
        heartbeat = conversation.ask(consumer_heartbeat(topic, CLIENT_MADE_ID, 5), 1)
        assert heartbeat.error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_nobody_knows_has_nothing_to_forget_whatever_topics_there_are(
    tidelog: TidelogProcess, topic: str
) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        wait_for_coordinator(conversation, topic)
        partitions = (OffsetDeleteRequestPartition(partition_index=0),)
        topics = (OffsetDeleteRequestTopic(name="no-such-topic", partitions=partitions),)
        refused = conversation.ask(OffsetDeleteRequest(group_id="nobody", topics=topics), 0)
        assert refused.error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_coordinator_is_named_once_for_each_key(tidelog: TidelogProcess, topic: str) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        wait_for_coordinator(conversation, topic)
        keys = [f"key-{number}" for number in range(KEYS_PER_SLICE * 2 + 1)]
        found = conversation.ask(FindCoordinatorRequest(coordinator_keys=(*keys, *keys)), 4).coordinators
        assert [each.key for each in found] == keys


def test_a_long_list_of_partitions_is_read_in_portions_and_answered_as_one(tidelog: TidelogProcess, topic: str) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        wait_for_coordinator(conversation, topic)
        topic_id_of(conversation, topic)
        conversation.ask(commit_request(topic, topic, {0: 5}), 9)
        many = INDEXES_PER_SLICE * 2 + 10
        asked = tuple(
            OffsetFetchRequestTopics(name=name, partition_indexes=tuple(range(count)))
            for name, count in (("before", 3), ("large", many), ("nothing", 0), (topic, 3), ("full", INDEXES_PER_SLICE))
        )
        group = OffsetFetchRequestGroup(group_id=topic, topics=asked)
        (answer,) = conversation.ask(OffsetFetchRequest(groups=(group,)), 9).groups
        assert answer.error_code is ErrorCode.NONE
        assert [(each.name, [one.partition_index for one in each.partitions]) for each in answer.topics] == [
            (each.name, list(each.partition_indexes)) for each in asked
        ]
        found = {one.partition_index: one.committed_offset for one in answer.topics[3].partitions}
        assert found == {0: 5, 1: -1, 2: -1}


def test_no_protocols_or_none_in_common_is_inconsistent(tidelog: TidelogProcess, topic: str) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        wait_for_coordinator(conversation, topic)
        assert join(conversation, topic, protocols=()).error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        member = stable(conversation, topic)
        odd = (JoinGroupRequestProtocol(name="odd", metadata=b""),)
        assert join(conversation, topic, protocols=odd).error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert join(conversation, topic, protocol_type="connect").error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert conversation.ask(member.heartbeat(), 4).error_code is ErrorCode.NONE


def test_an_assignment_for_strangers_reaches_nobody(tidelog: TidelogProcess, topic: str) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        wait_for_coordinator(conversation, topic)
        joined = join(conversation, topic)
        leader = Member(topic, joined.member_id, joined.generation_id)
        synced = sync(conversation, leader, {"stranger": b"theirs", "another": b"too"})
        assert (synced.error_code, synced.assignment) == (ErrorCode.NONE, b"")
        (member,) = described(conversation, topic).members
        assert (member.member_id, member.member_assignment) == (leader.member_id, b"")


def test_a_member_that_leaves_twice_in_one_request_has_left(tidelog: TidelogProcess, topic: str) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        member = stable(conversation, topic)
        twice = (MemberIdentity(member_id=member.member_id),) * 2
        first, second = conversation.ask(LeaveGroupRequest(group_id=topic, members=twice), 5).members
        assert first.error_code is ErrorCode.NONE
        assert second.error_code in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)
        assert described(conversation, topic).group_state == "Empty"


def test_two_members_of_one_instance_fence_the_earlier_one(tidelog: TidelogProcess, topic: str) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        earlier = stable(conversation, topic, group_instance_id="i")
        later = join(conversation, topic, group_instance_id="i")
        assert (later.error_code, later.generation_id) == (ErrorCode.NONE, earlier.generation_id)
        assert later.member_id != earlier.member_id
        fenced = conversation.ask(earlier.heartbeat(group_instance_id="i"), 4)
        assert fenced.error_code is ErrorCode.FENCED_INSTANCE_ID


def test_a_group_that_is_too_large_to_be_written_down_never_settles(tidelog: TidelogProcess, topic: str) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        wait_for_coordinator(conversation, topic)
        large = (JoinGroupRequestProtocol(name="range", metadata=b"m" * 2_000_000),)
        joined = join(conversation, topic, protocols=large)
        member = Member(topic, joined.member_id, joined.generation_id)
        synced = sync(conversation, member, {member.member_id: b"all"})
        assert (synced.error_code, synced.assignment) == (ErrorCode.UNKNOWN_SERVER_ERROR, b"")
        assert described(conversation, topic).group_state != "Stable"


def test_of_a_partition_that_is_named_twice_the_last_offset_counts(tidelog: TidelogProcess, topic: str) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        wait_for_coordinator(conversation, topic)
        topic_id_of(conversation, topic)
        topics = commit_request(topic, topic, {0: 1}).topics + commit_request(topic, topic, {0: 2}).topics
        (answered,) = conversation.ask(commit_request(topic, topic, {}, topics=topics), 9).topics
        assert [(row.partition_index, row.error_code) for row in answered.partitions] == [(0, ErrorCode.NONE)]
        assert committed(conversation, topic, topic) == {0: 2, 1: -1}


def test_a_note_that_is_too_long_is_refused_and_the_others_are_committed(tidelog: TidelogProcess, topic: str) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        wait_for_coordinator(conversation, topic)
        topic_id_of(conversation, topic)
        topic_id_of(conversation, f"{topic}-2")
        short, long = (
            OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="n" * length)
            for length in (4_096, 4_097)
        )
        topics = (
            OffsetCommitRequestTopic(name=topic, partitions=(long,)),
            OffsetCommitRequestTopic(name=f"{topic}-2", partitions=(short,)),
        )
        answer = conversation.ask(commit_request(topic, topic, {}, topics=topics), 9)
        codes = {one.name: one.partitions[0].error_code for one in answer.topics}
        assert codes == {topic: ErrorCode.OFFSET_METADATA_TOO_LARGE, f"{topic}-2": ErrorCode.NONE}
        assert committed(conversation, topic, topic) == {0: -1, 1: -1}
        assert committed(conversation, topic, f"{topic}-2") == {0: 5, 1: -1}


def test_offsets_of_strangers_are_refused_while_the_group_has_members(tidelog: TidelogProcess, topic: str) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        topic_id_of(conversation, topic)
        member = stable(conversation, topic)
        mine = {"member_id": member.member_id, "generation_id_or_member_epoch": member.generation_id}
        for said, code in (
            ({}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({**mine, "member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({**mine, "generation_id_or_member_epoch": 7}, ErrorCode.ILLEGAL_GENERATION),
            (mine, ErrorCode.NONE),
        ):
            (answered,) = conversation.ask(commit_request(topic, topic, {0: 9}, **said), 9).topics
            assert answered.partitions[0].error_code is code


def test_a_commit_with_a_generation_of_an_unknown_group_is_refused(tidelog: TidelogProcess, topic: str) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        wait_for_coordinator(conversation, topic)
        topic_id_of(conversation, topic)
        request = commit_request(topic, topic, {0: 9}, generation_id_or_member_epoch=1, member_id="m")
        (answered,) = conversation.ask(request, 8).topics
        assert answered.partitions[0].error_code is ErrorCode.ILLEGAL_GENERATION
        (answered,) = conversation.ask(request, 9).topics
        assert answered.partitions[0].error_code is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "mine"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "(", "subscribed_topic_names": None}, ErrorCode.INVALID_REGULAR_EXPRESSION),
    ],
    ids=lambda value: value.name if isinstance(value, ErrorCode) else "-".join(value),
)
def test_a_consumer_that_cannot_join_is_told_why(
    tidelog: TidelogProcess, topic: str, changed: dict[str, Any], code: ErrorCode
) -> None:
    with Conversation(tidelog.bootstrap) as conversation:
        wait_for_coordinator(conversation, topic)
        refused = conversation.ask(replace(consumer_heartbeat(topic, CLIENT_MADE_ID, 0), **changed), 1)
        assert refused.error_code is code
        assert refused.error_message
