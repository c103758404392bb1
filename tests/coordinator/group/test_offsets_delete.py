"""OffsetDelete, and what happens to the offsets of a topic that is deleted."""

from __future__ import annotations

import pytest

from tests.coordinator.group.offset_room import OffsetRoom
from tidelog.coordinator.group.offsets.area import ExpiryTimer
from tidelog.coordinator.group.offsets.sweep import TOMBSTONES_MAX
from tidelog.model import ErrorCode
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

A, B, C = ("orders", 0), ("orders", 1), ("payments", 0)
ORDERS = b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x06orders" + b"\xff\xff\xff\xff"


@pytest.fixture
def room() -> OffsetRoom:
    return OffsetRoom()


def codes(response: object) -> list[ErrorCode]:
    return [partition.error_code for topic in response.topics for partition in topic.partitions]  # type: ignore[attr-defined]


def test_deleted_offsets_are_gone_and_stay_gone(room: OffsetRoom) -> None:
    room.commit({A: 1, B: 2, C: 3})
    response = room.delete(A, C)
    assert (response.error_code, codes(response)) == (ErrorCode.NONE, [ErrorCode.NONE, ErrorCode.NONE])
    assert room.fetch() == {B: 2}
    room.driver.fail_over()
    assert room.fetch() == {B: 2}


def test_an_offset_that_was_never_committed_is_deleted_without_a_record(room: OffsetRoom) -> None:
    room.commit({A: 1})
    assert codes(room.delete(B)) == [ErrorCode.NONE]
    assert len(room.driver.log) == 1


def test_of_a_group_that_nobody_knows_nothing_is_deleted(room: OffsetRoom) -> None:
    response = room.delete(A)
    assert (response.error_code, response.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, ())


def test_what_a_member_subscribes_to_is_not_deleted(room: OffsetRoom) -> None:
    (member_id,) = room.stable(1, protocols=(("range", ORDERS),))
    room.commit({A: 1, C: 3}, member_id=member_id, generation=room.group.generation)
    for _ in range(2):
        assert codes(room.delete(A, C)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]
        assert room.fetch() == {A: 1}
        room.driver.fail_over()


def test_a_group_of_others_than_consumers_keeps_all_while_it_has_members(room: OffsetRoom) -> None:
    (member_id,) = room.stable(1, protocol_type="connect")
    room.commit({A: 1}, member_id=member_id, generation=room.group.generation)
    assert room.delete(A).error_code is ErrorCode.NON_EMPTY_GROUP
    room.leave(member_id)
    assert codes(room.delete(A)) == [ErrorCode.NONE]
    assert room.fetch() == {}


def test_a_pending_commit_is_deleted_as_well(room: OffsetRoom) -> None:
    room.commit_in_transaction(7, {A: 1, B: 2})
    assert codes(room.delete(A)) == [ErrorCode.NONE]
    room.driver.fail_over()
    room.log.end(7, is_committed=True)
    assert room.fetch() == {B: 2}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_failed_append_deletes_nothing(room: OffsetRoom, said: ErrorCode, told: ErrorCode) -> None:
    room.commit({A: 1})
    room.driver.append_error = said
    assert room.delete(A).error_code is told
    assert room.fetch() == {A: 1}


def test_offsets_of_a_deleted_topic_are_forgotten(room: OffsetRoom) -> None:
    room.topics.create("orders")
    room.topics.create("payments")
    room.commit({A: 1, B: 2, C: 3})
    room.commit({A: 4}, group_id="others")
    room.topics.delete("orders")
    room.driver.topics_changed()
    room.wait_ms(0)
    assert (room.fetch(), room.fetch(group_id="others")) == ({C: 3}, {})
    room.driver.fail_over()
    assert (room.fetch(), room.fetch(group_id="others")) == ({C: 3}, {})


def test_a_topic_that_this_broker_has_not_heard_of_was_not_deleted(room: OffsetRoom) -> None:
    room.commit({A: 1})
    room.driver.topics_changed()
    room.driver.fail_over()
    room.topics.create("payments")
    room.driver.topics_changed()
    room.wait_ms(0)
    assert room.fetch() == {A: 1}
    room.topics.create("orders")
    room.driver.topics_changed()
    room.topics.delete("orders")
    room.driver.topics_changed()
    room.wait_ms(0)
    assert room.fetch() == {}


