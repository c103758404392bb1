"""Members of a consumer group join, stay, move on to new targets and leave."""

from __future__ import annotations

from typing import Any

import pytest

from tests.coordinator.group.consumer_room import GROUP, REBALANCE_MS, SESSION_MS, Room, message
from tidelog.coordinator import Client, Command
from tidelog.coordinator.group.settings import GroupSettings
from tidelog.model import ApiError, ErrorCode
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.wire.messages.delete_groups import DeleteGroupsRequest

MEMBER, TARGET_EPOCH, TARGET, CURRENT, EPOCH = 5, 6, 7, 8, 3


def test_the_first_member_gets_everything_at_once() -> None:
    room = Room(t=3)
    reader = room.reader("a")
    response = reader.settle()
    assert (response.error_code, response.member_id, response.member_epoch) == (ErrorCode.NONE, "a", 1)
    assert response.heartbeat_interval_ms == 5_000
    assert reader.partitions == [0, 1, 2]
    assert room.written() == [MEMBER, EPOCH, TARGET, TARGET_EPOCH, CURRENT]
    assert room.group.state_name == "Stable"
    room.fail_over()


def test_a_heartbeat_without_news_writes_nothing_and_says_nothing_but_the_epoch() -> None:
    room = Room()
    reader = room.reader("a")
    reader.settle()
    reader.settle()  # says what it owns now
    before, since = room.group, len(room.driver.log)
    response = reader.beat()
    assert (response.member_epoch, response.assignment) == (1, None)
    assert room.group is before
    assert room.written(since) == []
    command = Command(10_000, reader.request(), Client("client", "/127.0.0.1", 1))
    decision = room.machine.decide(command, room.driver.now)
    assert decision.is_told_at_once
    assert not decision.records
    assert not decision.changes


def test_nobody_gets_a_partition_before_its_owner_has_released_it() -> None:
    room = Room(t=4)
    x, y = room.reader("x"), room.reader("y")
    x.settle()
    y.settle()
    assert (y.epoch, y.partitions) == (2, [])
    room.fail_over()
    x.beat()
    assert x.epoch == 1, "it has to give up first"
    assert sorted(p for ps in x.wanted.values() for p in ps) == [0, 1]
    room.fail_over()
    y.settle()
    assert y.partitions == []
    assert room.group.state_name == "Reconciling"
    x.beat()
    assert x.epoch == 1, "it still says that it owns everything"
    y.settle()
    assert y.partitions == []
    x.revoke()
    x.settle()
    assert (x.epoch, x.partitions) == (2, [0, 1])
    room.fail_over()
    y.settle()
    assert (y.epoch, y.partitions) == (2, [2, 3])
    assert room.group.state_name == "Stable"


def test_who_does_not_say_what_it_owns_still_owns_everything() -> None:
    room = Room()
    x, y = room.reader("x"), room.reader("y")
    x.settle()
    y.settle()
    x.beat()
    x.beat(topic_partitions=None)
    assert room.group.members["x"].epoch == 1
    assert x.beat(topic_partitions=()).member_epoch == 2


def test_who_does_not_give_up_in_time_is_removed() -> None:
    room = Room()
    x, y = room.reader("x"), room.reader("y")
    x.settle()
    y.settle()
    x.beat()
    for _ in range(3):
        room.driver.wait_ms(REBALANCE_MS / 3 - 1)
        x.beat(topic_partitions=None)
        y.settle()
    assert "x" in room.group.members
    room.driver.wait_ms(10)
    assert "x" not in room.group.members
    room.settle(y)
    assert y.partitions == [0, 1, 2, 3]
    assert x.beat().error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_time_to_give_up_begins_anew_at_another_coordinator() -> None:
    room = Room()
    x, y = room.reader("x"), room.reader("y")
    x.settle()
    y.settle()
    x.beat()
    room.driver.wait_ms(REBALANCE_MS - 1)
    room.fail_over()
    room.driver.wait_ms(REBALANCE_MS - 1)
    assert "x" in room.group.members
    room.driver.wait_ms(1)
    assert "x" not in room.group.members


def test_who_is_silent_is_removed_and_its_part_goes_to_the_others() -> None:
    room = Room()
    x, y = room.reader("x"), room.reader("y")
    room.settle(x, y)
    room.driver.wait_ms(SESSION_MS - 1)
    y.settle()
    since = len(room.driver.log)
    room.driver.wait_ms(1)
    assert room.written(since) == [-CURRENT, -TARGET, -MEMBER, EPOCH]
    assert room.group.state_name == "Assigning"
    room.fail_over()
    room.settle(y)
    assert y.partitions == [0, 1, 2, 3]


def test_members_leave_and_the_last_one_leaves_an_empty_group() -> None:
    room = Room()
    x, y = room.reader("x"), room.reader("y")
    room.settle(x, y)
    response = x.leave()
    assert (response.error_code, response.member_epoch) == (ErrorCode.NONE, -1)
    room.fail_over()
    y.settle()
    y.leave()
    assert room.group.state_name == "Empty"
    assert not [key for key in room.driver.timers if getattr(key, "group_id", "") == GROUP]
    room.fail_over()
    x.settle()
    assert x.epoch > 3, "epochs never go back"
    assert x.partitions == [0, 1, 2, 3]


