"""Fencing: once a new incarnation of a transactional id was told that it may write, nothing that an older one asks for succeeds.

Neither a commit nor a record. Not claimed of records of two-phase transactions: their writer may be paused while another
keeps what it prepared, and what it writes then is part of what was not prepared, and aborted.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from tidelog.simulation.observer import Snapshot
from tidelog.simulation.transaction_history import Fate, Incarnation, TransactionHistory


class ZombiesEndNothing:
    """Looks at what clients were told, as soon as they are."""

    name = "zombies end no transactions"

    def __init__(self, history: TransactionHistory) -> None:
        self._history = history
        self._seen_answers = 0
        self._seen_records = 0

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """What happened since the last look."""
        del snapshot
        answers = self._history.answers[self._seen_answers :]
        self._seen_answers += len(answers)
        for transaction, fate, asked in answers:
            if fate is Fate.COMMITTED and transaction.entries and asked and asked.moment > self._fenced_since(asked.by):
                yield f"{_who(asked.by)} has committed {transaction.name}, which it asked for afterwards"
        acknowledged = self._history.acknowledged[self._seen_records :]
        self._seen_records += len(acknowledged)
        for transaction, value in acknowledged:
            sent, by = transaction.entries[value].asked, transaction.by
            if sent > self._fenced_since(by) and not by.is_two_phase:
                yield f"{_who(by)} was told that {value!r} is there, which it sent afterwards"

    def _fenced_since(self, incarnation: Incarnation) -> float:
        fenced = self._history.fenced_since(incarnation)
        return inf if fenced is None else fenced


def _who(incarnation: Incarnation) -> str:
    return f"{incarnation.process}, whose successor had been told that it may write,"
