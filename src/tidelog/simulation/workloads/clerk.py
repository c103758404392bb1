"""The clerk: a process that finishes transactions which others have written, prepared and written down for it."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from tidelog.client import ClientConfig, ClientError, PreparedTransaction, TransactionPending, finish_transaction
from tidelog.client.cluster import Cluster
from tidelog.runtime import Runtime
from tidelog.simulation.transaction_history import Fate, Transaction, TransactionHistory
from tidelog.simulation.workloads.workload import PATIENCE

_CALLS_MAX: Final = 3


@dataclass(slots=True, kw_only=True, eq=False)
class Note:
    """A transaction as it was written down: one line of text, and what is to become of it."""

    transaction: Transaction
    text: str
    is_committed: bool
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Clerk:
    """Works through its notes, one after the other."""

    def __init__(self, bootstrap: str, history: TransactionHistory) -> None:
        self._config = ClientConfig.from_properties({**PATIENCE, "bootstrap.servers": bootstrap, "client.id": "clerk"})
        self._history = history
        self._notes: deque[Note] = deque()
        self._news = asyncio.Event()
        self._is_stopping = False

    def hand_over(self, note: Note) -> None:
        """One more; its `done` is set when it was tried, whatever came of it."""
        self._notes.append(note)
        self._news.set()

    def stop(self) -> None:
        """No further note."""
        self._is_stopping = True
        self._news.set()

    async def run(self, runtime: Runtime) -> None:
        """Go on until stopped."""
        async with Cluster(self._config, runtime) as cluster:
            while not self._is_stopping:
                await self._news.wait()
                self._news.clear()
                while self._notes and not self._is_stopping:
                    await self._finish(cluster, runtime, self._notes.popleft())

    async def _finish(self, cluster: Cluster, runtime: Runtime, note: Note) -> None:
        by, asked = note.transaction.by, None
        if note.is_committed:
            asked = self._history.ask_commit(note.transaction, by)
        fate = Fate.UNKNOWN
        prepared = PreparedTransaction.parse(note.text)
        for _ in range(_CALLS_MAX):
            try:
                await finish_transaction(cluster, self._config, runtime, prepared, is_committed=note.is_committed)
            except TransactionPending:
                continue
            except ClientError:
                break
            fate = Fate.COMMITTED if note.is_committed else Fate.ABORTED
            break
        self._history.answer(note.transaction, fate, asked)
        note.done.set()
