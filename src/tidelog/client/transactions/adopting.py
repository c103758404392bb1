"""Ending transactions that others have prepared, whoever held them last (KIP-939).

Only its owner ends a prepared transaction: its writer, until somebody adopts it, and then whoever adopted it last. One who adopted it and
died is an owner in whose name nobody can speak any more. So what was written down, the name of the writer, tells which transaction is meant,
but not how to end it: whoever is to do that adopts it anew and hears from the coordinator who wrote what is there. An end that was asked
for in the name of one adoption can never hit another transaction, nor one that somebody else has adopted since.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

from tidelog.client.cluster import ClientRuntime, Cluster
from tidelog.client.config import ClientConfig
from tidelog.client.coordinators import CoordinatorKind
from tidelog.client.errors import TransactionPending, TransactionRefused, UnsupportedApi
from tidelog.client.transactions.answers import Meaning, meaning_of
from tidelog.client.transactions.conversation import Conversation
from tidelog.client.transactions.messages import ongoing_of
from tidelog.client.transactions.prepared import PreparedTransaction
from tidelog.model import ProducerIdentity
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest

T = TypeVar("T")
R = TypeVar("R")

_CONVERSATIONS: Final = 8  # at the same time: a coordinator waits for its replicas with each answer
_FOR_EVER_MS: Final = 2**31 - 1  # what a transaction of two phases waits for its outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedTransaction:
    """A prepared transaction that only we can end, until somebody adopts it in turn."""

    prepared: PreparedTransaction  # as its writer has handed it over
    keeper: ProducerIdentity


class TransactionKeeper:
    """Adopts and ends transactions, many at a time. Brokers must allow two phases; needs no producer, and writes nothing.

    Every call ends within default.api.timeout.ms, with TransactionPending if the coordinators have not answered by then: make it again.
    Raises UnsupportedApi where brokers cannot keep prepared transactions, and TransactionRefused where they will not.
    """

    def __init__(self, cluster: Cluster, config: ClientConfig, runtime: ClientRuntime) -> None:
        self._cluster = cluster
        self._config = config
        self._runtime = runtime

    async def adopt(self, transactional_ids: Iterable[str]) -> dict[str, AdoptedTransaction | None]:
        """What each id has open, from now on in our hands; None where that is nothing. Whoever wrote or adopted it before is fenced."""
        wanted = list(dict.fromkeys(transactional_ids))
        async with self._patience("adopting prepared transactions"):
            return dict(zip(wanted, await self._each(self._adopt, wanted), strict=True))

    async def end(
        self, adopted: Iterable[AdoptedTransaction], *, is_committed: bool
    ) -> tuple[PreparedTransaction, ...]:
        """Commit or abort them; returns those that are not ours any more, and which this has left as they are."""

        async def end(conversation: Conversation, one: AdoptedTransaction) -> PreparedTransaction | None:
            return None if await _end(conversation, one, is_committed=is_committed) else one.prepared

        async with self._patience("ending prepared transactions"):
            return tuple(left for left in await self._each(end, list(adopted)) if left is not None)

    async def finish(self, prepared: Iterable[PreparedTransaction], *, is_committed: bool) -> None:
        """Commit or abort each, whoever holds it now. Where it has ended nothing happens: however often, the outcome stays."""

        async def finish(conversation: Conversation, one: PreparedTransaction) -> None:
            while True:  # for as long as others adopt it, too; somebody is the last one
                found = await self._adopt(conversation, one.transactional_id)
                if found is None or found.prepared != one or await _end(conversation, found, is_committed=is_committed):
                    return

        async with self._patience("finishing prepared transactions"):
            await self._each(finish, [one for one in prepared if one.producer is not None])

    async def _adopt(self, conversation: Conversation, transactional_id: str) -> AdoptedTransaction | None:
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=_FOR_EVER_MS,
            enable2_pc=True,
            keep_prepared_txn=True,
        )
        who = (CoordinatorKind.TRANSACTIONAL_ID, transactional_id)
        answer = await conversation.ask(who, request, code_of=lambda answer: answer.error_code)
        if not conversation.speaks_version_two:
            raise UnsupportedApi("the cluster does not run version 2 of transactions, which prepared ones need")
        if meaning_of(answer.error_code) is not Meaning.DONE:
            raise TransactionRefused(answer.error_code, f"InitProducerId of {transactional_id!r}")
        writer = ongoing_of(answer)
        if writer is None:
            return None
        return AdoptedTransaction(
            prepared=PreparedTransaction(
                transactional_id=transactional_id,
                producer_id=writer.producer_id,
                producer_epoch=writer.producer_epoch,
            ),
            keeper=ProducerIdentity(answer.producer_id, answer.producer_epoch),
        )

    async def _each(self, work: Callable[[Conversation, T], Awaitable[R]], items: list[T]) -> list[R]:
        """The results in order. Some at a time; the first failure ends them all."""
        results: dict[int, R] = {}
        waiting = iter(enumerate(items))

        async def converse() -> None:
            conversation = Conversation(self._cluster, self._config, self._runtime)
            for index, item in waiting:
                results[index] = await work(conversation, item)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(_CONVERSATIONS, len(items))):
                    group.create_task(converse())
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return [results[index] for index in range(len(items))]

    @asynccontextmanager
    async def _patience(self, what: str) -> AsyncIterator[None]:
        timeout_ms = self._config.default_api_timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                yield
        except TimeoutError:
            raise TransactionPending(
                f"{what} did not end within default.api.timeout.ms={timeout_ms}; do it again"
            ) from None


async def _end(conversation: Conversation, adopted: AdoptedTransaction, *, is_committed: bool) -> bool:
    """Whether it has ended so; False where somebody else has adopted it since."""
    name = adopted.prepared.transactional_id
    answer = await conversation.end(name, adopted.keeper, is_committed=is_committed, is_version_two=True)
    match meaning_of(answer.error_code):
        case Meaning.DONE:
            return True
        case Meaning.FENCED | Meaning.RENEW:
            return False
        case _:
            raise TransactionRefused(answer.error_code, f"EndTxn of {adopted.prepared}")
