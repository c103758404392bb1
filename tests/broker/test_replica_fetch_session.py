"""A follower's end of its fetch session: only what changed is said, and after a loss everything."""

from __future__ import annotations

from uuid import UUID

from tidelog.broker.replica_fetch_session import FetchLimits, FollowedKey, ReplicaFetchSession
from tidelog.model import ErrorCode
from tidelog.partition import FetchPosition
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse, ReplicaState

A, B, C = FollowedKey(1, 0), FollowedKey(1, 1), FollowedKey(2, 0)


def at(offset: int, leader_epoch: int = 0) -> FetchPosition:
    return FetchPosition(
        fetch_offset=offset, leader_epoch=leader_epoch, last_fetched_epoch=leader_epoch, log_start_offset=0
    )


def session() -> ReplicaFetchSession:
    return ReplicaFetchSession(FetchLimits(min_bytes=1, response_bytes_max=100, partition_bytes_max=10))


def asked(of: ReplicaFetchSession) -> FetchRequest:
    return of.request(ReplicaState(replica_id=2, replica_epoch=5), max_wait_ms=500)


def said(request: FetchRequest) -> dict[FollowedKey, int]:
    return {
        FollowedKey((topic.topic_id or UUID(int=0)).int, one.partition): one.fetch_offset
        for topic in request.topics
        for one in topic.partitions
    }


def forgotten(request: FetchRequest) -> list[FollowedKey]:
    return [
        FollowedKey((topic.topic_id or UUID(int=0)).int, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]


def answer(session_id: int = 9, code: ErrorCode = ErrorCode.NONE) -> FetchResponse:
    return FetchResponse(throttle_time_ms=0, error_code=code, session_id=session_id, responses=())


def begun() -> ReplicaFetchSession:
    begun = session()
    begun.say(A, at(1))
    begun.say(B, at(2))
    asked(begun)
    assert begun.on_response(answer())
    return begun


def test_the_first_request_says_everything_and_the_next_only_what_changed() -> None:
    one = session()
    one.say(A, at(1))
    one.say(C, at(2))
    first = asked(one)
    assert (first.session_id, first.session_epoch, said(first)) == (0, 0, {A: 1, C: 2})
    one.on_response(answer())
    one.say(A, at(1))
    one.say(C, at(3))
    second = asked(one)
    assert (second.session_id, second.session_epoch, said(second)) == (9, 1, {C: 3})
    one.on_response(answer())
    third = asked(one)
    assert (third.session_epoch, said(third)) == (2, {})


def test_a_new_epoch_at_the_same_offset_is_a_change() -> None:
    one = begun()
    one.say(A, at(1, leader_epoch=1))
    (topic,) = asked(one).topics
    assert [row.current_leader_epoch for row in topic.partitions] == [1]


def test_f01_after_a_lost_answer_the_next_request_is_full_and_no_partition_is_forgotten() -> None:
    one = begun()
    one.say(A, at(5))
    asked(one)  # Its answer never comes.
    one.restart()
    again = asked(one)
    assert (again.session_id, again.session_epoch, said(again)) == (0, 0, {A: 5, B: 2})


def test_f01_a_refused_session_is_begun_anew() -> None:
    for code in (ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_ID_NOT_FOUND):
        one = begun()
        asked(one)
        assert not one.on_response(answer(0, code))
        again = asked(one)
        assert (again.session_id, again.session_epoch, said(again)) == (0, 0, {A: 1, B: 2})


def test_a_leader_that_keeps_no_session_is_told_everything_each_time() -> None:
    one = session()
    one.say(A, at(1))
    for _ in range(2):
        assert said(asked(one)) == {A: 1}
        assert one.on_response(answer(0))


def test_what_is_forgotten_is_said_once() -> None:
    one = begun()
    one.forget(B)
    assert B not in one
    request = asked(one)
    assert (said(request), forgotten(request)) == ({}, [B])
    one.on_response(answer())
    assert forgotten(asked(one)) == []


def test_what_is_forgotten_and_wanted_again_is_said_anew() -> None:
    one = begun()
    one.forget(B)
    one.say(B, at(2))
    request = asked(one)
    assert (said(request), forgotten(request)) == ({B: 2}, [])


def test_what_the_leader_never_heard_forgotten_can_be_taken_back() -> None:
    one = begun()
    one.forget(B)
    assert not one.recall(B, at(3))
    assert one.recall(B, at(2))
    request = asked(one)
    assert (said(request), forgotten(request)) == ({}, [])


def test_a_position_that_was_never_sent_cannot_be_taken_back() -> None:
    one = begun()
    one.say(B, at(3))
    one.forget(B)
    assert not one.recall(B, at(3)), "the leader believes us to be at 2"
    assert not one.recall(A, at(1)), "it was not forgotten"