def test_an_answer_that_got_lost_is_given_again() -> None:
    room = Room()
    x = room.reader("x")
    x.beat(is_lost=True)
    assert x.settle().member_epoch == 1
    y = room.reader("y")
    y.settle()
    x.beat()
    x.revoke()
    assert x.beat(is_lost=True).member_epoch == 2
    response = x.beat()
    assert (response.error_code, response.member_epoch) == (ErrorCode.NONE, 2)
    assert response.assignment is not None, "a full request is answered in full"


def test_an_epoch_behind_is_fenced_with_partitions_that_it_may_not_have() -> None:
    room = Room()
    x, y = room.reader("x"), room.reader("y")
    x.settle()
    everything = message(x.owned)
    y.settle()
    x.beat()
    x.revoke()
    x.beat(is_lost=True)
    assert x.epoch == 1
    for fields in ({"topic_partitions": everything}, {"topic_partitions": None}, {"member_epoch": 3}):
        response = room.send(x.request(**fields))
        assert response.error_code is ErrorCode.FENCED_MEMBER_EPOCH
        assert response.error_message is not None
    assert x.beat().error_code is ErrorCode.NONE


@pytest.mark.parametrize("state", ["Stable", "has to give up", "waits for others"])
def test_whoever_is_fenced_joins_again_at_once(state: str) -> None:
    room = Room(t=4)
    x, y = room.reader("x"), room.reader("y")
    x.settle()
    y.settle()
    if state == "Stable":
        room.settle(x, y)
    x.beat()
    fenced, other = (y, x) if state == "waits for others" else (x, y)
    assert fenced.beat(member_epoch=fenced.epoch + 7).error_code is ErrorCode.FENCED_MEMBER_EPOCH
    assert (fenced.epoch, fenced.partitions) == (0, [])
    assert fenced.settle().error_code is ErrorCode.NONE, "it need not wait until its session is over"
    room.fail_over()
    room.settle(fenced, other)
    assert sorted(x.partitions + y.partitions) == [0, 1, 2, 3]
    assert room.group.state_name == "Stable"


def test_to_take_back_a_pattern_that_was_never_said_changes_nothing() -> None:
    room = Room()
    reader = room.reader("a")
    reader.settle()
    reader.settle()
    epoch = room.group.epoch
    assert reader.settle(subscribed_topic_regex="").error_code is ErrorCode.NONE
    assert room.group.epoch == epoch


def test_two_epochs_behind_is_fenced() -> None:
    room = Room(t=4, u=1)
    x = room.reader("x")
    x.settle()
    request = x.request(topic_partitions=())
    for count in (5, 6):
        room.grow("t", count)
        x.settle()
    assert room.send(request).error_code is ErrorCode.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize("fails_over", [True, False])
def test_a_request_that_could_not_be_written_has_not_happened(*, fails_over: bool) -> None:
    room = Room()
    x = room.reader("x")
    x.settle()
    y = room.reader("y")
    room.driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert y.beat().error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert list(room.group.members) == ["x"]
    room.driver.append_error = None
    if fails_over:
        room.fail_over()
    y.settle()
    assert y.epoch == 2


def test_a_growing_topic_gives_the_group_another_epoch() -> None:
    room = Room(t=2)
    x, y = room.reader("x"), room.reader("y")
    room.settle(x, y)
    epoch = room.group.epoch
    room.grow("t", 4)
    assert room.group.epoch == epoch + 1
    room.fail_over()
    room.settle(x, y)
    assert sorted(x.partitions + y.partitions) == [0, 1, 2, 3]
    assert x.epoch == y.epoch == epoch + 1
    room.grow("other", 1)
    assert room.group.epoch == epoch + 1, "nobody reads it"


def test_a_growth_that_could_not_be_written_down_is_seen_by_the_next_heartbeat() -> None:
    room = Room(t=2)
    x = room.reader("x")
    room.settle(x)
    room.driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    room.grow("t", 3)
    room.driver.append_error = None
    x.settle()
    assert x.partitions == [0, 1, 2]


def test_a_topic_that_is_deleted_and_one_that_comes_later() -> None:
    room = Room(t=2)
    x = room.reader("x", topics=("t", "late"))
    room.settle(x)
    room.grow("late", 1)
    room.settle(x)
    assert x.partitions == [0, 0, 1]
    room.topics.delete("t")
    room.driver.topics_changed()
    room.settle(x)
    assert x.partitions == [0]
    assert room.group.state_name == "Stable"


def test_another_rack_of_a_replica_is_another_topic_to_the_group() -> None:
    room = Room(t=2)
    x = room.reader("x")
    room.settle(x)
    room.topics.put("t", 2, racks=frozenset({"r1"}))
    room.driver.topics_changed()
    assert room.group.epoch == 2


