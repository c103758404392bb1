"""DescribeTransactions, version 0.

Behaviour: how transactional ids stand, each asked of its coordinator: TRANSACTIONAL_ID_NOT_FOUND where nobody ever used it or it expired,
INVALID_REQUEST for the empty one.

v0: states of transactional ids (KIP-664).
"""

from __future__ import annotations

from tidelog.broker.handlers.group_requests import ask_each, settled
from tidelog.broker.node import Node
from tidelog.model import ErrorCode
from tidelog.server import RequestContext
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)

API = ApiKey.DESCRIBE_TRANSACTIONS


async def handle(
    node: Node, context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """Ask the coordinator of every id by itself."""

    async def describe(transactional_id: str) -> TransactionState:
        if not transactional_id:
            return TransactionState(error_code=ErrorCode.INVALID_REQUEST, transactional_id=transactional_id)
        asked = DescribeTransactionsRequest(transactional_ids=(transactional_id,))
        (state,) = (await settled(node.transactions.ask(transactional_id, asked, context))).transaction_states
        return state

    # Each once: an answer is not to grow with how often a large transaction is named.
    asked = list(dict.fromkeys(request.transactional_ids))
    return DescribeTransactionsResponse(transaction_states=await ask_each(asked, describe))
