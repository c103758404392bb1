"""EndTxn: what the coordinator knows at once is answered at once, and what it cannot know yet is waited for."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

from tidelog.broker.handlers import end_txn
from tidelog.broker.node import Node
from tidelog.model import ApiError, ErrorCode
from tidelog.runtime import Address
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.header import RequestHeader
from tidelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

REQUEST = EndTxnRequest(transactional_id="x", producer_id=5, producer_epoch=3, committed=True)
COMMITTED = EndTxnResponse(error_code=ErrorCode.NONE)
NO_IDS = EndTxnResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def context(version: int = 5) -> RequestContext:
    header = RequestHeader(ApiKey.END_TXN, version, 1, "test")
    return RequestContext(header, "PLAINTEXT", Address("", 0), Address("", 0))


class Room:
    """A coordinator that says what a test wants, at once or later, and a store of producer ids."""

    def __init__(self, *answers: EndTxnResponse, is_stocked: bool = True, is_late: bool = False) -> None:
        self.answers = list(answers)
        self.is_late = is_late
        self.is_stocked = is_stocked
        self.can_be_stocked = True
        self.node = cast("Node", SimpleNamespace(transactions=self, producer_ids=self))

    def ask(
        self, key: str, request: EndTxnRequest, _: RequestContext
    ) -> EndTxnResponse | asyncio.Future[EndTxnResponse]:
        assert (key, request) == ("x", REQUEST)
        answer = self.answers.pop(0)
        if not self.is_late:
            return answer
        later: asyncio.Future[EndTxnResponse] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(later.set_result, answer)
        return later

    async def ensure(self) -> None:
        if not self.can_be_stocked:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the registry is away")
        self.is_stocked = True

    def told(self) -> EndTxnResponse:
        async def story() -> EndTxnResponse:
            answer = end_txn.handle(self.node, context(), REQUEST)
            assert not isinstance(answer, EndTxnResponse), "it has to wait"
            return await answer

        return asyncio.run(story())


def test_a_commit_that_is_certain_is_answered_in_the_step_in_which_it_is_asked_for() -> None:
    for is_stocked in (True, False):
        assert end_txn.handle(Room(COMMITTED, is_stocked=is_stocked).node, context(), REQUEST) is COMMITTED


def test_a_refusal_that_needs_no_waiting_comes_at_once_in_words_of_the_version() -> None:
    fenced = EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED)
    assert end_txn.handle(Room(fenced).node, context(5), REQUEST) == fenced
    old = end_txn.handle(Room(fenced).node, context(1), REQUEST)
    assert isinstance(old, EndTxnResponse)
    assert old.error_code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_commit_that_replicas_have_to_hold_first_is_waited_for() -> None:
    assert Room(COMMITTED, is_late=True).told() == COMMITTED


def test_where_there_is_no_producer_id_at_hand_one_is_fetched_and_the_coordinator_asked_again() -> None:
    for is_late in (True, False):
        assert Room(NO_IDS, COMMITTED, is_stocked=False, is_late=is_late).told() == COMMITTED


def test_where_no_producer_id_can_be_had_the_producer_is_told_to_come_again() -> None:
    room = Room(NO_IDS, is_stocked=False)
    room.can_be_stocked = False
    assert room.told() == NO_IDS
