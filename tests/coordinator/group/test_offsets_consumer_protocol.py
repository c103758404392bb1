"""Offsets and administration of groups that speak the consumer protocol (KIP-848)."""

from __future__ import annotations

import pytest

from tests.coordinator.group.classic_room import GROUP
from tests.coordinator.group.offset_room import OffsetRoom
from tidelog.coordinator.group.settings import GroupSettings
from tidelog.model import ErrorCode
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.wire.messages.offset_fetch import OffsetFetchRequestGroup

A, C = ("orders", 0), ("payments", 0)
CHECK_MS = 10_000
RETENTION_MS = 100_000
MEMBER = "AAAAAAAAAAAAAAAAAAAAAA"


@pytest.fixture
def room() -> OffsetRoom:
    room = OffsetRoom(
        settings=GroupSettings(
            offsets_retention_ms=RETENTION_MS,
            offsets_retention_check_interval_ms=CHECK_MS,
            consumer_session_timeout_ms=10 * RETENTION_MS,
        )
    )
    room.topics.create("orders")
    return room


def beat(room: OffsetRoom, epoch: int) -> int:
    """A heartbeat, which says everything when it joins; the epoch that the member has then."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=MEMBER,
        member_epoch=epoch,
        rebalance_timeout_ms=60_000 if epoch == 0 else -1,
        subscribed_topic_names=("orders",) if epoch == 0 else None,
        topic_partitions=() if epoch == 0 else None,
    )
    response = room.driver.ask(request, version=1)
    assert response.error_code is ErrorCode.NONE
    member_epoch: int = response.member_epoch
    return member_epoch


def test_members_commit_with_their_epoch(room: OffsetRoom) -> None:
    epoch = beat(room, 0)
    assert room.commit({A: 5}, member_id=MEMBER, generation=epoch) == {A: ErrorCode.NONE}
    assert room.commit({A: 6}, member_id=MEMBER, generation=epoch - 1) == {A: ErrorCode.STALE_MEMBER_EPOCH}
    assert room.commit({A: 7}, member_id="stranger", generation=epoch) == {A: ErrorCode.UNKNOWN_MEMBER_ID}
    assert room.commit({A: 8}) == {A: ErrorCode.UNKNOWN_MEMBER_ID}
    room.driver.fail_over()
    assert room.fetch() == {A: 5}
    assert room.commit({A: 9}, member_id=MEMBER, generation=epoch) == {A: ErrorCode.NONE}


def test_members_fetch_with_their_epoch(room: OffsetRoom) -> None:
    epoch = beat(room, 0)
    room.commit({A: 5}, member_id=MEMBER, generation=epoch)

    def fetched(member_id: str | None, member_epoch: int) -> ErrorCode:
        group = OffsetFetchRequestGroup(group_id=GROUP, member_id=member_id, member_epoch=member_epoch, topics=None)
        code: ErrorCode = room.fetched(group).error_code
        return code

    assert fetched(MEMBER, epoch) is ErrorCode.NONE
    assert fetched(MEMBER, epoch - 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert fetched("stranger", epoch) is ErrorCode.UNKNOWN_MEMBER_ID
    assert fetched(None, -1) is ErrorCode.NONE


def test_what_they_subscribe_to_is_neither_deleted_nor_expires(room: OffsetRoom) -> None:
    epoch = beat(room, 0)
    room.commit({A: 5, C: 6}, member_id=MEMBER, generation=epoch)
    (topic,) = room.delete(A).topics
    assert [partition.error_code for partition in topic.partitions] == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    room.wait_ms(RETENTION_MS + CHECK_MS)
    assert room.fetch() == {A: 5}


def test_a_group_that_all_have_left_keeps_each_offset_from_its_commit_on_and_is_forgotten_then(
    room: OffsetRoom,
) -> None:
    epoch = beat(room, 0)
    room.commit({A: 5}, member_id=MEMBER, generation=epoch)
    room.wait_ms(RETENTION_MS / 2)
    beat(room, -1)
    room.wait_ms(RETENTION_MS / 2 - CHECK_MS)
    assert room.fetch() == {A: 5}
    room.wait_ms(2 * CHECK_MS)
    assert GROUP not in room.book.groups
    room.driver.fail_over()
    assert GROUP not in room.book.groups
    room.log.compact()
    assert not room.book.groups


def test_a_group_that_all_have_left_can_be_deleted(room: OffsetRoom) -> None:
    epoch = beat(room, 0)
    room.commit({A: 5}, member_id=MEMBER, generation=epoch)
    assert room.delete_group() is ErrorCode.NON_EMPTY_GROUP
    beat(room, -1)
    assert room.delete_group() is ErrorCode.NONE
    for _ in range(2):
        assert GROUP not in room.book.groups
        assert room.fetch() == {}
        room.driver.fail_over()
    newest = {record.key: record.value for record in room.driver.log}
    assert set(newest.values()) == {None}, "whatever was written about the group was taken back"
