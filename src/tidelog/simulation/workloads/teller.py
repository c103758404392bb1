"""A teller: one process that moves amounts between accounts, each transfer a transaction over several partitions of the ledger.

Some transfers it only prepares, and hands them over to a clerk. A two-phase teller prepares all of them and lets a vault decide, a database
that outlives it: whoever takes its id next finishes what it prepared, as the vault says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tidelog.client import (
    ClientError,
    PreparedTransaction,
    Producer,
    ProducerConfig,
    ProducerFenced,
    TransactionFailed,
)
from tidelog.model import TopicPartition
from tidelog.runtime import Runtime
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.transaction_history import Fate, Incarnation, Transaction
from tidelog.simulation.workloads.clerk import Clerk, Note
from tidelog.simulation.workloads.history import History
from tidelog.simulation.workloads.topics import LEDGER_PARTITIONS
from tidelog.simulation.workloads.transacting import TIMEOUT_MS, Writing, producer_settings, until_told

_PAUSE_MS: Final = (200, 1_000)
_AFTER_AN_ERROR_S: Final = 0.3
_AMOUNT_MAX: Final = 100
_ABORTS_ONE_IN: Final = 5
_STALLS_ONE_IN: Final = 12
_HANDS_OVER_ONE_IN: Final = 6
_FORGETS_ONE_IN: Final = 15  # leaves its transaction open, as a program does that does not catch an error


class Vault:
    """What was decided about prepared transactions, before anybody ended them. Outlives every process, and heeds only the newest one."""

    def __init__(self) -> None:
        self._owner: Incarnation | None = None
        self._decided: tuple[Transaction, PreparedTransaction] | None = None

    def take_over(self, incarnation: Incarnation) -> None:
        """From now on nobody else may write."""
        self._owner = incarnation

    def decide(self, incarnation: Incarnation, transaction: Transaction, prepared: PreparedTransaction) -> bool:
        """Write down that a transaction is to be committed; whether it was heeded."""
        if self._owner is incarnation:
            self._decided = (transaction, prepared)
        return self._owner is incarnation

    @property
    def decided(self) -> tuple[Transaction, PreparedTransaction] | None:
        """The transaction that is to be committed, and may have been."""
        return self._decided

    def forget(self, transaction: Transaction) -> None:
        """It is committed."""
        if self._decided is not None and self._decided[0] is transaction:
            self._decided = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TellerPlan:
    """What a teller is told by whoever starts it."""

    bootstrap: str
    transactional_id: str
    vault: Vault | None  # of a two-phase teller
    clerk: Clerk
    on_committed: Callable[[], None]


class Teller:
    """Lives until it is told to stop, is fenced, or dies with its process."""

    def __init__(self, process: str, plan: TellerPlan, history: History, randomness: SimulatedRandomness) -> None:
        self.process = process
        self._plan = plan
        self._history = history
        self._randomness = randomness
        self.has_left_open = False
        """Whether it waits to be killed in the middle of a transaction."""
        self._is_to_leave_open = False
        self._is_handed_over = False
        self._stopping = asyncio.Event()
        self._hurrying = asyncio.Event()

    def stop(self) -> None:
        """End after the transaction under way."""
        self._stopping.set()
        self._hurrying.set()

    def hurry(self) -> None:
        """Make no trouble any more."""
        self._hurrying.set()

    def leave_open(self) -> None:
        """Go on to the end of the next transaction, but do not end it."""
        self._is_to_leave_open = True

    async def run(self, runtime: Runtime) -> None:
        """One producer after the other, as long as faults break them; not after another has taken over."""
        while not self._stopping.is_set():
            try:
                async with Producer.connect(self._config(), runtime) as producer:
                    await self._work(producer)
            except ProducerFenced:
                return
            except (ClientError, _Forgotten):
                await self._wait_ms(_AFTER_AN_ERROR_S * 1000)

    async def _work(self, producer: Producer) -> None:
        incarnation = await self._take_over(producer)
        while not self._stopping.is_set():
            await self._transfer(producer, incarnation)
            if self._is_handed_over:
                self._is_handed_over = False
                incarnation = await self._take_over(producer)
            await self._wait_ms(self._randomness.between(*_PAUSE_MS))

    async def _take_over(self, producer: Producer) -> Incarnation:
        transactions, vault = self._history.transactions, self._plan.vault
        incarnation = transactions.incarnate(self._plan.transactional_id, self.process, is_two_phase=vault is not None)

        async def init() -> None:
            await producer.init_transactions(keep_prepared=vault is not None)

        await until_told(init)
        transactions.ready(incarnation)
        if vault is not None:
            vault.take_over(incarnation)
            await self._finish(producer, incarnation, vault)
        return incarnation

    async def _transfer(self, producer: Producer, incarnation: Incarnation) -> None:
        """Take from some accounts and give to others; the sum stays."""
        writing = Writing.begin(producer, self._history, incarnation)
        try:
            left = 0
            for topic_partition in self._accounts():
                amount = self._randomness.below(2 * _AMOUNT_MAX) - _AMOUNT_MAX
                left -= amount
                await writing.send(topic_partition, amount=amount)
                await self._stall()
            await writing.send(LEDGER_PARTITIONS[self._randomness.below(len(LEDGER_PARTITIONS))], amount=left)
        except ProducerFenced:
            raise
        except ClientError:
            await writing.abort()
            raise
        finally:
            writing.hear()
        if self._plan.vault is not None:
            await self._prepare(writing, self._plan.vault)
        else:
            await self._end(writing)

    async def _end(self, writing: Writing) -> None:
        if self._is_to_leave_open:
            self.has_left_open = True
            await self._stopping.wait()
        if self._draws(_FORGETS_ONE_IN):
            raise _Forgotten
        if self._draws(_HANDS_OVER_ONE_IN):
            await self._hand_over(writing)
        elif self._draws(_ABORTS_ONE_IN):
            await writing.abort()
        else:
            await writing.commit()
            self._plan.on_committed()

    async def _hand_over(self, writing: Writing) -> None:
        """Let the clerk end it, and take the id again when it is done, or does not come to it."""
        prepared = await self._prepared(writing)
        is_committed = not self._draws(_ABORTS_ONE_IN)
        note = Note(transaction=writing.transaction, text=str(prepared), is_committed=is_committed)
        self._plan.clerk.hand_over(note)
        try:
            async with asyncio.timeout(TIMEOUT_MS / 1000):
                await note.done.wait()
        except TimeoutError:
            pass
        self._is_handed_over = True

    async def _prepared(self, writing: Writing) -> PreparedTransaction:
        try:
            return await writing.producer.prepare_transaction()
        except TransactionFailed:
            await writing.abort()
            raise
        finally:
            writing.hear()

    # Two phases.

    async def _prepare(self, writing: Writing, vault: Vault) -> None:
        """Write down what is to become of the transaction, then end it so; in between one may die."""
        prepared = await self._prepared(writing)
        if self._draws(_ABORTS_ONE_IN):
            await self._stall()
            await writing.abort()
            return
        if not vault.decide(writing.transaction.by, writing.transaction, prepared):
            raise ProducerFenced("the vault knows a later incarnation")
        await self._stall()
        await self._complete(writing.producer, writing.transaction.by, vault)

    async def _finish(self, producer: Producer, incarnation: Incarnation, vault: Vault) -> None:
        """End what an earlier incarnation has left: as the vault says, or else by an abort."""
        if vault.decided is not None:
            await self._complete(producer, incarnation, vault)
        else:
            await producer.complete_transaction(PreparedTransaction(transactional_id=self._plan.transactional_id))

    async def _complete(self, producer: Producer, incarnation: Incarnation, vault: Vault) -> None:
        if vault.decided is None:
            return
        transaction, prepared = vault.decided
        transactions = self._history.transactions
        asked = transactions.ask_commit(transaction, incarnation)

        async def complete() -> None:
            await producer.complete_transaction(prepared)  # False where it was done before: it was committed then.

        try:
            await until_told(complete)
        except ClientError:
            transactions.answer(transaction, Fate.UNKNOWN)
            raise
        transactions.answer(transaction, Fate.COMMITTED, asked)
        vault.forget(transaction)
        self._plan.on_committed()

    # What is drawn.

    def _config(self) -> ProducerConfig:
        settings = producer_settings(self._plan.bootstrap, self._plan.transactional_id, self._randomness)
        if self._plan.vault is not None:
            settings |= {"transaction.two.phase.commit.enable": "true", "tidelog.transaction.version.max": "2"}
        return ProducerConfig.from_properties(settings)

    def _accounts(self) -> list[TopicPartition]:
        choices = list(LEDGER_PARTITIONS)
        count = 1 + self._randomness.below(len(choices))
        return [choices.pop(self._randomness.below(len(choices))) for _ in range(count)]

    async def _stall(self) -> None:
        if self._draws(_STALLS_ONE_IN):
            await self._wait_ms(self._randomness.between(0, 1.5 * TIMEOUT_MS))

    def _draws(self, one_in: int) -> bool:
        return not self._hurrying.is_set() and self._randomness.below(one_in) == 0

    async def _wait_ms(self, duration_ms: float) -> None:
        try:
            async with asyncio.timeout(duration_ms / 1000):
                await self._stopping.wait()
        except TimeoutError:
            return


class _Forgotten(Exception):
    """A program has gone on without ending its transaction."""
