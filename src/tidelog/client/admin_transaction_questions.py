"""Asking about transactions (KIP-664): which transactional ids there are, how they stand, and who writes to a partition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tidelog.client.admin_messages import by_topic, producer
from tidelog.client.admin_transaction_messages import described, states_named
from tidelog.client.admin_transaction_values import TransactionDescription, TransactionListing
from tidelog.client.admin_values import ProducerDescription
from tidelog.client.broker_questions import ask_everywhere
from tidelog.client.cluster import ClientRuntime, Cluster
from tidelog.client.config import ClientConfig
from tidelog.client.coordinators import CoordinatorKind, CoordinatorQuestions
from tidelog.client.errors import RequestRefused, UnsupportedApi
from tidelog.client.leaders import LeaderQuestions
from tidelog.model import BrokerId, ErrorCode, ProducerId, TopicPartition
from tidelog.wire.errors import UnencodableMessage
from tidelog.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from tidelog.wire.messages.describe_transactions import DescribeTransactionsRequest
from tidelog.wire.messages.list_transactions import ListTransactionsRequest

_ANY_LENGTH: Final = -1


class TransactionQuestions:
    """What can be asked about transactions. Results are per id or partition, none raised, unless said otherwise."""

    def __init__(self, cluster: Cluster, config: ClientConfig, runtime: ClientRuntime) -> None:
        self._cluster = cluster
        self._config = config
        self._runtime = runtime
        self._leaders = LeaderQuestions(cluster, config, runtime)
        self._questions = CoordinatorQuestions(cluster, config, runtime, kind=CoordinatorKind.TRANSACTIONAL_ID)

    async def find_coordinators(self, transactional_ids: Iterable[str]) -> dict[str, BrokerId | ErrorCode]:
        """The broker that looks after each transactional id, whether it is in use or not."""
        return await self._questions.coordinators.of_each_now(transactional_ids)

    async def list(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[ProducerId] = (),
        duration_ms: int | None = None,
        pattern: str | None = None,
    ) -> tuple[TransactionListing, ...]:
        """All transactional ids, sorted, or those that pass every filter: state, in any case; producer; how long a transaction is open.

        `pattern` is an RE2 expression that the whole id matches. Every broker is asked. Raises RequestRefused, ConnectionLost or
        BrokersUnreachable rather than leave out the ids of one, and UnsupportedApi if one is too old for a filter.
        """
        request = ListTransactionsRequest(
            state_filters=states_named(states),
            producer_id_filters=tuple(producer_ids),
            duration_filter=_ANY_LENGTH if duration_ms is None else duration_ms,
            transactional_id_pattern=pattern,
        )

        async def ask(node: BrokerId) -> tuple[TransactionListing, ...]:
            return await self._list_at(node, request)

        heard = await ask_everywhere(self._cluster, self._config, self._runtime, ask)
        # An id that moved meanwhile is told of twice; its coordinator is who told last.
        return tuple(sorted({row.transactional_id: row for rows in heard.values() for row in rows}.values()))

    async def describe(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription | ErrorCode]:
        """How each stands; TRANSACTIONAL_ID_NOT_FOUND for one that nobody has used, or not for long."""

        async def ask(node: BrokerId, some: Sequence[str]) -> dict[str, TransactionDescription | ErrorCode]:
            request = DescribeTransactionsRequest(transactional_ids=tuple(some))
            answered = (await self._cluster.request(node, request)).transaction_states
            return {
                row.transactional_id: described(row, node) if row.error_code is ErrorCode.NONE else row.error_code
                for row in answered
            }

        return await self._questions.ask(dict.fromkeys(transactional_ids), ask)

    async def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[ProducerDescription, ...] | ErrorCode]:
        """The producers each partition remembers, or why it cannot say."""

        async def ask(
            node: BrokerId, led: Sequence[TopicPartition]
        ) -> dict[TopicPartition, tuple[ProducerDescription, ...] | ErrorCode]:
            topics = tuple(
                TopicRequest(name=name, partition_indexes=tuple(key.index for key in keys))
                for name, keys in by_topic(led).items()
            )
            answered = (await self._cluster.request(node, DescribeProducersRequest(topics=topics))).topics
            return {
                TopicPartition(topic.name, row.partition_index): (
                    tuple(producer(one) for one in row.active_producers)
                    if row.error_code is ErrorCode.NONE
                    else row.error_code
                )
                for topic in answered
                for row in topic.partitions
            }

        return await self._leaders.ask(partitions, ask)

    async def _list_at(self, node: BrokerId, request: ListTransactionsRequest) -> tuple[TransactionListing, ...]:
        try:
            answer = await self._cluster.request(node, request)
        except UnencodableMessage:
            raise UnsupportedApi(f"broker {node} is too old to choose transactions by duration or pattern") from None
        if answer.error_code is not ErrorCode.NONE:
            raise RequestRefused(answer.error_code, f"broker {node} does not list its transactions")
        if answer.unknown_state_filters:
            unknown = ", ".join(answer.unknown_state_filters)
            raise RequestRefused(ErrorCode.INVALID_REQUEST, f"broker {node} knows no state {unknown}")
        return tuple(
            TransactionListing(row.transactional_id, row.producer_id, row.transaction_state, node)
            for row in answer.transaction_states
        )
