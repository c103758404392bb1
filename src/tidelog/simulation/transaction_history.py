"""What the clients of transactions wanted, and what they were told: for the checkers of transactions, which hold it against what is there.

Every value is unique and names its transaction: `transaction/number`. What it stands for is in the transaction's entries. Moments are
numbered as they are noted.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.model import Offset, TopicPartition


class Fate(enum.Enum):
    """What became of a transaction, as far as its client knows."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Source(NamedTuple):
    """The record that an entry was made of."""

    topic_partition: TopicPartition
    offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One record of a transaction: a change of an account, or a copy of something."""

    topic_partition: TopicPartition
    asked: int
    amount: int = 0
    source: Source | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Incarnation:
    """A process that is to write under a transactional id. When it is `ready`, all who were before it `asked` are zombies."""

    transactional_id: str
    process: str
    asked: int
    is_two_phase: bool = False
    ready: int | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Transaction:
    """One transaction, whoever ended it."""

    name: str
    by: Incarnation
    entries: dict[bytes, Entry] = field(default_factory=dict)
    consumed: dict[TopicPartition, Offset] = field(default_factory=dict)  # offsets that it commits, of a group
    is_commit_asked: bool = False
    fate: Fate = Fate.OPEN
    is_contradicted: bool = False  # It was told to be committed, and to be aborted.

    @property
    def may_be_seen(self) -> bool:
        """Whether readers of what is committed may be given its records: somebody wanted it committed, and nobody was told that it was not."""
        return self.is_commit_asked and self.fate is not Fate.ABORTED


class Asked(NamedTuple):
    """Somebody wanted a transaction committed."""

    by: Incarnation
    moment: int


class Answer(NamedTuple):
    """What whoever ended a transaction was told; `asked` where that was a commit."""

    transaction: Transaction
    fate: Fate
    asked: Asked | None


class Reading(NamedTuple):
    """A reader of what is committed was given a record."""

    reader: str
    topic_partition: TopicPartition
    offset: Offset
    value: bytes


class TransactionHistory:
    """The transactions of one run."""

    def __init__(self) -> None:
        self.transactions: dict[str, Transaction] = {}
        self.incarnations: dict[str, list[Incarnation]] = {}
        self.readings: list[Reading] = []
        self.answers: list[Answer] = []
        self.acknowledged: list[tuple[Transaction, bytes]] = []
        self.copied: dict[str, tuple[str, str]] = {}  # of each group that copies: from which topic, to which
        self._moment = 0

    def now(self) -> int:
        """A number for this moment, larger than any before."""
        self._moment += 1
        return self._moment

    # Who writes.

    def incarnate(self, transactional_id: str, process: str, *, is_two_phase: bool = False) -> Incarnation:
        """A process is about to write under this id."""
        incarnation = Incarnation(
            transactional_id=transactional_id, process=process, asked=self.now(), is_two_phase=is_two_phase
        )
        self.incarnations.setdefault(transactional_id, []).append(incarnation)
        return incarnation

    def ready(self, incarnation: Incarnation) -> None:
        """It was told that it may write."""
        incarnation.ready = self.now()

    def fenced_since(self, incarnation: Incarnation) -> int | None:
        """When somebody who asked after it was ready was told that it may write."""
        if incarnation.ready is None:
            return None
        known = self.incarnations[incarnation.transactional_id]
        later = [each.ready for each in known if each.asked > incarnation.ready and each.ready is not None]
        return min(later, default=None)

    # What is written.

    def begin(self, incarnation: Incarnation) -> Transaction:
        """A transaction, with a name of its own."""
        name = f"{incarnation.transactional_id}.{len(self.transactions) + 1}"
        transaction = self.transactions[name] = Transaction(name=name, by=incarnation)
        return transaction

    def write(
        self,
        transaction: Transaction,
        topic_partition: TopicPartition,
        *,
        amount: int = 0,
        source: Source | None = None,
    ) -> bytes:
        """The value of one more record, which is about to be sent."""
        value = f"{transaction.name}/{len(transaction.entries)}".encode()
        entry = Entry(topic_partition=topic_partition, asked=self.now(), amount=amount, source=source)
        transaction.entries[value] = entry
        return value

    def acknowledge(self, transaction: Transaction, value: bytes) -> None:
        """Its writer was told that the record is in the log."""
        self.acknowledged.append((transaction, value))

    # How it ends.

    def ask_commit(self, transaction: Transaction, by: Incarnation) -> Asked:
        """Somebody is about to commit it; from now on it may be seen."""
        transaction.is_commit_asked = True
        return Asked(by, self.now())

    def answer(self, transaction: Transaction, fate: Fate, asked: Asked | None = None) -> None:
        """What whoever ended it was told. What nobody knows may still be learned, what was told once stays."""
        self.answers.append(Answer(transaction, fate, asked))
        known = (Fate.COMMITTED, Fate.ABORTED)
        if transaction.fate in known and fate in known and transaction.fate is not fate:
            transaction.is_contradicted = True
        if transaction.fate not in known:
            transaction.fate = fate

    # What is read.

    def read(self, reader: str, topic_partition: TopicPartition, offset: Offset, value: bytes) -> None:
        """A reader of what is committed was given a record."""
        self.readings.append(Reading(reader, topic_partition, offset, value))

    def readings_by_reader(self) -> Iterator[tuple[str, list[Reading]]]:
        """What each reader was given, in that order."""
        found: dict[str, list[Reading]] = {}
        for reading in self.readings:
            found.setdefault(reading.reader, []).append(reading)
        yield from found.items()

    def transaction_of(self, value: bytes) -> Transaction | None:
        """The transaction that a value names; None where it is no value of one."""
        name, slash, _ = value.decode(errors="replace").rpartition("/")
        return self.transactions.get(name) if slash else None