def test_a_topic_that_was_known_when_the_partition_was_loaded_can_be_deleted(room: OffsetRoom) -> None:
    room.commit({A: 1})
    room.topics.create("orders")
    room.driver.fail_over()
    room.topics.delete("orders")
    room.driver.topics_changed()
    room.wait_ms(0)
    assert room.fetch() == {}


def test_a_topic_that_became_known_while_the_partition_was_loaded_can_be_deleted(room: OffsetRoom) -> None:
    room.commit({A: 1})
    room.log.before_loaded = lambda: room.topics.create("orders")
    room.driver.fail_over()
    room.topics.delete("orders")
    room.driver.topics_changed()
    room.wait_ms(0)
    assert room.fetch() == {}


def test_a_topic_that_was_deleted_and_made_again_begins_without_offsets(room: OffsetRoom) -> None:
    room.topics.create("orders")
    room.commit({A: 1})
    room.topics.delete("orders")
    room.topics.create("orders")
    room.driver.topics_changed()
    room.wait_ms(0)
    assert room.fetch() == {}
    room.commit({A: 2})
    room.driver.topics_changed()
    room.wait_ms(0)
    assert room.fetch() == {A: 2}


def test_what_was_committed_for_a_topic_that_was_made_again_stays_if_it_names_its_id(room: OffsetRoom) -> None:
    room.topics.create("orders")
    former = room.topics.views["orders"].topic_id
    room.commit({A: 1, B: 2}, topic_id=former)
    room.topics.delete("orders")
    room.topics.create("orders")
    present = room.topics.views["orders"].topic_id
    room.commit({A: 3}, topic_id=present)  # before anybody has looked at what became of the former one
    room.driver.topics_changed()
    room.wait_ms(0)
    assert room.fetch() == {A: 3}
    room.driver.fail_over()
    assert room.fetch() == {A: 3}
    room.topics.delete("orders")
    room.driver.topics_changed()
    room.wait_ms(0)
    assert room.fetch() == {}


@pytest.mark.parametrize("is_transactional", [False, True])
def test_what_was_committed_for_a_topic_that_was_made_again_stays_also_where_only_its_name_was_said(
    room: OffsetRoom, *, is_transactional: bool
) -> None:
    room.topics.create("orders")
    room.commit({A: 1, B: 2})
    room.topics.delete("orders")
    room.topics.create("orders")
    if is_transactional:  # before anybody has looked at what became of the former one
        room.commit_in_transaction(7, {A: 3})
        room.log.end(7, is_committed=True)
    else:
        room.commit({A: 3})
    room.driver.topics_changed()
    room.wait_ms(0)
    assert room.fetch() == {A: 3}
    room.topics.is_whole = True
    room.driver.fail_over()
    room.wait_ms(0)
    assert room.fetch() == {A: 3}


def test_a_commit_that_was_accepted_before_the_log_took_the_tombstones_stays(room: OffsetRoom) -> None:
    room.topics.create("orders")
    room.commit({A: 500, B: 600})
    room.driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    room.topics.delete("orders")
    room.driver.topics_changed()
    room.wait_ms(700)
    room.topics.create("orders")
    room.driver.topics_changed()
    room.wait_ms(750)
    room.driver.append_error = None
    assert room.commit({A: 7}) == {A: ErrorCode.NONE}
    room.wait_ms(1_000)
    assert room.fetch() == {A: 7}


def test_what_was_seen_of_topics_while_nothing_could_be_written_is_seen_again(room: OffsetRoom) -> None:
    """A KIP-848 group subscribed to the topic has something to write at the same moment, so nothing was decided."""
    room.topics.create("orders")
    joining = ConsumerGroupHeartbeatRequest(
        group_id="modern",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=("orders",),
        topic_partitions=(),
    )
    room.driver.ask(joining, version=1)
    room.commit({A: 500})
    room.topics.delete("orders")
    room.driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    room.driver.topics_changed()
    assert room.fetch() == {A: 500}
    room.driver.append_error = None
    room.driver.topics_changed()
    room.wait_ms(0)
    assert room.fetch() == {}


