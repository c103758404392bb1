"""The half of the producer that writes transactions, as its program sees it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

from tidelog.client.errors import ClientError, WrongUse
from tidelog.client.groups.group import GroupMetadata
from tidelog.client.groups.offset_commits import Offsets
from tidelog.client.transactions.manager import TransactionManager
from tidelog.client.transactions.prepared import PreparedTransaction
from tidelog.client.transactions.state import TransactionState


class TransactionCalls(ABC):
    """Needs transactional.id. Every call ends within max.block.ms; one that raises TransactionPending may be made again.

    ProducerFenced and TransactionRefused are for good: close this producer. After TransactionFailed the transaction must be aborted.
    """

    _state: TransactionState
    _transactions: TransactionManager | None

    @abstractmethod
    async def flush(self) -> None:
        """Wait until the fate of every record is known."""

    async def init_transactions(self, *, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Take the transactional id: whoever used it before is fenced, and what it left open is aborted. Call it first.

        With `keep_prepared` (two-phase commit only) a transaction that was left open stays, is returned, and waits to be ended by
        `complete_transaction`, `commit_transaction` or `abort_transaction`. After `prepare_transaction` it may be called again, once
        somebody has finished that.
        """
        return await self._manager().init(keep_prepared=keep_prepared)

    async def check_not_fenced(self) -> None:
        """Raises ProducerFenced if another producer has taken the transactional id. Makes sense while no transaction is open."""
        await self._manager().check_not_fenced()

    def begin_transaction(self) -> None:
        """From now on records and offsets count when the transaction is committed."""
        self._manager().begin()

    async def send_offsets_to_transaction(self, offsets: Offsets, group: GroupMetadata) -> None:
        """Commit offsets of a consumer's group with the transaction, in the name of `consumer.group.metadata()`.

        Raises CommitFailed where the consumer is no member any more (KIP-447): others may be processing its records, so abort.
        """
        await self._manager().send_offsets(offsets, group)

    async def commit_transaction(self) -> None:
        """Wait for all records, and make them count.

        Raises TransactionFailed if one of them was refused, and TransactionPending while the outcome is not known: call it again then.
        """
        await self._manager().commit(self.flush)

    async def abort_transaction(self) -> None:
        """Make nothing of it count. Records that are not acknowledged yet fail with TransactionAborted."""
        await self._manager().abort()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """A transaction for the length of a block: committed at its end, aborted if it, or the commit, raises.

        One that was prepared, committed or aborted within the block is left as it is.
        """
        self.begin_transaction()
        try:
            yield self
            if self._state.is_open:
                await self.commit_transaction()
        except BaseException as error:
            await self._abort_after(error)
            raise

    async def prepare_transaction(self) -> PreparedTransaction:
        """Wait for all records and leave the decision to somebody else, who is to be told what is returned.

        Nothing more can be sent. With two-phase commit the transaction waits for ever, else for transaction.timeout.ms from its begin.
        """
        return await self._manager().prepare(self.flush)

    async def complete_transaction(self, prepared: PreparedTransaction) -> bool:
        """Commit the prepared transaction if it is the one written down, else abort it; returns which (KIP-939).

        False, too, where nothing is left to be ended: it was before.
        """
        return await self._manager().complete(prepared)

    async def _abort_after(self, error: BaseException) -> None:
        if not self._state.is_open:
            return
        try:
            await self.abort_transaction()
        except ClientError as failure:
            error.add_note(f"the transaction could not be aborted: {failure}")

    def _manager(self) -> TransactionManager:
        if self._transactions is None:
            raise WrongUse("transactional.id is not set")
        return self._transactions
