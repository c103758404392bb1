"""What one partition knows of its transactional ids."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from tidelog.coordinator.transaction.states import TransactionState, TransactionStatus
from tidelog.model import ProducerIdentity


class Heard(NamedTuple):
    """By which connection the owner of a transactional id was heard last, and from which older one something came after that, and when."""

    producer: ProducerIdentity
    connection: int
    doubted: int = 0
    doubted_ms: float = 0.0  # by the monotonic clock


class HeardChange(NamedTuple):
    """A change in memory: who was heard."""

    transactional_id: str
    heard: Heard


class StateChange(NamedTuple):
    """A change in memory: an id as it is now, where its record has no room for all of that."""

    state: TransactionState


class UncertainChange(NamedTuple):
    """A change in memory: later epochs of these ids may have been given out than are known here."""

    transactional_ids: tuple[str, ...]


@dataclass(slots=True)
class TransactionBook:
    """The transactional ids of one partition. Changed by replay and adopt only."""

    states: dict[str, TransactionState] = field(default_factory=dict)
    heard: dict[str, Heard] = field(default_factory=dict)
    uncertain: set[str] = field(default_factory=set)  # until a new incarnation has leapt over whatever was forgotten
    # The same ids once more: those with a transaction that is open or ending, and all others from the one that rested longest.
    _open: dict[str, None] = field(default_factory=dict)
    _idle: dict[str, None] = field(default_factory=dict)

    def put(self, state: TransactionState) -> None:
        """An id is as this says from now on."""
        transactional_id = state.transactional_id
        self._drop(transactional_id)
        self.states[transactional_id] = state
        if state.status is TransactionStatus.EMPTY:
            self.uncertain.discard(transactional_id)
        (self._idle if state.status.is_idle else self._open)[transactional_id] = None

    def remove(self, transactional_id: str) -> None:
        """An id is forgotten."""
        self._drop(transactional_id)
        self.states.pop(transactional_id, None)
        self.heard.pop(transactional_id, None)
        self.uncertain.discard(transactional_id)

    def hear(self, change: HeardChange) -> None:
        """Somebody was heard."""
        self.heard[change.transactional_id] = change.heard

    def open_states(self) -> list[TransactionState]:
        """Those with a transaction that is open or ending."""
        return [self.states[transactional_id] for transactional_id in self._open]

    def idle_states(self, count: int) -> list[TransactionState]:
        """Those that rested longest, but for clocks that disagree."""
        return [self.states[transactional_id] for transactional_id in islice(self._idle, count)]

    def _drop(self, transactional_id: str) -> None:
        self._open.pop(transactional_id, None)
        self._idle.pop(transactional_id, None)