@pytest.mark.parametrize("is_pending", [False, True])
def test_a_topic_that_was_deleted_during_a_fail_over_leaves_nothing_to_the_next_of_its_name(
    room: OffsetRoom, *, is_pending: bool
) -> None:
    room.topics.create("orders")
    room.topics.create("payments")
    if is_pending:
        room.commit_in_transaction(7, {A: 1, C: 3})
    else:
        room.commit({A: 1, C: 3})
    room.topics.delete("orders")
    room.topics.is_whole = True
    room.driver.fail_over()
    room.wait_ms(0)
    room.topics.create("orders")
    room.driver.topics_changed()
    if is_pending:
        room.log.end(7, is_committed=True)
    assert room.fetch() == {C: 3}
    room.commit({A: 4})
    room.wait_ms(0)
    room.driver.fail_over()
    room.wait_ms(0)
    assert room.fetch() == {A: 4, C: 3}


def test_a_topic_that_was_not_told_yet_is_not_lost(room: OffsetRoom) -> None:
    room.commit({A: 1, B: 2})
    room.driver.fail_over()
    room.wait_ms(10_000)
    assert room.fetch() == {A: 1, B: 2}
    room.topics.create("orders")
    room.topics.is_whole = True
    room.wait_ms(10_000)
    assert room.fetch() == {A: 1, B: 2}
    assert set(room.driver.timers) == {ExpiryTimer()}


def test_what_was_committed_for_another_topic_of_the_same_name_is_lost_if_it_says_so(room: OffsetRoom) -> None:
    room.topics.create("orders")
    room.commit({A: 1}, topic_id=room.topics.views["orders"].topic_id)
    room.topics.delete("orders")
    room.topics.create("orders")
    room.commit({B: 2}, topic_id=room.topics.views["orders"].topic_id)
    room.topics.is_whole = True
    room.driver.fail_over()
    room.wait_ms(0)
    assert room.fetch() == {B: 2}


def test_a_topic_that_was_made_again_while_the_partition_was_loaded_begins_without_offsets(room: OffsetRoom) -> None:
    room.topics.create("orders")
    room.commit({A: 1})

    def make_again() -> None:
        room.topics.delete("orders")
        room.topics.create("orders")

    room.log.before_loaded = make_again
    room.driver.fail_over()
    room.wait_ms(0)
    assert room.fetch() == {}


def test_lost_topics_are_looked_for_in_slices_and_not_while_another_controller_tells_of_them(room: OffsetRoom) -> None:
    room.topics.create("payments")
    room.commit({("orders", index): index for index in range(1_500)} | {C: 3})
    room.driver.fail_over()
    room.topics.is_whole = True
    (timer,) = set(room.driver.timers) - {ExpiryTimer()}
    decision = room.driver.machine.on_timer(timer, room.driver.now)
    assert (len(decision.records), decision.may_be_cut) == (TOMBSTONES_MAX, True)
    room.topics.is_whole = False
    ((again, _),) = decision.timers
    assert room.driver.machine.on_timer(again, room.driver.now).timers == ((again, room.driver.monotonic_ms + 1_000),)
    room.topics.is_whole = True
    room.wait_ms(0)
    assert room.fetch() == {C: 3}


@pytest.mark.slow
def test_many_offsets_of_a_deleted_topic_are_forgotten_in_slices_even_if_the_log_fails_meanwhile(
    room: OffsetRoom,
) -> None:
    room.topics.create("orders")
    room.commit({("orders", index): index for index in range(3_500)} | {C: 3})
    room.topics.delete("orders")
    room.driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    room.driver.topics_changed()
    room.wait_ms(2_000)
    assert len(room.fetch()) == 3_501
    room.driver.append_error = None
    before = len(room.driver.log)
    room.wait_ms(1_000)
    assert room.fetch() == {C: 3}
    assert len(room.driver.log) - before == 3_500
