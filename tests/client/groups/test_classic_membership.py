"""A classic member by values: what it asks, what it tells its program, and what it makes of answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidelog.client.groups.classic_membership import ClassicMembership
from tidelog.client.groups.membership import Ask, Change, Count, MembershipSettings, Outlook, Rest, Wish
from tidelog.client.groups.subscription_codec import (
    MemberAssignment,
    Subscription,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from tidelog.model import ErrorCode, TopicPartition
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

WANTED = Subscription(topics=("t",))
T0, T1, T2, T3 = (TopicPartition("t", index) for index in range(4))


class Driven:
    """A member of group `g` that wants topic `t`, and a clock."""

    def __init__(self, *assignors: str, instance_id: str | None = None) -> None:
        self.now_ms = 0.0
        self.member = ClassicMembership(
            MembershipSettings(
                group_id="g",
                instance_id=instance_id,
                session_timeout_ms=10_000,
                heartbeat_interval_ms=3_000,
                max_poll_interval_ms=60_000,
                assignors=assignors or ("range",),
            )
        )
        self.member.on_polled(0)
        self.member.subscribe(Wish(topics=("t",)))

    def asks(self, kind: type) -> object:
        step = self.member.next_step(self.now_ms)
        assert isinstance(step, Ask), step
        assert isinstance(step.request, kind)
        return step.request

    def join(self) -> JoinGroupRequest:
        request = self.asks(JoinGroupRequest)
        assert isinstance(request, JoinGroupRequest)
        return request

    def answer(self, response: object) -> Outlook:
        return self.member.on_answer(response, self.now_ms)  # type: ignore[arg-type]

    def joined(self, generation: int = 1, *, protocol: str = "range", leader: str = "other") -> None:
        self.join()
        assert self.answer(joined(generation, protocol=protocol, leader=leader)) is Outlook.GO_ON

    def leads(
        self, *members: tuple[str, Subscription], generation: int = 1, protocol: str = "range", skips: bool = False
    ) -> None:
        """Join, and be the one who shares out."""
        self.join()
        told = [JoinGroupResponseMember(member_id=name, metadata=write_subscription(each)) for name, each in members]
        led = joined(generation, protocol=protocol, leader="me")
        self.answer(replace(led, skip_assignment=skips, members=tuple(told)))

    def synced(self, *partitions: TopicPartition) -> None:
        self.asks(SyncGroupRequest)
        data = write_assignment(MemberAssignment(partitions=partitions))
        assert self.answer(SyncGroupResponse(error_code=ErrorCode.NONE, assignment=data)) is Outlook.GO_ON

    def told(self) -> Change | None:
        change = self.member.begin_change()
        if change is not None:
            self.member.on_changed(change)
        return change

    def settle(self, *partitions: TopicPartition, generation: int = 1, protocol: str = "range") -> None:
        self.joined(generation, protocol=protocol)
        self.synced(*partitions)
        self.told()

    def heartbeat(self, code: ErrorCode) -> Outlook:
        self.now_ms += 3_000
        self.asks(HeartbeatRequest)
        return self.answer(HeartbeatResponse(error_code=code))


def joined(generation: int, *, protocol: str = "range", leader: str = "other") -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=generation,
        protocol_type="consumer",
        protocol_name=protocol,
        leader=leader,
        member_id="me",
    )


def refused(code: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=member_id)


def test_new_member_is_given_an_id_and_comes_back_with_it_at_once() -> None:
    driven = Driven()
    assert driven.join().member_id == ""
    assert driven.answer(refused(ErrorCode.MEMBER_ID_REQUIRED, "me")) is Outlook.GO_ON
    assert driven.join().member_id == "me"


def test_join_says_what_java_says() -> None:
    request = Driven("range", "cooperative-sticky", instance_id="one").join()
    assert (request.group_id, request.protocol_type, request.group_instance_id) == ("g", "consumer", "one")
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (10_000, 60_000)
    assert [protocol.name for protocol in request.protocols] == ["range", "cooperative-sticky"]
    assert read_subscription(request.protocols[0].metadata) == Subscription(topics=("t",))
    assert read_subscription(request.protocols[1].metadata).user_data == b"\xff\xff\xff\xff"


def test_what_a_program_subscribes_to_during_a_rebalance_is_said_in_the_next_one() -> None:
    driven = Driven()
    driven.join()
    driven.member.subscribe(Wish(topics=("t", "u")))
    driven.answer(joined(1))
    driven.synced(T0)
    driven.told()
    assert driven.told() == Change(revoked=(T0,), is_rebalance=True)
    assert read_subscription(driven.join().protocols[0].metadata).topics == ("t", "u")
    driven.answer(joined(2))
    driven.synced(T0)
    driven.told()
    assert isinstance(driven.member.next_step(driven.now_ms), Rest), "nothing is left to be said"


def test_follower_syncs_without_assignments_and_its_program_is_told() -> None:
    driven = Driven()
    driven.joined()
    request = driven.asks(SyncGroupRequest)
    assert isinstance(request, SyncGroupRequest)
    assert (request.assignments, request.generation_id, request.protocol_name) == ((), 1, "range")
    driven.synced(T0, T1)
    assert not driven.member.owned
    assert driven.told() == Change(assigned=(T0, T1))
    assert list(driven.member.owned) == [T0, T1]
    assert driven.member.identity == ("me", 1, None)


def test_leader_counts_partitions_and_shares_them_out() -> None:
    driven = Driven()
    driven.leads(("me", WANTED), ("other", WANTED))
    assert driven.member.next_step(0) == Count(("t",))
    driven.member.on_counts({"t": 3})
    request = driven.asks(SyncGroupRequest)
    assert isinstance(request, SyncGroupRequest)
    shares = {each.member_id: read_assignment(each.assignment).partitions for each in request.assignments}
    assert shares == {"me": (T0, T1), "other": (T2,)}


def test_leader_calls_for_a_rebalance_when_a_topic_grows() -> None:
    driven = Driven()
    driven.leads(("me", WANTED))
    driven.member.on_counts({"t": 1})
    driven.synced(T0)
    driven.told()
    driven.member.on_count_news({"t": 1, "other": 4})
    assert driven.told() is None
    driven.member.on_count_news({"t": 2})
    assert driven.told() == Change(revoked=(T0,), is_rebalance=True)
    driven.join()


@pytest.mark.parametrize("is_withheld", [True, False])
def test_leader_asks_again_where_nobody_gives_up_what_it_withheld(is_withheld: bool) -> None:
    """A static member that is started anew in between owns nothing, and nobody would ever be given the partition (seed 3761260963)."""
    driven = Driven("cooperative-sticky")
    had = (T0, T1) if is_withheld else (T0,)
    other = Subscription(topics=("t",), owned=had, generation=3)
    driven.leads(("me", WANTED), ("other", other), generation=4, protocol="cooperative-sticky")
    driven.member.on_counts({"t": 2})
    driven.synced(*(() if is_withheld else (T1,)))
    driven.told()
    for _ in range(4):
        assert driven.heartbeat(ErrorCode.NONE) is Outlook.GO_ON
    driven.now_ms += 3_000
    driven.asks(JoinGroupRequest if is_withheld else HeartbeatRequest)


def test_member_whose_metadata_makes_no_sense_gets_nothing_and_the_others_go_on() -> None:
    driven = Driven()
    driven.join()
    members = (
        JoinGroupResponseMember(member_id="me", metadata=write_subscription(Subscription(topics=("t",)))),
        JoinGroupResponseMember(member_id="odd", metadata=b"?"),
    )
    driven.answer(
        JoinGroupResponse(
            error_code=ErrorCode.NONE,
            generation_id=1,
            protocol_name="range",
            leader="me",
            member_id="me",
            members=members,
        )
    )
    driven.member.on_counts({"t": 2})
    request = driven.asks(SyncGroupRequest)
    assert isinstance(request, SyncGroupRequest)
    shares = {each.member_id: read_assignment(each.assignment).partitions for each in request.assignments}
    assert shares == {"me": (T0, T1), "odd": ()}


def test_heartbeats_go_on_while_the_program_is_told() -> None:
    driven = Driven()
    driven.joined()
    driven.synced(T0)
    change = driven.member.begin_change()
    assert driven.member.next_step(0) == Rest(3_000)
    assert driven.heartbeat(ErrorCode.NONE) is Outlook.GO_ON
    assert not driven.member.has_change
    assert change is not None
    driven.member.on_changed(change)


def test_eager_member_gives_everything_up_before_it_joins_again() -> None:
    driven = Driven()
    driven.settle(T0, T1)
    assert driven.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS) is Outlook.GO_ON
    assert isinstance(driven.member.next_step(driven.now_ms), Rest)  # The program has to be told first.
    assert driven.told() == Change(revoked=(T0, T1), is_rebalance=True)
    assert read_subscription(driven.join().protocols[0].metadata).owned == ()


def test_cooperative_member_keeps_what_it_has_and_joins_again_after_giving_up() -> None:
    driven = Driven("cooperative-sticky")
    driven.settle(T0, T1, protocol="cooperative-sticky")
    driven.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert driven.told() == Change(is_rebalance=True)
    subscription = read_subscription(driven.join().protocols[0].metadata)
    assert (subscription.owned, subscription.generation) == ((T0, T1), 1)
    driven.answer(joined(2, protocol="cooperative-sticky"))
    driven.synced(T0)
    assert driven.told() == Change(revoked=(T1,))
    assert driven.told() == Change(is_rebalance=True)
    assert read_subscription(driven.join().protocols[0].metadata).owned == (T0,)
    driven.answer(joined(3, protocol="cooperative-sticky"))
    driven.synced(T0)
    assert driven.told() == Change()
    assert isinstance(driven.member.next_step(driven.now_ms), Rest)


def test_cooperative_member_gives_up_topics_it_no_longer_wants_before_it_joins() -> None:
    driven = Driven("cooperative-sticky")
    driven.settle(T0, T1, protocol="cooperative-sticky")
    driven.member.subscribe(Wish(topics=("u",)))
    assert driven.told() == Change(revoked=(T0, T1), is_rebalance=True)
    assert read_subscription(driven.join().protocols[0].metadata).topics == ("u",)


@pytest.mark.parametrize(
    ("code", "member_id"), [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "me")]
)
def test_forgotten_member_loses_everything_before_it_joins_anew(code: ErrorCode, member_id: str) -> None:
    driven = Driven("cooperative-sticky")
    driven.settle(T0, protocol="cooperative-sticky")
    assert driven.heartbeat(code) is Outlook.BACK_OFF
    assert driven.member.next_step(driven.now_ms) == Rest(None)
    assert driven.told() == Change(lost=(T0,))
    assert driven.join().member_id == member_id


def test_member_forgotten_while_its_program_is_told_loses_what_it_was_just_given() -> None:
    driven = Driven()
    driven.joined()
    driven.synced(T0)
    change = driven.member.begin_change()
    assert change is not None
    driven.heartbeat(ErrorCode.UNKNOWN_MEMBER_ID)
    assert driven.member.next_step(driven.now_ms) == Rest(None)
    driven.member.on_changed(change)
    assert driven.told() == Change(lost=(T0,))
    assert driven.join().member_id == ""


def test_member_forgotten_while_it_gives_everything_up_has_nothing_to_lose() -> None:
    driven = Driven()
    driven.settle(T0)
    driven.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    change = driven.member.begin_change()
    assert change is not None
    driven.heartbeat(ErrorCode.UNKNOWN_MEMBER_ID)
    driven.member.on_changed(change)
    assert driven.told() is None
    assert driven.join().member_id == ""


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_coordinator_that_is_none_is_looked_up_and_nothing_is_lost(code: ErrorCode) -> None:
    driven = Driven()
    driven.settle(T0)
    assert driven.heartbeat(code) is Outlook.LOOK_UP_COORDINATOR
    assert driven.told() is None
    assert driven.heartbeat(ErrorCode.NONE) is Outlook.GO_ON
    assert driven.member.owned == (T0,)


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REBALANCE_IN_PROGRESS])
def test_join_is_repeated_after_a_while(code: ErrorCode) -> None:
    driven = Driven()
    driven.join()
    assert driven.answer(refused(code)) is Outlook.BACK_OFF
    driven.join()


def test_rebalance_during_sync_means_another_join() -> None:
    driven = Driven()
    driven.joined()
    driven.asks(SyncGroupRequest)
    driven.answer(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    assert driven.join().member_id == "me"


def test_lost_connection_during_a_rebalance_begins_it_again_as_the_same_member() -> None:
    driven = Driven()
    driven.joined()
    driven.asks(SyncGroupRequest)
    driven.member.on_failure(driven.now_ms)
    assert driven.join().member_id == "me"
    driven.member.on_failure(driven.now_ms)
    assert driven.join().member_id == "me"


@pytest.mark.parametrize(
    "code", [ErrorCode.FENCED_INSTANCE_ID, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.GROUP_MAX_SIZE_REACHED]
)
def test_refusal_that_lasts_ends_it_until_the_next_subscription(code: ErrorCode) -> None:
    driven = Driven()
    driven.join()
    driven.answer(refused(code))
    assert driven.member.error is code
    assert driven.member.next_step(driven.now_ms) == Rest(None)
    driven.member.subscribe(Wish(topics=("t",)))
    assert driven.member.error is None
    driven.join()


def test_program_that_does_not_poll_leaves_loses_and_may_come_back() -> None:
    driven = Driven()
    driven.settle(T0)
    driven.now_ms = 60_000
    request = driven.asks(LeaveGroupRequest)
    assert isinstance(request, LeaveGroupRequest)
    assert [member.member_id for member in request.members] == ["me"]
    driven.answer(LeaveGroupResponse(error_code=ErrorCode.NONE))
    assert driven.member.next_step(driven.now_ms) == Rest(None)
    assert driven.member.on_polled(driven.now_ms)
    assert driven.told() == Change(lost=(T0,))
    assert driven.join().member_id == ""


def test_static_member_that_does_not_poll_keeps_its_place_until_its_session_lapses() -> None:
    driven = Driven(instance_id="one")
    driven.settle(T0)
    driven.now_ms = 60_000
    assert driven.member.next_step(driven.now_ms) == Rest(None)


def test_dynamic_member_says_goodbye_and_a_static_one_does_not() -> None:
    dynamic, static = Driven(), Driven(instance_id="one")
    dynamic.settle(T0)
    static.settle(T0)
    assert isinstance(dynamic.member.leave_request(), LeaveGroupRequest)
    assert static.member.leave_request() is None
    assert dynamic.member.identity.epoch == static.member.identity.epoch == -1


def test_member_that_never_joined_has_nobody_to_say_goodbye_to() -> None:
    assert Driven().member.leave_request() is None


def test_leader_that_is_told_to_skip_the_assignment_sends_none() -> None:
    driven = Driven(instance_id="one")
    driven.leads(("me", WANTED), skips=True)
    driven.member.on_counts({"t": 1})
    request = driven.asks(SyncGroupRequest)
    assert isinstance(request, SyncGroupRequest)
    assert request.assignments == ()


def test_commit_that_was_refused_says_as_much_as_a_heartbeat() -> None:
    driven = Driven()
    driven.settle(T0)
    earlier = driven.member.identity._replace(epoch=0)
    driven.member.on_commit_refused(ErrorCode.ILLEGAL_GENERATION, earlier)
    assert driven.told() is None
    driven.member.on_commit_refused(ErrorCode.REBALANCE_IN_PROGRESS, driven.member.identity)
    assert driven.told() == Change(revoked=(T0,), is_rebalance=True)


def test_sticky_member_remembers_what_it_had() -> None:
    driven = Driven("sticky")
    driven.settle(T0, T2, protocol="sticky")
    driven.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    driven.told()
    subscription = read_subscription(driven.join().protocols[0].metadata)
    assert subscription.owned == ()
    assert subscription.user_data == b"\0\0\0\1\0\1t\0\0\0\2\0\0\0\0\0\0\0\2\0\0\0\1"
