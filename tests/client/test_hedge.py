"""Asking several who know the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tidelog.client.errors import BrokersUnreachable, ConnectionLost, UnsupportedApi
from tidelog.client.hedge import first_answer
from tidelog.runtime import Address
from tidelog.simulation import World

LOST = ConnectionLost(Address("b", 1), "gone")


class Asked:
    """Whom it was asked, when, and what was made of it."""

    def __init__(self) -> None:
        self.at_ms: dict[str, float] = {}
        self.cancelled: list[str] = []

    def one(self, name: str, *, after_ms: float, outcome: str | Exception) -> Callable[[], Awaitable[str]]:
        async def ask() -> str:
            loop = asyncio.get_running_loop()
            self.at_ms[name] = loop.time() * 1000
            answer: asyncio.Future[str] = loop.create_future()
            loop.call_later(after_ms / 1000, _settle, answer, outcome)
            try:
                return await answer
            except asyncio.CancelledError:
                self.cancelled.append(name)
                raise

        return ask


def _settle(answer: asyncio.Future[str], outcome: str | Exception) -> None:
    if answer.done():
        return
    if isinstance(outcome, str):
        answer.set_result(outcome)
    else:
        answer.set_exception(outcome)


def answered(*asks: Callable[[], Awaitable[str]]) -> str:
    with World(1) as world:
        return world.run(first_answer(asks, patience_ms=1000))


def test_one_that_answers_is_enough() -> None:
    asked = Asked()
    assert answered(asked.one("a", after_ms=900, outcome="A"), asked.one("b", after_ms=0, outcome="B")) == "A"
    assert list(asked.at_ms) == ["a"]


def test_one_that_fails_is_followed_by_the_next_at_once() -> None:
    asked = Asked()
    assert answered(asked.one("a", after_ms=10, outcome=LOST), asked.one("b", after_ms=0, outcome="B")) == "B"
    assert asked.at_ms["b"] - asked.at_ms["a"] < 20


def test_one_that_is_silent_is_followed_by_the_next_after_a_while() -> None:
    asked = Asked()
    assert answered(asked.one("a", after_ms=90_000, outcome="A"), asked.one("b", after_ms=10, outcome="B")) == "B"
    assert 1000 <= asked.at_ms["b"] - asked.at_ms["a"] < 1010
    assert asked.cancelled == ["a"]


def test_one_that_was_only_slow_may_still_answer() -> None:
    asked = Asked()
    assert answered(asked.one("a", after_ms=1500, outcome="A"), asked.one("b", after_ms=10, outcome=LOST)) == "A"


def test_all_that_fail_are_an_error_that_tells_of_the_last() -> None:
    asked = Asked()
    with pytest.raises(BrokersUnreachable, match="no broker answered; last: connection to b:1 lost: gone"):
        answered(asked.one("a", after_ms=2000, outcome=LOST), asked.one("b", after_ms=10, outcome=LOST))


def test_nobody_to_ask_is_an_error() -> None:
    with pytest.raises(BrokersUnreachable, match="no broker is known"):
        answered()


def test_another_failure_than_a_lost_connection_is_raised_as_it_is() -> None:
    asked = Asked()
    with pytest.raises(UnsupportedApi):
        answered(asked.one("a", after_ms=1, outcome=UnsupportedApi("old")), asked.one("b", after_ms=0, outcome="B"))
    assert list(asked.at_ms) == ["a"]
