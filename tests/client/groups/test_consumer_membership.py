"""A member of the new protocol by values: what it says, when, and what it tells its program."""

from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.client.groups.consumer_membership import ConsumerMembership
from tidelog.client.groups.membership import Ask, Change, MembershipSettings, Name, Outlook, Rest, Wish
from tidelog.model import ErrorCode, TopicPartition
from tidelog.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC, OTHER = UUID(int=1), UUID(int=2)


class Driven:
    """A member of group `g` that wants topic `t`, and a clock."""

    def __init__(self, *, instance_id: str | None = None, wish: Wish | None = None) -> None:
        self.now_ms = 0.0
        self.member = ConsumerMembership(
            MembershipSettings(
                group_id="g", instance_id=instance_id, rack="r", max_poll_interval_ms=60_000, remote_assignor="range"
            ),
            "me",
        )
        self.member.on_polled(0)
        self.member.subscribe(wish or Wish(topics=("t",)))

    def says(self) -> ConsumerGroupHeartbeatRequest:
        step = self.member.next_step(self.now_ms)
        assert isinstance(step, Ask), step
        assert isinstance(step.request, ConsumerGroupHeartbeatRequest)
        return step.request

    def hears(self, *indexes: int, epoch: int = 1, topic_id: UUID = TOPIC, changed: bool = True) -> None:
        topics = (TopicPartitions(topic_id=topic_id, partitions=indexes),) if indexes else ()
        response = ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.NONE,
            member_id="me",
            member_epoch=epoch,
            heartbeat_interval_ms=5_000,
            assignment=Assignment(topic_partitions=topics) if changed else None,
        )
        assert self.member.on_answer(response, self.now_ms) is Outlook.GO_ON

    def hears_refusal(self, code: ErrorCode) -> Outlook:
        return self.member.on_answer(ConsumerGroupHeartbeatResponse(error_code=code), self.now_ms)

    def told(self) -> Change | None:
        change = self.member.begin_change()
        if change is not None:
            self.member.on_changed(change)
        return change

    def settle(self, *indexes: int) -> None:
        self.says()
        self.hears(*indexes)
        self.member.on_names({TOPIC: "t"})
        self.told()
        self.says()
        self.hears(changed=False)


def owned(request: ConsumerGroupHeartbeatRequest) -> dict[UUID | None, tuple[int, ...]] | None:
    rows = request.topic_partitions
    return None if rows is None else {row.topic_id: row.partitions for row in rows}


def test_join_says_everything() -> None:
    request = Driven().says()
    assert (request.group_id, request.member_id, request.member_epoch) == ("g", "me", 0)
    assert (request.rack_id, request.rebalance_timeout_ms, request.server_assignor) == ("r", 60_000, "range")
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == (("t",), None)
    assert owned(request) == {}


def test_pattern_is_left_to_the_coordinator() -> None:
    request = Driven(wish=Wish(pattern="t.*")).says()
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == ((), "t.*")


def test_topics_that_were_subscribed_instead_of_a_pattern_take_it_back() -> None:
    driven = Driven(wish=Wish(pattern="t.*"))
    driven.settle()
    driven.member.subscribe(Wish(topics=("t",)))
    request = driven.says()
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == (("t",), "")


def test_a_pattern_is_taken_back_once_more_where_that_was_not_heard() -> None:
    driven = Driven(wish=Wish(pattern="t.*"))
    driven.settle()
    driven.member.subscribe(Wish(topics=("t",)))
    driven.says()
    driven.member.on_failure(driven.now_ms)
    request = driven.says()
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == (("t",), "")


def test_assignment_is_named_told_and_acknowledged_at_once() -> None:
    driven = Driven()
    driven.says()
    driven.hears(0, 1)
    assert driven.member.next_step(0) == Name((TOPIC,))
    assert driven.told() is None
    driven.member.on_names({TOPIC: "t"})
    assert driven.told() == Change(assigned=(T0, T1))
    assert owned(driven.says()) == {TOPIC: (0, 1)}
    driven.hears(changed=False)
    assert driven.member.next_step(0) == Rest(5_000)


def test_heartbeat_says_nothing_that_was_said_before() -> None:
    driven = Driven()
    driven.settle(0)
    driven.now_ms = 5_000
    request = driven.says()
    assert (request.member_epoch, request.rebalance_timeout_ms, request.rack_id) == (1, -1, None)
    assert (request.subscribed_topic_names, request.server_assignor, request.topic_partitions) == (None, None, None)


def test_what_is_given_up_is_acknowledged_only_after_the_program_was_told() -> None:
    driven = Driven()
    driven.settle(0, 1)
    driven.now_ms = 5_000
    driven.says()
    driven.hears(0)
    change = driven.member.begin_change()
    assert change == Change(revoked=(T1,))
    driven.now_ms = 10_000
    assert driven.says().topic_partitions is None  # Heartbeats go on, and do not say so yet.
    driven.hears(changed=False)
    assert change is not None
    driven.member.on_changed(change)
    assert owned(driven.says()) == {TOPIC: (0,)}


