"""ListTransactions, versions 0 to 2.

Behaviour: the transactional ids of all partitions of `__transaction_state` that this broker leads, in order. While one of them is being
loaded, nothing is listed and the error says so: COORDINATOR_LOAD_IN_PROGRESS. One that goes elsewhere meanwhile is listed there. A broker
that starts or stops does not know its transactions: COORDINATOR_NOT_AVAILABLE. Names of states that do not exist are given back.

v0: filters by state and producer (KIP-664).  v1: by duration (KIP-994).  v2: by pattern (KIP-1152).
"""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from tidelog.broker.handlers.group_requests import in_order
from tidelog.broker.node import Node
from tidelog.coordinator.transaction.states import TransactionStatus
from tidelog.model import ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

API = ApiKey.LIST_TRANSACTIONS

_STATES: Final = frozenset(status.label for status in TransactionStatus)


async def handle(node: Node, context: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:
    """Ask all that are coordinated here, and list them together."""
    if not node.transactions.is_started:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    answers = await node.transactions.ask_all(request, context)
    for answer in answers:
        if answer.error_code not in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR):
            return ListTransactionsResponse(error_code=answer.error_code)
    states = await in_order((answer.transaction_states for answer in answers), attrgetter("transactional_id"))
    return ListTransactionsResponse(
        error_code=ErrorCode.NONE,
        unknown_state_filters=tuple(dict.fromkeys(name for name in request.state_filters if name not in _STATES)),
        transaction_states=states,
    )
