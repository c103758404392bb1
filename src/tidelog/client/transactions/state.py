"""How the transaction of one producer stands, and what may be done next. Pure.

As in Kafka, errors are of two kinds. After one that concerns the transaction only (a batch failed, a group refused an offset) it can be
aborted, and the producer goes on. After one that concerns the producer (it is fenced, or may not use its transactional id) it can do
nothing any more.

A coordinator that does not answer leaves the question open: the state stays COMMITTING or ABORTING, and the same call asks again.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final

from tidelog.client.errors import ClientError, TransactionFailed, WrongUse
from tidelog.client.transactions.answers import Meaning
from tidelog.client.transactions.participants import Participants
from tidelog.model import ProducerIdentity


class Status(enum.Enum):
    """Where a producer is between its transactions. The value completes "the producer ..."."""

    NEW = "has not called init_transactions()"
    INITIALIZING = "waits for init_transactions()"
    READY = "has no transaction"
    OPEN = "is in a transaction"
    PREPARED = "has prepared its transaction"
    COMMITTING = "is committing, and commit_transaction() must be called again"
    ABORTING = "is aborting, and abort_transaction() must be called again"
    FAILED = "must abort its transaction"
    LOST = "is of no use any more"


_MAY_COMMIT: Final = frozenset({Status.OPEN, Status.PREPARED, Status.COMMITTING})
_MAY_ABORT: Final = frozenset({Status.OPEN, Status.PREPARED, Status.FAILED, Status.ABORTING})


class TransactionState:
    """The methods are what happens; each raises what the caller of the producer shall see, and then has changed nothing."""

    def __init__(self) -> None:
        self.status = Status.NEW
        self.ordinal = 0
        """How many transactions were begun."""
        self.identity: ProducerIdentity | None = None
        self.participants = Participants()
        self.needs_renewal = False
        """Whether the next transaction needs another epoch, which InitProducerId gives."""
        self.is_end_asked = False
        """Whether the coordinator may have ended it already, as far as was heard."""
        self._failure: ClientError | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is a transaction that only this producer will end."""
        return self.status in {Status.OPEN, Status.FAILED}

    @property
    def is_sending(self) -> bool:
        """Whether batches may be on their way."""
        return self.status in {Status.OPEN, Status.PREPARED, Status.COMMITTING}

    @property
    def ongoing(self) -> ProducerIdentity | None:
        """Who wrote the transaction that is to be ended; None where it is empty, or there is none."""
        return self.participants.writer if self.participants.may_be_ongoing or self.is_end_asked else None

    def begin_initialization(self) -> None:
        """Also after a transaction was prepared that somebody else finishes."""
        self._check({Status.NEW, Status.INITIALIZING, Status.PREPARED}, "init_transactions()")
        self.status = Status.INITIALIZING

    def on_identity(self, identity: ProducerIdentity) -> None:
        """The coordinator has told under which name the next transaction is written."""
        self.identity = identity
        self.needs_renewal = False

    def on_initialized(self, ongoing: ProducerIdentity | None) -> None:
        """The name is ours; `ongoing` is who wrote a transaction that was kept."""
        self._clear(Participants(ongoing, is_version_two=True))
        self.status = Status.READY
        if ongoing is not None:
            self.participants.on_joined()
            self.status = Status.PREPARED

    def begin(self, *, is_version_two: bool) -> None:
        """Nothing is said to the coordinator before there is something to write."""
        self._check({Status.READY}, "begin_transaction()")
        self._clear(Participants(self.identity, is_version_two=is_version_two))
        self.ordinal += 1
        self.status = Status.OPEN

    def check_open(self, what: str, *, is_wanted: bool = True) -> None:
        """Raises unless records and offsets may be added; or, where that is not wanted, unless a transaction may begin."""
        self._check({Status.OPEN if is_wanted else Status.READY}, what)

    def prepare(self) -> None:
        """Nothing more may be added. Called again while what was added is still on its way."""
        self._check({Status.OPEN, Status.PREPARED}, "prepare_transaction()")
        self.status = Status.PREPARED

    def begin_end(self, *, is_committed: bool) -> None:
        """Begin, or begin again, to end the transaction."""
        if is_committed:
            self._check(_MAY_COMMIT, "commit_transaction()")
            self.status = Status.COMMITTING
            return
        # A commit that waits for its records may still become an abort; one that was asked for may not.
        may_turn = self.status is Status.COMMITTING and not self.is_end_asked
        self._check(_MAY_ABORT | ({Status.COMMITTING} if may_turn else set()), "abort_transaction()")
        self.status = Status.ABORTING

    def on_end_asked(self) -> None:
        """From now on the transaction may have ended."""
        self.is_end_asked = True

    def on_end_answered(self, *, needs_renewal: bool = False) -> None:
        """The coordinator has ended it, or knows nothing of it, in which case a late request could still open it under this epoch."""
        self.participants.on_end_answered()
        self.needs_renewal = self.needs_renewal or needs_renewal

    def on_ended(self) -> None:
        """Another transaction may begin."""
        self._clear(Participants())
        self.status = Status.READY

    def fail(self, error: ClientError, meaning: Meaning) -> None:
        """Something went wrong that retries do not cure. The first thing that does is what is told."""
        if self.status is Status.LOST:
            return
        if meaning in {Meaning.FENCED, Meaning.REFUSED}:
            self.status = Status.LOST
            self._failure = error
            return
        if meaning is Meaning.RENEW:
            self.on_end_answered(needs_renewal=True)
        if self.is_sending:
            self.status = Status.FAILED
            self._failure = error

    def check_not_failed(self) -> None:
        """Raises what is wrong with the transaction, if anything is."""
        if self.status is Status.LOST and self._failure is not None:
            raise self._failure.with_traceback(None)
        if self.status is Status.FAILED:
            raise TransactionFailed(f"the transaction must be aborted: {self._failure}") from self._failure

    def _check(self, allowed: Iterable[Status], what: str) -> None:
        if self.status in allowed:
            return
        self.check_not_failed()
        raise WrongUse(f"{what} makes no sense now: the producer {self.status.value}")

    def _clear(self, participants: Participants) -> None:
        self.participants = participants
        self._failure = None
        self.is_end_asked = False