def test_assignment_that_changes_while_the_program_is_told_is_told_next() -> None:
    driven = Driven()
    driven.settle(0)
    driven.now_ms = 5_000
    driven.says()
    driven.hears(0, 1, epoch=2)
    change = driven.member.begin_change()
    assert change == Change(assigned=(T1,))
    driven.now_ms = 10_000
    driven.says()
    driven.hears(0, epoch=3)
    assert change is not None
    driven.member.on_changed(change)
    assert driven.told() == Change(revoked=(T1,))


def test_topic_that_was_made_anew_is_given_up_and_taken() -> None:
    driven = Driven()
    driven.settle(0)
    driven.now_ms = 5_000
    driven.says()
    driven.hears(0, topic_id=OTHER)
    assert driven.member.next_step(driven.now_ms) == Name((OTHER,))
    driven.member.on_names({OTHER: "t"})
    assert driven.told() == Change(revoked=(T0,), assigned=(T0,))
    assert owned(driven.says()) == {OTHER: (0,)}


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_fenced_member_drops_everything_and_joins_again_with_the_same_id(code: ErrorCode) -> None:
    driven = Driven()
    driven.settle(0)
    driven.now_ms = 5_000
    driven.says()
    assert driven.hears_refusal(code) is Outlook.BACK_OFF
    assert driven.member.next_step(driven.now_ms) == Rest(None)
    assert driven.told() == Change(lost=(T0,))
    request = driven.says()
    assert (request.member_id, request.member_epoch, owned(request)) == ("me", 0, {})


def test_member_fenced_while_its_program_is_told_loses_what_it_was_just_given() -> None:
    driven = Driven()
    driven.says()
    driven.hears(0)
    driven.member.on_names({TOPIC: "t"})
    change = driven.member.begin_change()
    driven.now_ms = 5_000
    driven.says()
    driven.hears_refusal(ErrorCode.FENCED_MEMBER_EPOCH)
    assert change is not None
    driven.member.on_changed(change)
    assert driven.told() == Change(lost=(T0,))
    assert driven.says().member_epoch == 0


def test_unanswered_heartbeat_is_followed_by_one_that_says_everything() -> None:
    driven = Driven()
    driven.settle(0)
    driven.now_ms = 5_000
    driven.says()
    driven.member.on_failure(driven.now_ms)
    request = driven.says()
    assert (request.member_epoch, request.subscribed_topic_names) == (1, ("t",))
    assert owned(request) == {TOPIC: (0,)}


@pytest.mark.parametrize(
    ("code", "outlook"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Outlook.BACK_OFF),
        (ErrorCode.NOT_COORDINATOR, Outlook.LOOK_UP_COORDINATOR),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, Outlook.LOOK_UP_COORDINATOR),
    ],
)
def test_coordinator_that_moves_takes_nothing_away(code: ErrorCode, outlook: Outlook) -> None:
    driven = Driven()
    driven.settle(0)
    driven.now_ms = 5_000
    driven.says()
    assert driven.hears_refusal(code) is outlook
    assert driven.told() is None
    assert driven.says().member_epoch == 1


@pytest.mark.parametrize(
    "code", [ErrorCode.UNSUPPORTED_ASSIGNOR, ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.INVALID_REGULAR_EXPRESSION]
)
def test_refusal_that_lasts_ends_it_until_the_next_subscription(code: ErrorCode) -> None:
    driven = Driven()
    driven.says()
    driven.hears_refusal(code)
    assert driven.member.error is code
    assert driven.member.next_step(0) == Rest(None)
    driven.member.subscribe(Wish(topics=("t",)))
    assert driven.says().member_epoch == 0


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("one", -2)])
def test_leaving_and_leaving_for_a_while(instance_id: str | None, epoch: int) -> None:
    driven = Driven(instance_id=instance_id)
    driven.settle(0)
    request = driven.member.leave_request()
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    assert (request.member_epoch, request.member_id, request.instance_id) == (epoch, "me", instance_id)
    assert driven.member.leave_request() is None


def test_program_that_does_not_poll_leaves_loses_and_may_come_back() -> None:
    driven = Driven()
    driven.settle(0)
    driven.now_ms = 60_000
    assert driven.says().member_epoch == -1
    driven.hears(epoch=-1, changed=False)
    assert driven.member.next_step(driven.now_ms) == Rest(None)
    assert driven.member.on_polled(driven.now_ms)
    assert driven.told() == Change(lost=(T0,))
    assert driven.says().member_epoch == 0


def test_stale_epoch_of_a_commit_is_no_reason_to_lose_anything() -> None:
    driven = Driven()
    driven.settle(0)
    driven.member.on_commit_refused(ErrorCode.STALE_MEMBER_EPOCH, driven.member.identity)
    assert driven.told() is None
    driven.member.on_commit_refused(ErrorCode.UNKNOWN_MEMBER_ID, driven.member.identity)
    assert driven.told() == Change(lost=(T0,))
