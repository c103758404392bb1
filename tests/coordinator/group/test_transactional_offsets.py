"""TxnOffsetCommit: who may commit in a transaction, what is written, and how it is refused (KIP-98, KIP-447)."""

from __future__ import annotations

import pytest

from tests.coordinator.group.classic_room import GROUP, SESSION_MS
from tests.coordinator.group.offset_room import OffsetRoom, transactional_request
from tidelog.coordinator import Client, Command
from tidelog.coordinator.group.records import CommittedOffset, read_committed_offset, read_offset_key
from tidelog.coordinator.group.settings import GroupSettings
from tidelog.model import NO_TIMESTAMP, ErrorCode, ProducerIdentity
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

A, B = ("orders", 0), ("orders", 1)
PRODUCER = 7
UNSTABLE = -ErrorCode.UNSTABLE_OFFSET_COMMIT
CHECK_MS = 10_000
RETENTION_MS = 100_000


@pytest.fixture
def room() -> OffsetRoom:
    checks = GroupSettings(offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=CHECK_MS)
    room = OffsetRoom(settings=checks)
    room.topics.create("orders")
    return room


def heartbeat(room: OffsetRoom, member_id: str, epoch: int) -> int:
    """Of the consumer protocol; the epoch that the member has then."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=epoch,
        rebalance_timeout_ms=60_000 if epoch == 0 else -1,
        subscribed_topic_names=("orders",) if epoch == 0 else None,
        topic_partitions=() if epoch == 0 else None,
    )
    member_epoch: int = room.driver.ask(request, version=1).member_epoch
    return member_epoch


# What is written.


def test_the_records_lie_in_the_transaction_of_the_producer(room: OffsetRoom) -> None:
    request = transactional_request(PRODUCER, {A: 5, B: 6}, producer_epoch=3, metadata="note", leader_epoch=4)
    command = Command(1, request, Client("client", "/127.0.0.1", 5))
    decision = room.driver.machine.decide(command, room.driver.now)
    assert decision.producer == ProducerIdentity(PRODUCER, 3)
    assert [read_offset_key(record.key) for record in decision.records] == [(GROUP, *A), (GROUP, *B)]
    values = [read_committed_offset(record.value or b"") for record in decision.records]
    now_ms = room.driver.now.wall_ms
    topic_id = room.topics.id_of("orders")
    assert values == [CommittedOffset(offset, 4, "note", now_ms, NO_TIMESTAMP, topic_id) for offset in (5, 6)]
    assert topic_id is not None
    assert not decision.is_told_at_once, "who hears it may rely on it"


def test_offsets_are_invisible_until_the_marker_and_unstable_for_those_who_ask(room: OffsetRoom) -> None:
    room.commit({A: 1})
    assert room.commit_in_transaction(PRODUCER, {A: 5}) == {A: ErrorCode.NONE}
    assert (room.fetch(A), room.fetch(A, B, stable=True)) == ({A: 1}, {A: UNSTABLE, B: -1})
    room.log.end(PRODUCER, is_committed=True)
    assert room.fetch(A, stable=True) == {A: 5}


def test_one_partition_with_long_metadata_does_not_refuse_the_others() -> None:
    room = OffsetRoom(settings=GroupSettings(offset_metadata_max_bytes=4))
    assert room.commit_in_transaction(PRODUCER, {A: 1}, metadata="12345") == {A: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert not room.driver.log
    assert room.commit_in_transaction(PRODUCER, {A: 1}, metadata="1234") == {A: ErrorCode.NONE}
    assert room.commit_in_transaction(PRODUCER, {B: 1}, metadata=None) == {B: ErrorCode.NONE}


def test_what_could_not_be_written_is_not_pending(room: OffsetRoom) -> None:
    """T10: memory and log agree."""
    room.driver.append_error = ErrorCode.INVALID_TXN_STATE
    assert room.commit_in_transaction(PRODUCER, {A: 5}) == {A: ErrorCode.INVALID_TXN_STATE}
    room.driver.append_error = None
    assert room.fetch(A, stable=True) == {A: -1}
    assert GROUP not in room.book.groups
    room.log.end(PRODUCER, is_committed=True)
    assert room.fetch() == {}


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_transaction_of_several_requests_ends_as_one(room: OffsetRoom, is_committed: bool) -> None:
    room.commit_in_transaction(PRODUCER, {A: 1})
    room.driver.fail_over()
    room.commit_in_transaction(PRODUCER, {A: 2, B: 3})
    room.log.compact()
    room.log.end(PRODUCER, is_committed=is_committed)
    expected = {A: 2, B: 3} if is_committed else {}
    assert room.fetch(stable=True) == expected
    room.log.compact()
    assert room.fetch(stable=True) == expected


def test_a_new_incarnation_does_not_inherit_what_the_fenced_one_left_open(room: OffsetRoom) -> None:
    room.commit_in_transaction(PRODUCER, {A: 1}, producer_epoch=3)
    room.log.end(PRODUCER, is_committed=False)
    room.commit_in_transaction(PRODUCER, {B: 2}, producer_epoch=4)
    room.driver.fail_over()
    room.log.end(PRODUCER, is_committed=True)
    assert room.fetch(stable=True) == {B: 2}


# Who may.


def test_a_commit_without_a_group_makes_a_simple_one(room: OffsetRoom) -> None:
    room.commit_in_transaction(PRODUCER, {A: 1})
    assert (room.state, room.group.protocol_type) == ("Empty", "")


def test_a_generation_of_a_group_that_nobody_knows_is_refused(room: OffsetRoom) -> None:
    refused = room.commit_in_transaction(PRODUCER, {A: 1}, generation=0, member_id="me")
    assert refused == {A: ErrorCode.ILLEGAL_GENERATION}
    assert not room.driver.log
    assert GROUP not in room.book.groups


@pytest.mark.parametrize("group_id", ["", "g" * 32_768])
def test_a_group_needs_a_name_that_fits(room: OffsetRoom, group_id: str) -> None:
    assert room.commit_in_transaction(PRODUCER, {A: 1}, group_id=group_id) == {A: ErrorCode.INVALID_GROUP_ID}


def test_nobody_commits_outside_of_a_transaction(room: OffsetRoom) -> None:
    assert room.commit_in_transaction(-1, {A: 1}) == {A: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    refused = room.commit_in_transaction(PRODUCER, {A: 1}, producer_epoch=-1)
    assert refused == {A: ErrorCode.INVALID_PRODUCER_EPOCH}
    assert room.fetch() == {}


def test_a_member_of_a_former_generation_is_refused(room: OffsetRoom) -> None:
    """G06: it has lost its partitions, and somebody else reads again what it has read."""
    member, other = room.stable(2)
    assert room.commit_in_transaction(PRODUCER, {A: 5}, member_id=member, generation=1) == {A: ErrorCode.NONE}
    room.leave(other)
    room.rejoin(member)
    room.synced(member, 2, parts={member: b"all"})
    assert (room.state, room.group.generation) == ("Stable", 2)
    stale = room.commit_in_transaction(PRODUCER, {A: 6}, member_id=member, generation=1)
    assert stale == {A: ErrorCode.ILLEGAL_GENERATION}
    gone = room.commit_in_transaction(PRODUCER, {A: 6}, member_id=other, generation=1)
    assert gone == {A: ErrorCode.UNKNOWN_MEMBER_ID}
    room.driver.fail_over()
    gone = room.commit_in_transaction(PRODUCER, {A: 6}, member_id=other, generation=1)
    assert gone == {A: ErrorCode.UNKNOWN_MEMBER_ID}
    room.log.end(PRODUCER, is_committed=True)
    assert room.fetch(A, stable=True) == {A: 5}


def test_a_member_may_commit_what_it_read_before_it_gets_its_part(room: OffsetRoom) -> None:
    """The state of the group is not looked at: the transaction has to come to an end."""
    member, other = room.stable(2)
    room.rejoin(member, other)
    assert (room.state, room.group.generation) == ("CompletingRebalance", 2)
    assert room.commit_in_transaction(PRODUCER, {A: 5}, member_id=member, generation=2) == {A: ErrorCode.NONE}


def test_a_static_member_that_was_replaced_is_fenced(room: OffsetRoom) -> None:
    _, former = room.stable(1, instances=("i",))
    room.joined(instance_id="i")
    refused = room.commit_in_transaction(PRODUCER, {A: 5}, member_id=former, generation=1, instance_id="i")
    assert refused == {A: ErrorCode.FENCED_INSTANCE_ID}


def test_who_says_nothing_of_a_group_is_believed(room: OffsetRoom) -> None:
    """As clients before version 3, which cannot say it."""
    room.stable(1)
    assert room.commit_in_transaction(PRODUCER, {A: 5}, version=2) == {A: ErrorCode.NONE}
    assert room.commit_in_transaction(PRODUCER, {A: 6}, member_id="stranger") == {A: ErrorCode.UNKNOWN_MEMBER_ID}


def test_a_commit_is_no_sign_of_life(room: OffsetRoom) -> None:
    """As in Kafka: it is the producer that speaks."""
    member, _ = room.stable(2)
    room.wait_ms(SESSION_MS - 1)
    room.commit_in_transaction(PRODUCER, {A: 5}, member_id=member, generation=1)
    room.wait_ms(2)
    assert member not in room.group.members


def test_members_of_the_consumer_protocol_commit_with_their_epoch(room: OffsetRoom) -> None:
    member = "AAAAAAAAAAAAAAAAAAAAAA"
    epoch = heartbeat(room, member, 0)
    assert room.commit_in_transaction(PRODUCER, {A: 5}, member_id=member, generation=epoch) == {A: ErrorCode.NONE}
    stale = room.commit_in_transaction(PRODUCER, {A: 6}, member_id=member, generation=epoch - 1)
    assert stale == {A: ErrorCode.ILLEGAL_GENERATION}
    unknown = room.commit_in_transaction(PRODUCER, {A: 7}, member_id="stranger", generation=epoch)
    assert unknown == {A: ErrorCode.UNKNOWN_MEMBER_ID}
    assert room.commit_in_transaction(PRODUCER, {A: 8}, version=2) == {A: ErrorCode.NONE}
    room.log.end(PRODUCER, is_committed=True)
    assert room.fetch() == {A: 8}


# How it is refused.


@pytest.mark.parametrize(
    ("said", "version", "heard"),
    [
        (ErrorCode.PRODUCER_FENCED, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_EPOCH, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.INVALID_TXN_STATE, 5, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 5, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 4, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NETWORK_EXCEPTION, 2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NETWORK_EXCEPTION, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, 5, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 5, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 5, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.MESSAGE_TOO_LARGE, 5, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
    ],
)
def test_a_producer_hears_what_it_knows(room: OffsetRoom, said: ErrorCode, version: int, heard: ErrorCode) -> None:
    room.driver.append_error = said
    assert room.commit_in_transaction(PRODUCER, {A: 1, B: 2}, version=version) == {A: heard, B: heard}


# What becomes of the group.


def test_a_group_does_not_expire_while_a_transaction_is_open(room: OffsetRoom) -> None:
    room.commit({A: 1})
    room.commit_in_transaction(PRODUCER, {A: 5})
    room.wait_ms(2 * RETENTION_MS)
    assert room.fetch() == {A: 1}
    room.log.end(PRODUCER, is_committed=False)
    room.wait_ms(CHECK_MS)
    assert (room.fetch(), GROUP in room.book.groups) == ({}, False)


def test_a_group_without_any_offset_but_a_pending_one_does_not_expire(room: OffsetRoom) -> None:
    room.commit_in_transaction(PRODUCER, {A: 5})
    room.wait_ms(2 * RETENTION_MS)
    assert GROUP in room.book.groups
    room.log.end(PRODUCER, is_committed=True)
    assert room.fetch(stable=True) == {A: 5}


def test_a_group_whose_only_transaction_was_aborted_goes_with_the_next_check(room: OffsetRoom) -> None:
    room.commit_in_transaction(PRODUCER, {A: 5})
    room.log.end(PRODUCER, is_committed=False)
    room.wait_ms(CHECK_MS)
    assert GROUP not in room.book.groups
    room.driver.fail_over()
    assert GROUP not in room.book.groups


def test_a_deleted_group_is_not_brought_back_by_a_commit_but_by_a_later_request(room: OffsetRoom) -> None:
    room.commit_in_transaction(PRODUCER, {A: 5})
    assert room.delete_group() is ErrorCode.NONE
    assert GROUP not in room.book.groups
    room.commit_in_transaction(PRODUCER, {B: 6})
    room.log.end(PRODUCER, is_committed=True)
    assert room.fetch(stable=True) == {B: 6}
    room.driver.fail_over()
    assert room.fetch(stable=True) == {B: 6}


def test_a_deleted_offset_is_stable_at_once(room: OffsetRoom) -> None:
    room.commit_in_transaction(PRODUCER, {A: 5})
    room.delete(A)
    assert room.fetch(A, stable=True) == {A: -1}
    room.log.end(PRODUCER, is_committed=True)
    assert room.fetch(A, stable=True) == {A: -1}
