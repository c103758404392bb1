"""Offsets committed in transactions: invisible until the marker, and in the order of the log."""

from __future__ import annotations

import pytest

from tests.coordinator.group.classic_room import GROUP
from tests.coordinator.group.offset_room import OffsetRoom
from tidelog.coordinator import MalformedRecord, Written
from tidelog.coordinator.group.offsets import OffsetTable
from tidelog.coordinator.group.offsets.keys import join_key, slot_of
from tidelog.model import ErrorCode

A, B = ("orders", 0), ("orders", 1)
UNSTABLE = -ErrorCode.UNSTABLE_OFFSET_COMMIT


@pytest.fixture
def room() -> OffsetRoom:
    return OffsetRoom()


def test_a_commit_marker_shows_what_was_written(room: OffsetRoom) -> None:
    room.commit_in_transaction(7, {A: 1, B: 2})
    assert room.fetch() == {}
    room.log.end(7, is_committed=True)
    assert room.fetch() == {A: 1, B: 2}
    room.driver.fail_over()
    assert room.fetch(stable=True) == {A: 1, B: 2}


def test_an_abort_marker_drops_it(room: OffsetRoom) -> None:
    room.commit({A: 1})
    room.commit_in_transaction(7, {A: 5, B: 2})
    room.log.end(7, is_committed=False)
    assert room.fetch(stable=True) == {A: 1}
    room.driver.fail_over()
    assert room.fetch(stable=True) == {A: 1}


def test_a_transaction_that_is_open_during_a_fail_over_can_still_be_committed(room: OffsetRoom) -> None:
    room.commit_in_transaction(7, {A: 1})
    room.driver.fail_over()
    assert room.fetch(A, stable=True) == {A: UNSTABLE}
    room.log.end(7, is_committed=True)
    assert room.fetch(A, stable=True) == {A: 1}


def test_a_plain_commit_that_came_later_wins(room: OffsetRoom) -> None:
    room.commit_in_transaction(7, {A: 1})
    room.commit({A: 2})
    assert room.fetch(A, stable=True) == {A: UNSTABLE}
    room.log.end(7, is_committed=True)
    assert room.fetch(A, stable=True) == {A: 2}
    room.driver.fail_over()
    assert room.fetch(A, stable=True) == {A: 2}


def test_of_two_transactions_the_one_that_wrote_later_wins_whichever_ends_first(room: OffsetRoom) -> None:
    room.commit_in_transaction(7, {A: 1, B: 1})
    room.commit_in_transaction(8, {A: 2})
    room.commit_in_transaction(7, {B: 3})
    room.commit_in_transaction(8, {B: 2})
    room.log.end(8, is_committed=True)
    assert room.fetch(stable=False) == {A: 2, B: 2}
    room.log.end(7, is_committed=True)
    assert room.fetch(stable=True) == {A: 2, B: 2}
    room.driver.fail_over()
    assert room.fetch(stable=True) == {A: 2, B: 2}


def test_the_last_commit_within_a_transaction_counts(room: OffsetRoom) -> None:
    room.commit_in_transaction(7, {A: 1})
    room.commit({A: 5})
    room.commit_in_transaction(7, {A: 2})
    room.log.end(7, is_committed=True)
    assert room.fetch() == {A: 2}


def test_a_tombstone_is_final_for_what_was_written_before_it(room: OffsetRoom) -> None:
    room.commit({A: 1})
    room.commit_in_transaction(7, {A: 2})
    room.delete(A)
    room.commit_in_transaction(7, {B: 3})
    room.log.end(7, is_committed=True)
    assert room.fetch(stable=True) == {B: 3}
    room.driver.fail_over()
    assert room.fetch(stable=True) == {B: 3}


def test_a_pending_commit_makes_a_group(room: OffsetRoom) -> None:
    room.commit_in_transaction(7, {A: 1})
    assert room.state == "Empty"
    assert room.delete_group() is ErrorCode.NONE
    room.log.end(7, is_committed=True)
    assert room.fetch() == {}
    assert GROUP not in room.book.groups


def test_a_marker_of_a_producer_that_committed_nothing_is_no_news(room: OffsetRoom) -> None:
    room.commit({A: 1})
    room.log.end(7, is_committed=True)
    assert room.fetch(stable=True) == {A: 1}


def test_a_table_that_lost_everything_remembers_nothing() -> None:
    table = OffsetTable()
    key = join_key(b"group", slot_of("orders", 0))
    table.replay(key, b"1", Written(0))
    table.replay(key, b"2", Written(1, 7, 0))
    table.replay(key, None, Written(2))
    table.replay(key, b"3", Written(3, 7, 0))
    table.end_transaction(7, is_committed=False)
    assert (list(table.groups), list(table.topics), table.values("group")) == ([], [], {})
    assert not table.has_pending("group")


def test_an_old_key_and_a_new_one_of_the_same_partition_are_the_same_offset() -> None:
    table = OffsetTable()
    key = join_key(b"group", slot_of("orders", 0))
    table.replay(b"\x00\x00" + key[2:], b"old", Written(0))
    table.replay(key, b"new", Written(1))
    assert list(table.values("group").values()) == [b"new"]


@pytest.mark.parametrize(
    "key",
    [
        b"\x00\x01",
        b"\x00\x01\x00",
        b"\x00\x01\x00\x05group",
        b"\x00\x01\x00\x05grou",
        b"\x00\x01\xff\xff" + slot_of("orders", 0),
        b"\x00\x01\x00\x05group" + slot_of("orders", 0)[:-1],
        b"\x00\x01\x00\x05group" + slot_of("orders", 0) + b"\x00",
        b"\x00\x01\x00\x05group" + b"\x00\x02\xff\xfe" + b"\x00\x00\x00\x00",
        b"\x00\x01\x00\x02\xff\xfe" + slot_of("orders", 0),
    ],
)
@pytest.mark.parametrize("producer_id", [-1, 7])
def test_a_damaged_key_changes_nothing(key: bytes, producer_id: int) -> None:
    table = OffsetTable()
    table.replay(join_key(b"known", slot_of("orders", 0)), b"1", Written(0))
    with pytest.raises(MalformedRecord):
        table.replay(key, b"2", Written(1, producer_id))
    table.end_transaction(7, is_committed=True)
    assert (list(table.groups), list(table.topics)) == (["known"], [b"orders"])
    assert table.values("known") == {slot_of("orders", 0): b"1"}
