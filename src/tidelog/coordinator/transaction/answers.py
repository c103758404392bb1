"""What clients hear, in the words of the API in which they ask.

Whoever is fenced hears PRODUCER_FENCED; handlers know what a client of an older version calls it.
"""

from __future__ import annotations

from tidelog.coordinator.group.log_errors import coordinator_error
from tidelog.coordinator.machine import Command
from tidelog.coordinator.transaction.requests import (
    JoinRequest,
    JoinResponse,
    MarkersWrittenRequest,
    MarkersWrittenResponse,
)
from tidelog.coordinator.transaction.states import TransactionState
from tidelog.model import ErrorCode, InvariantBroken, ProducerIdentity
from tidelog.wire.definition import Response
from tidelog.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from tidelog.wire.messages.describe_transactions import TransactionState as DescribedTransaction
from tidelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse


def refusal(command: Command, code: ErrorCode) -> Response:
    """How the API of a request says no. `code` is ours or the log's."""
    request, error = command.request, coordinator_error(code)
    if isinstance(request, InitProducerIdRequest):
        return InitProducerIdResponse(error_code=error, producer_epoch=-1)
    if isinstance(request, EndTxnRequest):
        return EndTxnResponse(error_code=error)
    if isinstance(request, JoinRequest):
        return JoinResponse(codes=dict.fromkeys(request.partitions, error))
    if isinstance(request, MarkersWrittenRequest):
        return MarkersWrittenResponse(code=error)
    if isinstance(request, DescribeTransactionsRequest):
        states = [DescribedTransaction(error_code=error, transactional_id=name) for name in request.transactional_ids]
        return DescribeTransactionsResponse(transaction_states=tuple(states))
    if isinstance(request, ListTransactionsRequest):
        return ListTransactionsResponse(error_code=error)
    raise InvariantBroken(f"{type(request).__name__} is not decided here")


def initialised_answer(state: TransactionState, code: ErrorCode) -> InitProducerIdResponse:
    """The pair under which to write; and, to whoever keeps it, who wrote the transaction that is open."""
    if code is not ErrorCode.NONE:
        return InitProducerIdResponse(error_code=code, producer_epoch=-1)
    ongoing = state.writer if state.is_kept else ProducerIdentity(-1, -1)
    return InitProducerIdResponse(
        error_code=ErrorCode.NONE,
        producer_id=state.owner.producer_id,
        producer_epoch=state.owner.producer_epoch,
        ongoing_txn_producer_id=ongoing.producer_id,
        ongoing_txn_producer_epoch=ongoing.producer_epoch,
    )


def ended_answer(state: TransactionState) -> EndTxnResponse:
    """The pair of the next transaction."""
    return EndTxnResponse(
        error_code=ErrorCode.NONE,
        producer_id=state.owner.producer_id,
        producer_epoch=state.owner.producer_epoch,
    )
