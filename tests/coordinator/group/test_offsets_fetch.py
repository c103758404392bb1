"""OffsetFetch: what was committed, and what is not told."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.coordinator.group.classic_room import GROUP
from tests.coordinator.group.offset_room import OffsetRoom
from tidelog.coordinator import Client, Command, Written
from tidelog.coordinator.group.records import CommittedOffset, OffsetKey, offset_record
from tidelog.model import ApiError, ErrorCode
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

A, B, C = ("orders", 0), ("orders", 1), ("payments", 0)


@pytest.fixture
def room() -> OffsetRoom:
    return OffsetRoom()


def test_where_nothing_was_committed_there_is_no_offset_and_no_error(room: OffsetRoom) -> None:
    assert room.fetch(A) == {A: -1}
    room.commit({B: 4})
    topics = (OffsetFetchRequestTopics(name="orders", partition_indexes=(0, 1)),)
    (topic,) = room.fetched(OffsetFetchRequestGroup(group_id=GROUP, topics=topics)).topics
    first, second = topic.partitions
    assert (first.committed_offset, first.committed_leader_epoch, first.metadata) == (-1, -1, "")
    assert (first.error_code, second.committed_offset) == (ErrorCode.NONE, 4)


def test_whoever_names_no_topics_is_told_of_all(room: OffsetRoom) -> None:
    assert room.fetch() == {}
    room.commit({A: 1, C: 3, B: 2})
    room.commit({A: 9}, group_id="others")
    assert room.fetch() == {A: 1, B: 2, C: 3}
    answer = room.fetched(OffsetFetchRequestGroup(group_id=GROUP, topics=None))
    assert [topic.name for topic in answer.topics] == ["orders", "payments"]


def test_whoever_names_an_empty_list_is_told_nothing(room: OffsetRoom) -> None:
    room.commit({A: 1})
    assert room.fetched(OffsetFetchRequestGroup(group_id=GROUP, topics=())).topics == ()


def test_a_topic_whose_name_no_record_can_hold_has_no_offsets(room: OffsetRoom) -> None:
    room.commit({A: 1})
    endless = ("x" * 70_000, 0)
    assert room.fetch(endless) == {endless: -1}


def test_a_pending_commit_is_unstable_for_those_who_ask_for_stable_offsets(room: OffsetRoom) -> None:
    room.commit({A: 1, B: 2})
    room.commit_in_transaction(7, {A: 10, C: 30})
    unstable = -ErrorCode.UNSTABLE_OFFSET_COMMIT
    for _ in range(2):
        assert room.fetch(A, B, C) == {A: 1, B: 2, C: -1}
        assert room.fetch(A, B, C, stable=True) == {A: unstable, B: 2, C: unstable}
        assert room.fetch(stable=True) == {A: unstable, B: 2}
        room.driver.fail_over()
    room.log.end(7, is_committed=True)
    assert room.fetch(stable=True) == {A: 10, B: 2, C: 30}


class NewerMembers:
    """A group whose members are at a newer epoch."""

    def check_fetch(self, *, member_id: str | None, epoch: int) -> None:
        if epoch >= 0:
            raise ApiError(ErrorCode.STALE_MEMBER_EPOCH)


def test_a_member_with_an_old_epoch_is_told_so_for_the_group_as_a_whole(room: OffsetRoom) -> None:
    room.commit({A: 1})
    room.book.groups[GROUP] = NewerMembers()  # type: ignore[assignment]
    topics = (OffsetFetchRequestTopics(name="orders", partition_indexes=(0,)),)
    group = OffsetFetchRequestGroup(group_id=GROUP, member_id="me", member_epoch=3, topics=topics)
    answer = room.fetched(group)
    assert (answer.error_code, answer.topics) == (ErrorCode.STALE_MEMBER_EPOCH, ())
    assert room.fetch(A) == {A: 1}


def test_an_offset_of_a_deleted_topic_of_the_same_name_is_not_told(room: OffsetRoom) -> None:
    old, new = UUID(int=1), UUID(int=2)
    record = offset_record(OffsetKey(GROUP, *A), CommittedOffset(5, -1, "", 0, topic_id=old))
    room.driver.machine.replay(record, Written(0))
    told = {}
    for topic_id in (None, old, new):
        topics = (OffsetFetchRequestTopics(name="orders", topic_id=topic_id, partition_indexes=(0,)),)
        (topic,) = room.fetched(OffsetFetchRequestGroup(group_id=GROUP, topics=topics)).topics
        told[topic_id] = topic.partitions[0].committed_offset
    assert told == {None: 5, old: 5, new: -1}


def test_a_value_of_a_later_release_is_as_if_nothing_was_committed(room: OffsetRoom) -> None:
    record = offset_record(OffsetKey(GROUP, *A), CommittedOffset(5, -1, "", 0))
    room.driver.machine.replay(record._replace(value=b"\x00\x63later"), Written(0))
    assert room.fetch(A) == {A: -1}


def test_several_groups_are_told_in_the_order_asked(room: OffsetRoom) -> None:
    room.commit({A: 1})
    groups = tuple(OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("zebra", GROUP, "ape"))
    answers = room.driver.ask(OffsetFetchRequest(groups=groups), version=8).groups
    assert [(answer.group_id, len(answer.topics)) for answer in answers] == [("zebra", 0), (GROUP, 1), ("ape", 0)]


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_refusal_is_said_of_every_group(room: OffsetRoom, code: ErrorCode) -> None:
    groups = tuple(OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("a", "b"))
    command = Command(1, OffsetFetchRequest(groups=groups), Client("client", "/127.0.0.1", 8))
    refusal = room.driver.machine.refusal(command, code)
    assert isinstance(refusal, OffsetFetchResponse)
    assert [group.error_code for group in refusal.groups] == [code, code]
