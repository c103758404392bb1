"""A group changes its protocol while it runs: classic members and members of the new protocol share the work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from tests.coordinator.counting import MemoryLog
from tests.coordinator.group.consumer_room import GROUP, Room
from tests.coordinator.group.veterans import Veteran
from tidelog.client.groups.subscription_codec import (
    MemberAssignment,
    Subscription,
    write_assignment,
    write_subscription,
)
from tidelog.coordinator import CoordinatorRecord, Decision, Machine, Moment, TimerChange, TimerKey
from tidelog.coordinator.group.classic import ClassicGroup
from tidelog.coordinator.group.consumer import ConsumerGroup
from tidelog.coordinator.group.consumer.timing import SessionTimer
from tidelog.coordinator.group.records import ClassicMemberMetadata
from tidelog.coordinator.group.settings import GroupSettings
from tidelog.coordinator.shard import Shard, ShardLimits
from tidelog.model import ApiError, ErrorCode, TopicPartition
from tidelog.records import read_records
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.wire.messages.sync_group import SyncGroupRequestAssignment


def classic_room(policy: str = "bidirectional", *, instance_id: str | None = None) -> tuple[Room, Veteran]:
    """One classic member that reads all four partitions."""
    room = Room(GroupSettings(consumer_migration_policy=policy, initial_rebalance_delay_ms=0), t=4)
    veteran = Veteran(room, instance_id=instance_id)
    token = room.driver.send(veteran.join_request(), version=9)
    if not room.driver.is_parked(token):
        veteran.member_id = room.driver.answer(token).member_id
        token = room.driver.send(veteran.join_request(), version=9)
    room.driver.wait_ms(1)
    response = room.driver.answer(token)
    veteran.member_id, veteran.generation = response.member_id, response.generation_id
    everything = tuple(TopicPartition("t", partition) for partition in range(4))
    given = write_assignment(MemberAssignment(partitions=everything))
    assert (
        veteran.sync((SyncGroupRequestAssignment(member_id=veteran.member_id, assignment=given),)).error_code
        is ErrorCode.NONE
    )
    veteran.owned = [0, 1, 2, 3]
    return room, veteran


def classic_group(room: Room) -> ClassicGroup:
    group = room.machine._book.groups[GROUP]  # noqa: SLF001  # the state is what these tests are about
    assert isinstance(group, ClassicGroup)
    return group


def test_a_classic_group_is_upgraded_and_nobody_owns_anything_twice_on_the_way() -> None:
    room, veteran = classic_room()
    reader = room.reader("new")
    since = len(room.driver.log)
    reader.settle()
    assert room.written(since)[:6] == [-2, 5, 3, 7, 6, 8]
    assert isinstance(room.group, ConsumerGroup)
    assert (reader.epoch, reader.partitions) == (2, [])
    room.fail_over()
    reader.settle()
    assert reader.partitions == [], "the veteran has not given up anything yet"
    assert veteran.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    veteran.rejoin()
    assert len(veteran.owned) == 2
    room.fail_over()
    reader.settle()
    assert sorted(reader.partitions + veteran.owned) == [0, 1, 2, 3]
    assert veteran.heartbeat() is ErrorCode.NONE
    assert room.group.state_name == "Stable"
    assert [member.member_type for member in room.describe().members] == [0, 1]


def test_another_classic_member_joins_a_group_that_was_upgraded() -> None:
    room, veteran = classic_room()
    reader = room.reader("new")
    reader.settle()
    late = Veteran(room)
    late.rejoin()
    for _ in range(4):
        veteran.follow()
        reader.settle()
        late.follow()
    assert sorted(reader.partitions + veteran.owned + late.owned) == [0, 1, 2, 3]
    room.fail_over()
    assert late.leave().members[0].error_code is ErrorCode.NONE
    for _ in range(4):
        veteran.follow()
        reader.settle()
    assert sorted(reader.partitions + veteran.owned) == [0, 1, 2, 3]


def test_the_last_member_of_the_new_protocol_leaves_a_classic_group_behind() -> None:
    room, veteran = classic_room()
    reader = room.reader("new")
    for _ in range(3):
        reader.settle()
        veteran.follow()
    since = len(room.driver.log)
    assert reader.leave().error_code is ErrorCode.NONE
    assert room.written(since)[-2:] == [-3, 2]
    group = classic_group(room)
    assert group.state_name == "PreparingRebalance"
    assert group.generation == 2
    assert veteran.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert veteran.join().error_code is ErrorCode.NONE
    assert veteran.generation == 3
    latest = {record.key: record.value for record in room.driver.log}
    assert [value is None for key, value in latest.items() if key[1] != 2] == [True] * (len(latest) - 1)
    room.driver.fail_over()
    assert list(classic_group(room).members.by_id) == [veteran.member_id]


def test_a_silent_member_of_the_new_protocol_leaves_a_classic_group_behind_too() -> None:
    room, veteran = classic_room()
    reader = room.reader("new")
    for _ in range(3):
        reader.settle()
        veteran.follow()
    for _ in range(9):
        room.driver.wait_ms(5_000)
        veteran.heartbeat()
    assert classic_group(room).state_name == "PreparingRebalance"
    room.driver.fail_over()
    assert classic_group(room).state_name == "PreparingRebalance", "nobody else knows whose part has to be given away"
    room.driver.wait_ms(10_000)
    assert classic_group(room).is_empty, "its sessions are those of classic groups again"


class Wordy(Veteran):
    """Says so much about itself that a few of them are more than half a megabyte."""

    def metadata(self) -> bytes:
        owned = tuple(TopicPartition("t", partition) for partition in self.owned)
        return write_subscription(Subscription(topics=("t",), user_data=bytes(300_000), owned=owned))


class Repetitive(Veteran):
    """Names its protocol twice."""

    def join_request(self) -> JoinGroupRequest:
        request = super().join_request()
        other = JoinGroupRequestProtocol(name=self.protocol, metadata=b"")
        return replace(request, protocols=(*request.protocols, other))


@pytest.mark.parametrize("was_written_before", [False, True])
def test_a_member_that_names_a_protocol_twice_is_left_in_a_classic_group(
    monkeypatch: pytest.MonkeyPatch, *, was_written_before: bool
) -> None:
    room, _ = classic_room()
    reader = room.reader("new")
    reader.settle()
    late = Repetitive(room)
    with monkeypatch.context() as patched:
        if was_written_before:  # by a release that took whatever came
            patched.setattr(ClassicMemberMetadata, "without_repetitions", lambda self: self)
        late.rejoin()
    if was_written_before:
        room.driver.fail_over()
    reader.settle()
    assert reader.leave().error_code is ErrorCode.NONE
    group = classic_group(room)
    assert group.members.support == {"cooperative-sticky": 2}
    assert group.members[late.member_id].metadata("cooperative-sticky"), "what it named first is what it meant"


class OneTimer:
    """A machine in which one timer is due."""

    def __init__(self, machine: Machine, key: TimerKey) -> None:
        self.machine, self.key = machine, key

    def on_loaded(self, now: Moment) -> Iterator[Decision]:
        yield Decision(timers=(TimerChange(self.key, now.monotonic_ms),))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.machine, name)


def test_a_large_group_that_becomes_a_classic_one_is_known_whenever_its_coordinator_dies() -> None:
    room, veteran = classic_room()
    reader = room.reader("new")
    reader.settle()
    veterans = [veteran, Wordy(room), Wordy(room)]
    for one in veterans[1:]:
        one.rejoin()
    for _ in range(4):
        reader.settle()
        for one in veterans:
            one.follow()
    before, log = list(room.driver.log), MemoryLog()
    shard = Shard(cast("Machine", OneTimer(room.machine, SessionTimer(GROUP, "new"))), log, ShardLimits())
    list(shard.on_loaded(lambda: room.driver.now))
    list(shard.ring(room.driver.now))
    assert log.end_offset > 10, "the reader was the last of its kind"
    for count in range(len(log.batches) + 1):
        room.driver.log = before + [
            CoordinatorRecord(record.key or b"", record.value)
            for _, batch in log.batches[:count]
            for record in read_records(batch, max_bytes=1 << 24)
        ]
        room.driver.fail_over()
        group = room.machine._book.groups.get(GROUP)  # noqa: SLF001  # the state is what these tests are about
        assert isinstance(group, ClassicGroup | ConsumerGroup), f"gone with batch {count}"
        members = group.members.by_id if isinstance(group, ClassicGroup) else group.members
        assert set(members) >= {one.member_id for one in veterans}


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_a_classic_group_stays_one_where_the_policy_says_so(policy: str) -> None:
    room, veteran = classic_room(policy)
    assert room.reader("new").beat().error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert veteran.heartbeat() is ErrorCode.NONE


def test_a_consumer_group_stays_one_where_the_policy_says_so() -> None:
    room, veteran = classic_room("upgrade")
    reader = room.reader("new")
    for _ in range(3):
        reader.settle()
        veteran.follow()
    reader.leave()
    assert room.group.state_name == "Assigning"
    veteran.follow()
    assert veteran.owned == [0, 1, 2, 3]


def test_an_empty_classic_group_gives_way() -> None:
    room, veteran = classic_room("disabled")
    veteran.leave()
    assert classic_group(room).is_empty
    reader = room.reader("new")
    reader.settle()
    assert room.written()[-6:] == [-2, 5, 3, 7, 6, 8]
    assert reader.partitions == [0, 1, 2, 3]
    room.fail_over()


def test_a_group_of_something_else_than_consumers_is_not_upgraded() -> None:
    room = Room(GroupSettings(initial_rebalance_delay_ms=0))
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=30_000,
        member_id="",
        protocol_type="connect",
        protocols=(JoinGroupRequestProtocol(name="default", metadata=b"?"),),
    )
    room.driver.send(request, version=3)
    room.driver.wait_ms(1)
    assert room.reader("new").beat().error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_whoever_waits_in_a_classic_rebalance_is_told_to_join_again() -> None:
    room, veteran = classic_room()
    second = Veteran(room)
    second.member_id = room.send(second.join_request(), version=9).member_id
    token = room.driver.send(second.join_request(), version=9)
    assert room.driver.is_parked(token), "it waits for the veteran"
    room.reader("new").settle()
    assert room.driver.answer(token).error_code is ErrorCode.REBALANCE_IN_PROGRESS
    assert second.join().error_code is ErrorCode.NONE
    assert veteran.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_classic_members_that_do_not_rejoin_or_sync_in_time_are_removed() -> None:
    room, veteran = classic_room()
    reader = room.reader("new")
    reader.settle()
    for _ in range(6):
        assert veteran.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
        room.driver.wait_ms(5_000)
        reader.settle()
    assert veteran.member_id not in room.group.members
    reader.settle()
    assert reader.partitions == [0, 1, 2, 3]
    assert veteran.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID

    late = Veteran(room)
    late.join()
    for _ in range(3):
        room.driver.wait_ms(9_999)
        reader.settle()
        late.heartbeat()
    room.driver.wait_ms(10)
    assert late.member_id not in room.group.members


def test_a_static_classic_member_takes_its_place_over_in_the_new_protocol_and_back() -> None:
    room, veteran = classic_room(instance_id="i")
    second = Veteran(room)
    second.member_id = room.send(second.join_request(), version=9).member_id
    token = room.driver.send(second.join_request(), version=9)
    veteran.join()
    second.generation = room.driver.answer(token).generation_id
    reader = room.reader("new", instance_id="i")
    reader.settle()
    assert room.group.instances == {"i": "new"}
    room.fail_over()
    for _ in range(3):
        second.follow()
        reader.settle()
    assert sorted(reader.partitions + second.owned) == [0, 1, 2, 3]
    returned = Veteran(room, instance_id="i")
    response = returned.join()
    assert response.error_code is ErrorCode.NONE
    group = classic_group(room)
    assert group.members.by_instance["i"] == returned.member_id
    assert reader.beat().error_code is ErrorCode.GROUP_ID_NOT_FOUND
    room.driver.fail_over()
    assert set(classic_group(room).members.by_id) == {returned.member_id, second.member_id}


def test_classic_requests_of_strangers_and_of_other_generations_are_refused() -> None:
    room, veteran = classic_room()
    reader = room.reader("new")
    for _ in range(3):
        reader.settle()
        veteran.follow()
    good = veteran.generation
    veteran.generation = good + 1
    assert veteran.heartbeat() is ErrorCode.ILLEGAL_GENERATION
    assert veteran.sync().error_code is ErrorCode.ILLEGAL_GENERATION
    veteran.generation = good
    veteran.protocol = "other"
    assert veteran.sync().error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert Veteran(room, protocol="other").join().error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    veteran.protocol = "cooperative-sticky"
    intruder = Veteran(room, member_id="new", generation=reader.epoch)
    assert intruder.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID, "it does not speak this protocol"
    assert intruder.leave().members[0].error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert Veteran(room, member_id="nobody").heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    with pytest.raises(ApiError, match="ILLEGAL_GENERATION"):
        room.group.check_commit(member_id=veteran.member_id, instance_id=None, epoch=9, is_transactional=False)
    room.group.check_commit(member_id=veteran.member_id, instance_id=None, epoch=good, is_transactional=False)
    assert veteran.heartbeat() is ErrorCode.NONE


def test_an_empty_consumer_group_gives_way_too() -> None:
    room = Room(GroupSettings(consumer_migration_policy="disabled", initial_rebalance_delay_ms=0))
    reader = room.reader("new")
    reader.settle()
    reader.leave()
    known = Veteran(room, member_id="known")
    assert known.join().error_code is ErrorCode.UNKNOWN_MEMBER_ID
    wrong = Veteran(room, protocol="")
    assert room.send(replace(wrong.join_request(), protocols=()), version=9).error_code is not ErrorCode.NONE
    assert room.group.is_empty, "nothing has happened yet"
    veteran = Veteran(room)
    veteran.member_id = room.send(veteran.join_request(), version=9).member_id
    assert classic_group(room).is_empty
    room.driver.fail_over()
    assert classic_group(room).is_empty
    veteran.member_id = room.send(Veteran(room).join_request(), version=9).member_id
    token = room.driver.send(veteran.join_request(), version=9)
    room.driver.wait_ms(1)
    assert room.driver.answer(token).error_code is ErrorCode.NONE
    latest = {record.key: record.value for record in room.driver.log}
    assert all(value is None for key, value in latest.items() if key[1] != 2)


def test_a_coordinator_that_takes_over_has_the_part_of_the_last_reader_given_to_others() -> None:
    room, veteran = classic_room()
    reader = room.reader("new")
    for _ in range(4):
        reader.settle()
        veteran.follow()
    assert (len(veteran.owned), len(reader.partitions)) == (2, 2)
    reader.leave()
    room.driver.fail_over()
    assert veteran.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert veteran.join().leader == veteran.member_id
    veteran.sync()
    room.driver.fail_over()
    assert classic_group(room).state_name == "Stable"


def test_a_static_member_that_returns_to_the_classic_protocol_leaves_nobody_waiting_for_its_part() -> None:
    room, _ = classic_room(instance_id="i")
    reader = room.reader("new", instance_id="i")
    reader.settle()
    second = Veteran(room)
    second.rejoin()
    reader.settle()
    assert (reader.partitions, second.owned) == ([0, 1], []), "the others are on their way"
    reader.beat(member_epoch=-2)
    returned = Veteran(room, instance_id="i")
    token = room.driver.send(returned.join_request(), version=9)
    assert second.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert second.join().error_code is ErrorCode.NONE
    assert room.driver.answer(token).generation_id == second.generation


def test_a_group_whose_first_members_wait_for_others_is_upgraded_too() -> None:
    room = Room(GroupSettings(initial_rebalance_delay_ms=3_000), t=4)
    veteran = Veteran(room)
    veteran.member_id = room.send(veteran.join_request(), version=9).member_id
    token = room.driver.send(veteran.join_request(), version=9)
    reader = room.reader("new")
    assert reader.beat().error_code is ErrorCode.NONE
    assert room.driver.answer(token).error_code is ErrorCode.REBALANCE_IN_PROGRESS
    room.fail_over()
    veteran.rejoin()
    for _ in range(3):
        veteran.follow()
        reader.settle()
    assert sorted(reader.partitions + veteran.owned) == [0, 1, 2, 3]
    assert len(veteran.owned) == 2
