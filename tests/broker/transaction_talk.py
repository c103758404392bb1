"""What tests say to the coordinator of transactions, over a raw conversation: one broker is asked, and coordinates them all."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from tests.broker.conversation import Conversation
from tests.cluster.waiting import eventually
from tidelog.model import ErrorCode
from tidelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tidelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from tidelog.wire.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from tidelog.wire.messages.end_txn import EndTxnRequest
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_NOT_YET: Final = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}
NEWEST_OF_CLIENTS: Final = 3
"""The last version of AddPartitionsToTxn for one transaction."""


class Writer(NamedTuple):
    """A transactional producer."""

    transactional_id: str
    producer_id: int
    producer_epoch: int

    def end(self, *, is_committed: bool = True) -> EndTxnRequest:
        """Decide about its transaction."""
        return EndTxnRequest(**self._asdict(), committed=is_committed)

    def add_offsets(self, group_id: str) -> AddOffsetsToTxnRequest:
        """Commit offsets of a group in it."""
        return AddOffsetsToTxnRequest(**self._asdict(), group_id=group_id)

    def add(self, *topics: tuple[str, tuple[int, ...]]) -> AddPartitionsToTxnRequest:
        """Partitions that it is going to write to, as clients say it."""
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=_topics(topics),
        )

    def asked_by_leader(
        self, *topics: tuple[str, tuple[int, ...]], is_verification: bool = False
    ) -> AddPartitionsToTxnRequest:
        """The same, as leaders say it on its behalf."""
        asked = AddPartitionsToTxnTransaction(**self._asdict(), verify_only=is_verification, topics=_topics(topics))
        return AddPartitionsToTxnRequest(transactions=(asked,))


def _topics(topics: tuple[tuple[str, tuple[int, ...]], ...]) -> tuple[AddPartitionsToTxnTopic, ...]:
    return tuple(AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics)


def codes(results: tuple[AddPartitionsToTxnTopicResult, ...]) -> dict[tuple[str, int], ErrorCode]:
    """What was said of each partition."""
    return {
        (topic.name, row.partition_index): row.partition_error_code
        for topic in results
        for row in topic.results_by_partition
    }


def add(conversation: Conversation, writer: Writer, topic: str, *indexes: int) -> ErrorCode:
    """Add partitions of one topic, all of which are told the same."""
    answer = conversation.ask(writer.add((topic, indexes)), NEWEST_OF_CLIENTS)
    (code,) = set(codes(answer.results_by_topic_v3_and_below).values())
    return code


def init(
    conversation: Conversation, transactional_id: str | None, version: int = 5, **changed: Any
) -> InitProducerIdResponse:
    """Ask for the next epoch."""
    said = {"transactional_id": transactional_id, "transaction_timeout_ms": 60_000}
    return conversation.ask(InitProducerIdRequest(**{**said, **changed}), version)


def ready(conversation: Conversation, transactional_id: str) -> Writer:
    """A producer that has its id and epoch."""
    wait_for_transactions(conversation, transactional_id)
    answered: list[InitProducerIdResponse] = []

    def is_initialised() -> bool:
        answered.append(init(conversation, transactional_id))
        return answered[-1].error_code is ErrorCode.NONE

    eventually(is_initialised, f"{transactional_id} has a producer id")
    return Writer(transactional_id, answered[-1].producer_id, answered[-1].producer_epoch)


def wait_for_transactions(conversation: Conversation, transactional_id: str) -> None:
    """Have the topic of transactions made, and wait until the id's partition of it is loaded."""

    def is_served() -> bool:
        conversation.ask(FindCoordinatorRequest(coordinator_keys=(transactional_id,), key_type=1), 4)
        return described(conversation, transactional_id).error_code not in _NOT_YET

    eventually(is_served, f"{transactional_id} has a coordinator")


def described(conversation: Conversation, transactional_id: str) -> TransactionState:
    """What DescribeTransactions says."""
    (state,) = conversation.ask(
        DescribeTransactionsRequest(transactional_ids=(transactional_id,)), 0
    ).transaction_states
    return state


def until_state(conversation: Conversation, transactional_id: str, state: str) -> TransactionState:
    """Wait until the transaction stands like this."""
    eventually(
        lambda: described(conversation, transactional_id).transaction_state == state, f"{transactional_id} is {state}"
    )
    return described(conversation, transactional_id)