def test_another_subscription_moves_partitions() -> None:
    room = Room(t=2, u=2)
    x, y = room.reader("x"), room.reader("y", topics=("t", "u"))
    room.settle(x, y)
    assert len(x.partitions) == 2
    x.topics, x.is_full_due = ("u",), True
    room.settle(x, y)
    u = room.topics.views["u"].topic_id
    assert x.owned == {u: {0, 1}}
    assert room.group.is_subscribed_to("u")
    assert not room.group.is_subscribed_to("v")


def test_the_assignor_that_most_want_is_used() -> None:
    room = Room(t=4, u=4)
    readers = [room.reader(name, topics=("t", "u"), assignor="range") for name in "ab"]
    readers.append(room.reader("c", topics=("t", "u"), assignor="uniform"))
    room.settle(*readers)
    assert room.describe().assignor_name == "range"
    assert [reader.partitions for reader in readers] == [[0, 0, 1, 1], [2, 2], [3, 3]]


def test_a_member_may_subscribe_to_nothing() -> None:
    room = Room()
    x = room.reader("x", topics=())
    x.settle()
    assert (x.epoch, x.partitions) == (1, [])
    y = room.reader("y", topics=())
    y.settle()
    assert room.group.state_name == "Stable"


def test_the_group_is_full() -> None:
    room = Room(GroupSettings(consumer_max_size=1))
    x, y = room.reader("x"), room.reader("y")
    x.settle()
    assert y.beat().error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert x.settle().error_code is ErrorCode.NONE


def test_the_coordinator_makes_ids_for_old_clients() -> None:
    room = Room()
    reader = room.reader("")
    first = room.send(reader.request(), version=0)
    second = room.send(reader.request(), version=0)
    assert first.member_id != second.member_id
    assert len(first.member_id) == 22
    assert set(room.group.members) == {first.member_id, second.member_id}


JOIN: dict[str, Any] = {
    "group_id": GROUP,
    "member_id": "a",
    "member_epoch": 0,
    "rebalance_timeout_ms": 1_000,
    "subscribed_topic_names": ("t",),
    "topic_partitions": (),
}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_id": "g" * 40_000}, ErrorCode.INVALID_REQUEST),
        ({"member_id": "m" * 40_000}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "sticky"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"server_assignor": "sticky", "rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
    ],
)
def test_requests_that_make_no_sense(fields: dict[str, Any], code: ErrorCode) -> None:
    room = Room()
    response = room.send(ConsumerGroupHeartbeatRequest(**(JOIN | fields)))
    assert response.error_code is code
    assert room.driver.log == []


def test_strangers_are_unknown() -> None:
    room = Room()
    room.reader("x").settle()
    for epoch in (1, -1):
        request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="stranger", member_epoch=epoch)
        assert room.send(request).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_are_committed_and_fetched_by_the_member_epoch() -> None:
    room = Room()
    x = room.reader("x")
    x.settle()
    group = room.group
    group.check_commit(member_id="x", instance_id=None, epoch=1, is_transactional=False)
    group.check_fetch(member_id="x", epoch=1)
    group.check_fetch(member_id=None, epoch=-1)
    group.check_commit(member_id="", instance_id=None, epoch=-1, is_transactional=True)
    for member_id, epoch, code in (
        ("x", 0, ErrorCode.STALE_MEMBER_EPOCH),
        ("x", 2, ErrorCode.STALE_MEMBER_EPOCH),
        ("y", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        with pytest.raises(ApiError) as raised:
            group.check_commit(member_id=member_id, instance_id=None, epoch=epoch, is_transactional=False)
        assert raised.value.code is code
    with pytest.raises(ApiError, match="STALE"):
        group.check_fetch(member_id="x", epoch=3)
    x.leave()
    group.check_commit(member_id="", instance_id=None, epoch=-1, is_transactional=False)


def test_a_group_is_described() -> None:
    room = Room(t=2)
    x, y = room.reader("x", instance_id="i-x"), room.reader("y")
    x.settle()
    y.settle()
    described = room.describe()
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Reconciling", 2, 2)
    assert described.assignor_name == "uniform"
    one, two = described.members
    assert (one.member_id, one.instance_id, one.member_epoch, one.member_type) == ("x", "i-x", 1, 1)
    assert one.client_host == "/127.0.0.1"
    assert [(topic.topic_name, topic.partitions) for topic in one.assignment.topic_partitions] == [("t", (0, 1))]
    assert [topic.partitions for topic in one.target_assignment.topic_partitions] == [(0,)]
    assert two.assignment.topic_partitions == ()
    assert two.subscribed_topic_names == ("t",)
    assert room.describe("nobody").error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_is_deleted_without_a_trace() -> None:
    room = Room()
    x = room.reader("x", regex="t.*")
    x.settle()
    request = DeleteGroupsRequest(groups_names=(GROUP,))
    assert room.send(request, version=2).results[0].error_code is ErrorCode.NON_EMPTY_GROUP
    x.leave()
    assert room.send(request, version=2).results[0].error_code is ErrorCode.NONE
    assert room.describe().error_code is ErrorCode.GROUP_ID_NOT_FOUND
    latest = {record.key: record.value for record in room.driver.log}
    assert all(value is None for value in latest.values())
    room.driver.fail_over()
    assert room.describe().error_code is ErrorCode.GROUP_ID_NOT_FOUND
