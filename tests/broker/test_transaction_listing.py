"""ListTransactions puts together what the partitions of a broker say."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from tests.turns import with_turns
from tidelog.broker.handlers import list_transactions
from tidelog.model import ErrorCode
from tidelog.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from tidelog.broker.node import Node
    from tidelog.server import RequestContext


@dataclass
class Transactions:
    """Partitions that answer as a test has it."""

    answers: list[ListTransactionsResponse] = field(default_factory=list)
    is_started: bool = True

    async def ask_all(self, _: ListTransactionsRequest, __: object) -> list[ListTransactionsResponse]:
        return self.answers


@dataclass
class Asked:
    """As much of a node as is looked at."""

    transactions: Transactions


def answered(transactions: Transactions, *state_filters: str) -> ListTransactionsResponse:
    node, context = cast("Node", Asked(transactions)), cast("RequestContext", None)
    request = ListTransactionsRequest(state_filters=state_filters)
    return asyncio.run(list_transactions.handle(node, context, request))


def listed(transactions: Transactions) -> tuple[ErrorCode, list[str]]:
    response = answered(transactions)
    return response.error_code, [state.transactional_id for state in response.transaction_states]


def said(*names: str, code: ErrorCode = ErrorCode.NONE) -> ListTransactionsResponse:
    states = tuple(TransactionState(transactional_id=name, producer_id=1, transaction_state="Empty") for name in names)
    return ListTransactionsResponse(error_code=code, transaction_states=states)


def test_the_ids_of_all_partitions_come_in_order() -> None:
    assert listed(Transactions([said("c", "a"), said(), said("b")])) == (ErrorCode.NONE, ["a", "b", "c"])


def test_a_partition_that_went_elsewhere_meanwhile_is_passed_over_and_one_that_is_loaded_is_not() -> None:
    gone = said(code=ErrorCode.NOT_COORDINATOR)
    loading = said(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert listed(Transactions([said("a"), gone])) == (ErrorCode.NONE, ["a"])
    assert listed(Transactions([said("a"), gone, loading])) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])


def test_a_broker_that_stops_does_not_say_that_there_are_no_transactions() -> None:
    assert listed(Transactions(is_started=False)) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])


def test_states_that_do_not_exist_are_given_back_also_by_a_broker_that_coordinates_nothing() -> None:
    response = answered(Transactions(), "Ongoing", "Nonsense", "PrepareCommit", "Nonsense", "ongoing")
    assert response.unknown_state_filters == ("Nonsense", "ongoing")


def test_others_have_their_turn_while_very_many_ids_are_put_in_order() -> None:
    names = [f"{number:05}" for number in range(5_000)]
    transactions = Transactions([said(*names[first::50]) for first in range(50)])
    node, context = cast("Node", Asked(transactions)), cast("RequestContext", None)

    response, turns = asyncio.run(with_turns(list_transactions.handle(node, context, ListTransactionsRequest())))
    assert [state.transactional_id for state in response.transaction_states] == names
    assert turns >= 50 + 5
