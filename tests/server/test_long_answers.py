"""Answers that are as long as the cluster is large: they are written in slices, and others have their turn in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from math import ceil

import pytest

from tests.turns import with_turns
from tidelog.model import ErrorCode
from tidelog.runtime import Address
from tidelog.runtime.instruments import MemoryMetrics
from tidelog.runtime.real import RealClock
from tidelog.server import Dispatcher, RequestContext
from tidelog.wire.api import API_TABLE, ApiKey
from tidelog.wire.encoder import SLICE_ELEMENTS
from tidelog.wire.errors import UnencodableMessage
from tidelog.wire.frame import encode_request_frame, encode_response_frame, encode_response_frame_in_slices
from tidelog.wire.header import RequestHeader
from tidelog.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

NOWHERE = Address("", 0)
LONG = 3 * SLICE_ELEMENTS + 1


def header(version: int = 2) -> RequestHeader:
    return RequestHeader(ApiKey.LIST_TRANSACTIONS, version, 7, "test")


def listing(count: int) -> ListTransactionsResponse:
    names = [f"id-{number}" for number in range(count)]
    states = tuple(TransactionState(transactional_id=name, producer_id=1, transaction_state="Empty") for name in names)
    return ListTransactionsResponse(error_code=ErrorCode.NONE, transaction_states=states)


@pytest.mark.parametrize("version", list(API_TABLE[ApiKey.LIST_TRANSACTIONS].served))
@pytest.mark.parametrize("count", [0, 1, SLICE_ELEMENTS, SLICE_ELEMENTS + 1, LONG])
def test_an_answer_in_slices_has_the_bytes_of_one_in_a_piece(count: int, version: int) -> None:
    *pauses, frame = encode_response_frame_in_slices(header(version), listing(count))
    assert frame is not None
    assert b"".join(frame) == b"".join(encode_response_frame(header(version), listing(count)))
    assert pauses == [None] * (ceil(count / SLICE_ELEMENTS) if count > SLICE_ELEMENTS else 0)


def test_what_no_bytes_stand_for_is_refused_in_slices_too() -> None:
    wrong = TransactionState(transactional_id="x", producer_id=1 << 64, transaction_state="Empty")
    answer = ListTransactionsResponse(error_code=ErrorCode.NONE, transaction_states=(wrong,) * LONG)
    with pytest.raises(UnencodableMessage, match="ListTransactionsResponse"):
        list(encode_response_frame_in_slices(header(), answer))


def test_others_have_their_turn_while_a_long_answer_is_written() -> None:
    async def handle(_: RequestContext, __: object) -> ListTransactionsResponse:
        return listing(LONG)

    async def story() -> tuple[object, int]:
        dispatcher = Dispatcher({ApiKey.LIST_TRANSACTIONS: handle}, MemoryMetrics(), RealClock())
        request = bytearray(b"".join(encode_request_frame(header(), ListTransactionsRequest()))[4:])
        answer = dispatcher.dispatch(request, "PLAINTEXT", NOWHERE, NOWHERE)
        assert isinstance(answer, Awaitable)
        return await with_turns(answer)

    frame, turns = asyncio.run(story())
    assert frame == encode_response_frame(header(), listing(LONG))
    assert turns >= LONG / SLICE_ELEMENTS
