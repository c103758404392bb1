"""The client's half of incremental fetch sessions."""

from __future__ import annotations

from uuid import UUID

from tidelog.client.fetch_session import FetchSession, FetchTarget
from tidelog.model import ErrorCode, TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
ID, OTHER_ID = UUID(int=1), UUID(int=2)


def at(offset: int, topic_id: UUID | None = ID) -> FetchTarget:
    return FetchTarget(topic_id=topic_id, fetch_offset=offset, leader_epoch=0, max_bytes=100)


def established() -> FetchSession:
    session = FetchSession()
    session.plan({A: at(0), B: at(0)})
    session.on_answer(ErrorCode.NONE, session_id=5)
    return session


def test_first_request_is_full_and_asks_for_a_session() -> None:
    plan = FetchSession().plan({A: at(0)})
    assert (plan.session_id, plan.session_epoch, plan.send, plan.forget) == (0, 0, {A: at(0)}, {})
    assert plan.is_full


def test_an_incremental_request_names_only_what_changed_and_what_is_unwanted() -> None:
    plan = established().plan({A: at(3)})
    assert (plan.session_id, plan.session_epoch) == (5, 1)
    assert plan.send == {A: at(3)}
    assert plan.forget == {B: ID}


def test_an_unchanged_request_is_empty_and_epochs_count_up() -> None:
    session = established()
    session.plan({A: at(0), B: at(0)})
    session.on_answer(ErrorCode.NONE, session_id=5)
    plan = session.plan({A: at(0), B: at(0)})
    assert (plan.session_epoch, plan.send, plan.forget) == (2, {}, {})


def test_a_broker_without_sessions_gets_full_requests_for_ever() -> None:
    session = FetchSession()
    session.plan({A: at(0)})
    session.on_answer(ErrorCode.NONE, session_id=0)
    assert session.plan({A: at(0)}).is_full


def test_an_evicted_session_is_begun_anew() -> None:
    session = established()
    session.plan({A: at(0)})
    session.on_answer(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, session_id=0)
    plan = session.plan({A: at(0)})
    assert (plan.session_id, plan.is_full, plan.send) == (0, True, {A: at(0)})


def test_a_refused_epoch_closes_the_session_with_a_full_request() -> None:
    session = established()
    session.plan({A: at(0)})
    session.on_answer(ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=0)
    plan = session.plan({A: at(0)})
    assert (plan.session_id, plan.is_full) == (5, True)


def test_a_lost_answer_makes_the_next_request_full() -> None:
    session = established()
    session.plan({A: at(9)})
    session.on_failure()
    assert session.plan({A: at(9), B: at(0)}).send == {A: at(9), B: at(0)}


def test_a_recreated_topic_is_forgotten_under_its_old_id_and_sent_under_the_new() -> None:
    plan = established().plan({A: at(0, OTHER_ID), B: at(0)})
    assert plan.send == {A: at(0, OTHER_ID)}
    assert plan.forget == {A: ID}


def test_changing_between_names_and_ids_starts_over() -> None:
    session = established()
    plan = session.plan({A: at(0, None), B: at(0)})
    assert plan.is_full
    assert not plan.uses_topic_ids


def test_epochs_wrap_to_one() -> None:
    session = established()
    session._next_epoch = 2**31 - 1  # noqa: SLF001  # two thousand million answers take too long
    session.plan({A: at(0)})
    session.on_answer(ErrorCode.NONE, session_id=5)
    assert session.plan({A: at(0)}).session_epoch == 1


def test_answers_by_id_are_given_back_their_names() -> None:
    session = established()
    assert session.name_of(ID) in {"a", "b"}
    assert session.name_of(OTHER_ID) is None
