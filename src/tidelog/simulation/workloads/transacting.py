"""What the writers of transactions share: settings, and how a transaction is written and ended so that the history knows of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.client import ClientError, Producer, RecordMetadata, TransactionFailed, TransactionPending
from tidelog.model import TopicPartition
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.transaction_history import Asked, Fate, Incarnation, Source, Transaction
from tidelog.simulation.workloads.history import History
from tidelog.simulation.workloads.workload import PATIENCE

TIMEOUT_MS: Final = 4_000
"""How long a transaction may stay open."""
_SETTINGS: Final[Mapping[str, str]] = {
    **PATIENCE,
    "delivery.timeout.ms": "6000",
    "max.block.ms": "4000",
    "transaction.timeout.ms": str(TIMEOUT_MS),
    "metadata.max.age.ms": "20000",
}
_CALLS_MAX: Final = 3
_VERSIONS: Final = ("1", "2", "2")  # of the protocol: before KIP-890, and since


def producer_settings(bootstrap: str, transactional_id: str, randomness: SimulatedRandomness) -> dict[str, str]:
    """A producer that speaks one of the protocols."""
    return {
        **_SETTINGS,
        "bootstrap.servers": bootstrap,
        "client.id": transactional_id,
        "transactional.id": transactional_id,
        "tidelog.transaction.version.max": _VERSIONS[randomness.below(len(_VERSIONS))],
    }


@dataclass(slots=True, kw_only=True)
class Writing:
    """One transaction that is being written by its producer."""

    producer: Producer
    history: History
    transaction: Transaction
    sent: dict[bytes, asyncio.Future[RecordMetadata]]

    @classmethod
    def begin(cls, producer: Producer, history: History, incarnation: Incarnation) -> Writing:
        """Begin it; raises ClientError."""
        producer.begin_transaction()
        transaction = history.transactions.begin(incarnation)
        history.number(transaction.name)
        return cls(producer=producer, history=history, transaction=transaction, sent={})

    async def send(self, topic_partition: TopicPartition, *, amount: int = 0, source: Source | None = None) -> None:
        """One more record; raises ClientError."""
        value = self.history.transactions.write(self.transaction, topic_partition, amount=amount, source=source)
        self.sent[value] = await self.producer.send(topic_partition.topic, value, partition=topic_partition.index)

    def hear(self) -> None:
        """Note which records their writer was told of. No acknowledgement is lost, however the transaction ends."""
        for value, future in self.sent.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                entry = self.transaction.entries[value]
                self.history.transactions.acknowledge(self.transaction, value)
                self.history.acknowledge(
                    entry.topic_partition,
                    future.result().offset,
                    value,
                    producer=self.transaction.name,
                    is_promised=True,
                )
        self.sent = {value: future for value, future in self.sent.items() if not future.done()}

    async def commit(self) -> None:
        """Commit it; raises ClientError where it may not have been. One that failed is aborted."""
        asked = self.history.transactions.ask_commit(self.transaction, self.transaction.by)
        try:
            await until_told(self.producer.commit_transaction)
        except TransactionFailed:  # Nobody was asked to commit it.
            await self.abort()
            raise
        except ClientError:
            self.answer(Fate.UNKNOWN)
            raise
        finally:
            self.hear()
        self.answer(Fate.COMMITTED, asked)

    async def abort(self) -> None:
        """Abort it; raises ClientError where it is aborted only by its time-out."""
        try:
            await until_told(self.producer.abort_transaction)
        except ClientError:
            self.answer(Fate.UNKNOWN)
            raise
        finally:
            self.hear()
        self.answer(Fate.ABORTED)

    def answer(self, fate: Fate, asked: Asked | None = None) -> None:
        """What its writer knows of its end."""
        self.history.transactions.answer(self.transaction, fate, asked)


async def until_told(call: Callable[[], Awaitable[None]]) -> None:
    """Make a call until there is an answer, a few times. Raises ClientError."""
    for left in reversed(range(_CALLS_MAX)):
        try:
            await call()
        except TransactionPending:
            if not left:
                raise
        else:
            return
