"""Expiry (KIP-211): how long offsets are kept, and when a group is forgotten."""

from __future__ import annotations

import pytest

from tests.coordinator.group.classic_room import GROUP
from tests.coordinator.group.offset_room import OffsetRoom
from tests.coordinator.group.test_offsets_delete import ORDERS
from tidelog.coordinator.group.offsets.area import ExpiryTimer
from tidelog.coordinator.group.offsets.sweep import TOMBSTONES_MAX
from tidelog.coordinator.group.settings import GroupSettings
from tidelog.model import ErrorCode

A, B, C = ("orders", 0), ("orders", 1), ("payments", 0)
CHECK_MS = 10_000
RETENTION_MS = 100_000


@pytest.fixture
def room() -> OffsetRoom:
    return OffsetRoom(
        settings=GroupSettings(
            offsets_retention_ms=RETENTION_MS,
            offsets_retention_check_interval_ms=CHECK_MS,
            initial_rebalance_delay_ms=0,
        )
    )


def test_the_first_look_is_one_interval_after_loading(room: OffsetRoom) -> None:
    assert room.driver.timers == {ExpiryTimer(): CHECK_MS}
    room.wait_ms(3 * CHECK_MS)
    assert room.driver.timers == {ExpiryTimer(): 4 * CHECK_MS}


def test_whoever_is_in_no_group_keeps_each_offset_from_its_own_commit_on(room: OffsetRoom) -> None:
    room.commit({A: 1, B: 2})
    room.wait_ms(RETENTION_MS / 2)
    room.commit({A: 3})
    room.wait_ms(RETENTION_MS / 2 - 1)
    assert room.fetch() == {A: 3, B: 2}
    room.wait_ms(CHECK_MS)
    assert room.fetch() == {A: 3}
    room.driver.fail_over()
    assert room.fetch() == {A: 3}
    room.wait_ms(RETENTION_MS / 2 + CHECK_MS)
    assert room.fetch() == {}
    assert GROUP not in room.book.groups
    room.driver.fail_over()
    assert GROUP not in room.book.groups


def test_a_group_without_members_keeps_all_from_when_it_lost_the_last(room: OffsetRoom) -> None:
    (member_id,) = room.stable(1, session_ms=1_000_000)
    room.commit({A: 1}, member_id=member_id, generation=room.group.generation)
    room.wait_ms(2 * RETENTION_MS)
    room.leave(member_id)
    room.wait_ms(RETENTION_MS - 2 * CHECK_MS)
    assert room.fetch() == {A: 1}
    room.driver.fail_over()
    assert room.fetch() == {A: 1}
    room.wait_ms(3 * CHECK_MS)
    assert room.fetch() == {}
    assert GROUP not in room.book.groups


def test_members_keep_what_they_subscribe_to_and_not_more(room: OffsetRoom) -> None:
    (member_id,) = room.stable(1, session_ms=1_000_000, protocols=(("range", ORDERS),))
    room.commit({A: 1, C: 3}, member_id=member_id, generation=room.group.generation)
    room.wait_ms(RETENTION_MS + CHECK_MS)
    assert room.fetch() == {A: 1}
    assert room.state == "Stable"


def test_where_nobody_can_tell_what_members_subscribe_to_all_is_kept(room: OffsetRoom) -> None:
    (member_id,) = room.stable(1, session_ms=1_000_000, protocols=(("range", b"?"),))
    room.commit({A: 1}, member_id=member_id, generation=room.group.generation)
    room.wait_ms(2 * RETENTION_MS)
    assert room.fetch() == {A: 1}


def test_others_than_consumers_keep_all_while_they_are_there(room: OffsetRoom) -> None:
    (member_id,) = room.stable(1, session_ms=1_000_000, protocol_type="connect")
    room.commit({A: 1}, member_id=member_id, generation=room.group.generation)
    room.wait_ms(2 * RETENTION_MS)
    assert room.fetch() == {A: 1}


def test_a_retention_that_a_client_asked_for_overrides_the_setting(room: OffsetRoom) -> None:
    room.commit({A: 1}, retention_ms=CHECK_MS, version=4)
    room.commit({B: 2}, retention_ms=3 * RETENTION_MS, version=4)
    room.driver.fail_over()
    room.wait_ms(CHECK_MS - 1)
    assert room.fetch() == {A: 1, B: 2}
    room.wait_ms(CHECK_MS)
    assert room.fetch() == {B: 2}
    room.wait_ms(2 * RETENTION_MS)
    assert room.fetch() == {B: 2}
    room.wait_ms(RETENTION_MS)
    assert room.fetch() == {}


def test_an_empty_group_that_committed_nothing_is_forgotten_at_the_next_look(room: OffsetRoom) -> None:
    (member_id,) = room.stable(1)
    room.leave(member_id)
    assert room.state == "Empty"
    room.wait_ms(CHECK_MS)
    assert GROUP not in room.book.groups
    room.driver.fail_over()
    assert GROUP not in room.book.groups


def test_what_a_transaction_is_about_to_change_is_kept_with_its_group(room: OffsetRoom) -> None:
    room.commit({A: 1, B: 2})
    room.commit_in_transaction(7, {A: 10})
    room.wait_ms(RETENTION_MS + CHECK_MS)
    assert room.fetch() == {A: 1}
    room.delete(A)
    room.commit_in_transaction(7, {C: 10})
    room.wait_ms(RETENTION_MS + CHECK_MS)
    assert GROUP in room.book.groups
    room.log.end(7, is_committed=False)
    room.wait_ms(CHECK_MS)
    assert GROUP not in room.book.groups


@pytest.mark.slow
def test_many_offsets_expire_in_slices_and_the_group_with_the_last(room: OffsetRoom) -> None:
    fresh = {("payments", index): index for index in range(700)}
    room.commit({("orders", index): index for index in range(5_300)})
    room.commit({("orders", 9_999): 1}, group_id="others")
    room.wait_ms(RETENTION_MS - 1)
    room.commit(fresh)
    before = len(room.driver.log)
    decisions = room.log.record_counts
    decisions.clear()
    room.wait_ms(CHECK_MS)
    assert room.fetch() == fresh
    assert len(room.driver.log) - before == 5_302
    assert max(decisions) == TOMBSTONES_MAX
    assert "others" not in room.book.groups
    room.wait_ms(RETENTION_MS)
    assert not room.book.groups
    assert not room.fetch()


def test_a_look_that_cannot_be_written_is_repeated(room: OffsetRoom) -> None:
    room.commit({A: 1})
    room.driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    room.wait_ms(RETENTION_MS + CHECK_MS)
    assert room.fetch() == {A: 1}
    assert len(room.driver.timers) == 1
    room.driver.append_error = None
    room.wait_ms(1_000)
    assert room.fetch() == {}
