"""What a transaction means for the batches on their way: which may leave, in which version, and that one that fails fails all."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from tidelog.client.accumulator import Accumulator
from tidelog.client.errors import (
    ClientError,
    ProduceFailed,
    ProducerFenced,
    TransactionFailed,
    TransactionRefused,
    UnsupportedApi,
)
from tidelog.client.sequencing import Sequencer
from tidelog.client.transactions.answers import Meaning, meaning_for_batch
from tidelog.client.transactions.messages import PRODUCE_OF_TWO, versions_of
from tidelog.client.transactions.state import TransactionState
from tidelog.model import ErrorCode, ProducerIdentity, TopicPartition


class TransactionalBatches:
    """Stands between the sender and the transaction. `on_change` is called when batches may leave that had to wait, or were failed."""

    def __init__(
        self, state: TransactionState, accumulator: Accumulator, sequencer: Sequencer, on_change: Callable[[], None]
    ) -> None:
        self._state = state
        self._accumulator = accumulator
        self._sequencer = sequencer
        self._on_change = on_change
        self._settled_waiters: list[asyncio.Future[None]] = []
        self._wanted = asyncio.Event()

    @property
    def has_gap(self) -> bool:
        """Whether numbers were used that will never be acknowledged."""
        return self._sequencer.has_gap

    def check_open(self) -> None:
        """Raises unless records may be sent now."""
        self._state.check_open("send()")

    def enlist(self, topic_partition: TopicPartition) -> None:
        """A record for this partition is about to be gathered."""
        if not self._state.participants.enlist(topic_partition):
            self._wanted.set()

    async def wanted(self) -> list[TopicPartition]:
        """Wait for partitions that the coordinator must be told of."""
        while not (self._state.is_sending and self._state.participants.wanted):
            self._wanted.clear()
            await self._wanted.wait()
        return self._state.participants.wanted

    def on_added(self, partitions: list[TopicPartition]) -> None:
        """The coordinator knows of these."""
        self._state.participants.on_joined(partitions)
        self._on_change()

    def may_send(self, topic_partition: TopicPartition) -> bool:
        """Whether batches of this partition may leave now."""
        return self._state.is_sending and self._state.participants.may_send(topic_partition)

    def produce_version(self, version: int) -> int:
        """The version that belongs to the transaction's protocol, of those up to `version`. Raises UnsupportedApi."""
        versions = versions_of(PRODUCE_OF_TWO, is_version_two=self._state.participants.is_version_two)
        if version < versions.low:
            raise UnsupportedApi("the leader is too old for this transaction")
        return min(version, versions.high)

    def on_failed(self, error: ClientError) -> None:
        """A batch was refused or has expired: the transaction cannot be committed, so nothing else of it is sent either."""
        meaning = Meaning.REFUSED if isinstance(error, UnsupportedApi) else Meaning.ABORT
        if isinstance(error, ProduceFailed):
            meaning = meaning_for_batch(error.code)
        self._state.fail(_for_good(error, meaning), meaning)
        self.fail_all(TransactionFailed(f"another record of the transaction failed: {error}"), cause=error)

    def fail_all(self, error: ClientError, *, cause: ClientError | None = None) -> None:
        """Tell everybody who waits for a record; those on the wire are waited for, but not sent again."""
        error.__cause__ = cause
        for batch in self._accumulator.expire(math.inf):
            batch.fail(error)
        self._on_change()

    def adopt(self, identity: ProducerIdentity) -> None:
        """The next transaction is written under this name."""
        self._sequencer.adopt(identity)

    async def settled(self) -> None:
        """Wait until nothing is on the wire; request.timeout.ms bounds it."""
        while self._accumulator.used_bytes:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._settled_waiters.append(waiter)
            await waiter

    def on_progress(self) -> None:
        """Batches were settled."""
        waiters, self._settled_waiters = self._settled_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _for_good(error: ClientError, meaning: Meaning) -> ClientError:
    """What to tell from now on."""
    if not isinstance(error, ProduceFailed) or meaning in {Meaning.ABORT, Meaning.RENEW}:
        return error
    if error.code is ErrorCode.PRODUCER_FENCED:
        return ProducerFenced(str(error))
    return TransactionRefused(error.code, str(error))
