"""OffsetCommit: who may commit, and what is remembered."""

from __future__ import annotations

import pytest

from tests.coordinator.driving import WALL_MS
from tests.coordinator.group.classic_room import GROUP, SESSION_MS
from tests.coordinator.group.offset_room import OffsetRoom, commit_request
from tidelog.coordinator.group.book import GroupChange
from tidelog.coordinator.group.classic import ClassicGroup
from tidelog.coordinator.group.records import read_committed_offset, read_offset_key
from tidelog.coordinator.group.settings import GroupSettings
from tidelog.model import ApiError, ErrorCode
from tidelog.wire.messages.offset_fetch import OffsetFetchRequestGroup

A, B = ("orders", 0), ("orders", 1)


@pytest.fixture
def room() -> OffsetRoom:
    return OffsetRoom()


def test_a_commit_without_a_group_makes_a_simple_one(room: OffsetRoom) -> None:
    assert room.commit({A: 5}) == {A: ErrorCode.NONE}
    assert (room.state, room.group.protocol_type) == ("Empty", "")
    room.driver.fail_over()
    assert room.fetch(A) == {A: 5}
    assert (room.state, room.group.protocol_type) == ("Empty", "")


@pytest.mark.parametrize(("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_generation_of_a_group_that_nobody_knows_is_refused(room: OffsetRoom, version: int, code: ErrorCode) -> None:
    assert room.commit({A: 5}, generation=3, member_id="me", version=version) == {A: code}
    assert not room.driver.log
    assert GROUP not in room.book.groups


def test_the_newest_commit_of_a_partition_counts(room: OffsetRoom) -> None:
    room.commit({A: 5, B: 7})
    room.commit({A: 3})
    assert room.fetch(A, B) == {A: 3, B: 7}
    room.driver.fail_over()
    assert room.fetch(A, B) == {A: 3, B: 7}


def test_all_that_a_client_said_is_given_back(room: OffsetRoom) -> None:
    room.commit({A: 5}, metadata="käse", leader_epoch=4)
    room.driver.fail_over()
    (topic,) = room.fetched(OffsetFetchRequestGroup(group_id=GROUP, topics=None)).topics
    (partition,) = topic.partitions
    assert (partition.committed_offset, partition.committed_leader_epoch, partition.metadata) == (5, 4, "käse")


def test_no_metadata_is_kept_as_empty_metadata(room: OffsetRoom) -> None:
    room.commit({A: 5}, metadata=None)
    (record,) = room.driver.log
    assert record.value is not None
    assert read_offset_key(record.key) == (GROUP, "orders", 0)
    value = read_committed_offset(record.value)
    assert (value.offset, value.metadata, value.commit_ms, value.expire_ms) == (5, "", WALL_MS, -1)


@pytest.mark.parametrize(
    ("metadata", "is_accepted"),
    [("x" * 10, True), ("x" * 11, False), ("ä" * 10, True), ("😀" * 5, True), ("😀" * 6, False)],
)
def test_metadata_is_measured_as_java_measures(metadata: str, is_accepted: bool) -> None:
    room = OffsetRoom(settings=GroupSettings(offset_metadata_max_bytes=10))
    expected = ErrorCode.NONE if is_accepted else ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert room.commit({A: 5}, metadata=metadata) == {A: expected}
    assert len(room.driver.log) == is_accepted


def test_metadata_that_no_record_can_hold_is_too_long_whatever_the_settings_say() -> None:
    room = OffsetRoom(settings=GroupSettings(offset_metadata_max_bytes=2**31 - 1))
    for metadata in ("x" * 40_000, "ä" * 20_000):
        assert room.commit({A: 5}, metadata=metadata) == {A: ErrorCode.OFFSET_METADATA_TOO_LARGE}


def test_a_group_whose_name_no_record_can_hold_is_no_group(room: OffsetRoom) -> None:
    assert room.commit({A: 5}, group_id="g" * 40_000) == {A: ErrorCode.INVALID_GROUP_ID}


def test_the_empty_group_id_is_a_group_like_any_other(room: OffsetRoom) -> None:
    assert room.commit({A: 5}, group_id="") == {A: ErrorCode.NONE}
    room.driver.fail_over()
    assert room.fetch(A, group_id="") == {A: 5}


def test_a_retention_that_a_client_asked_for_is_written_down(room: OffsetRoom) -> None:
    room.commit({A: 5}, retention_ms=1_000, version=4)
    room.commit({B: 6}, retention_ms=2**63 - 1, version=4)
    values = [read_committed_offset(record.value or b"") for record in room.driver.log]
    assert [value.expire_ms for value in values] == [WALL_MS + 1_000, 2**63 - 1]


def test_members_of_the_present_generation_may_commit(room: OffsetRoom) -> None:
    leader, follower = room.stable()
    generation = room.group.generation
    assert room.commit({A: 5}, member_id=leader, generation=generation) == {A: ErrorCode.NONE}
    assert room.commit({A: 6}, member_id=follower, generation=generation - 1) == {A: ErrorCode.ILLEGAL_GENERATION}
    assert room.commit({A: 7}, member_id="stranger", generation=generation) == {A: ErrorCode.UNKNOWN_MEMBER_ID}
    assert room.commit({A: 8}) == {A: ErrorCode.UNKNOWN_MEMBER_ID}
    assert room.fetch(A) == {A: 5}
    room.driver.fail_over()
    assert room.fetch(A) == {A: 5}
    assert room.commit({A: 9}, member_id=follower, generation=generation) == {A: ErrorCode.NONE}


def test_a_replaced_static_member_is_fenced(room: OffsetRoom) -> None:
    (member_id,) = room.stable(0, instances=("pinned",))
    generation = room.group.generation
    room.joined(instance_id="pinned")
    refused = room.commit({A: 5}, member_id=member_id, generation=generation, instance_id="pinned")
    assert refused == {A: ErrorCode.FENCED_INSTANCE_ID}


def test_nobody_commits_while_the_leader_shares_out(room: OffsetRoom) -> None:
    leader, _ = room.completing()
    refused = room.commit({A: 5}, member_id=leader, generation=room.group.generation)
    assert refused == {A: ErrorCode.REBALANCE_IN_PROGRESS}


def test_who_commits_is_alive(room: OffsetRoom) -> None:
    (member_id,) = room.stable(1)
    for offset in range(5):
        room.wait_ms(SESSION_MS * 0.8)
        assert room.commit({A: offset}, member_id=member_id, generation=room.group.generation) == {A: ErrorCode.NONE}
    room.wait_ms(SESSION_MS * 1.1)
    assert room.state == "Empty"


def test_who_is_refused_is_not_alive(room: OffsetRoom) -> None:
    (member_id,) = room.stable(1)
    room.wait_ms(SESSION_MS * 0.8)
    room.commit({A: 1}, member_id=member_id, generation=room.group.generation + 1)
    room.wait_ms(SESSION_MS * 0.3)
    assert room.state == "Empty"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.INVALID_FETCH_SIZE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_what_the_log_says_is_told_in_the_words_of_a_coordinator(
    room: OffsetRoom, said: ErrorCode, told: ErrorCode
) -> None:
    room.driver.append_error = said
    assert room.commit({A: 5, B: 6}) == {A: told, B: told}
    room.driver.append_error = None
    assert room.fetch(A) == {A: -1}


class StaleMembers:
    """A group of the consumer protocol all of whose members have a newer epoch."""

    def check_commit(self, *, member_id: str, instance_id: str | None, epoch: int, is_transactional: bool) -> None:
        raise ApiError(ErrorCode.STALE_MEMBER_EPOCH)


@pytest.mark.parametrize(("version", "code"), [(8, ErrorCode.UNSUPPORTED_VERSION), (9, ErrorCode.STALE_MEMBER_EPOCH)])
def test_a_version_that_knows_no_member_epochs_is_not_told_of_them(
    room: OffsetRoom, version: int, code: ErrorCode
) -> None:
    room.book.groups[GROUP] = StaleMembers()  # type: ignore[assignment]
    assert room.commit({A: 5}, member_id="me", generation=3, version=version) == {A: code}


def test_an_offset_whose_group_was_forgotten_brings_its_group_back(room: OffsetRoom) -> None:
    room.commit({A: 5})
    room.driver.machine.adopt(GroupChange(GROUP, None))
    room.commit({B: 6})
    assert isinstance(room.book.groups[GROUP], ClassicGroup)
    assert room.fetch() == {A: 5, B: 6}


def test_a_commit_of_nothing_writes_nothing(room: OffsetRoom) -> None:
    assert room.driver.ask(commit_request({}), version=9).topics == ()
    assert not room.driver.log
