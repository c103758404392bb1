"""Stock Python clients in transactions, behind one face: a producer with a transactional id, and a consumer whose offsets go along.

Each raises one of two things, whatever its library calls them: `Fenced` when it is over with this producer, `Aborted` when it is over with this
transaction only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, Protocol


class Fenced(Exception):
    """Somebody else goes by the transactional id now, or the broker has ended the transaction itself."""


class Aborted(Exception):
    """This transaction cannot be committed; after `abort` the producer goes on."""


class Read(NamedTuple):
    """A record that was read."""

    partition: int
    offset: int
    value: bytes


class TransactionalClient(ABC):
    """A producer that is ready to begin a transaction when it is made, and reads as a member of a group once it has joined one."""

    def __init__(self, bootstrap: str, transactional_id: str, *, timeout_ms: int = 30_000) -> None:
        self.bootstrap, self.transactional_id, self.timeout_ms = bootstrap, transactional_id, timeout_ms
        self._positions: dict[int, int] = {}

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction."""

    @abstractmethod
    def send(self, topic: str, partition: int, value: bytes) -> None:
        """Hand over a record of the transaction."""

    @abstractmethod
    def flush(self) -> None:
        """Wait until everything that was handed over is delivered, or has failed."""

    @abstractmethod
    def commit(self) -> None:
        """Commit."""

    @abstractmethod
    def abort(self) -> None:
        """Abort."""

    @abstractmethod
    def close(self) -> None:
        """Disconnect, without a word about the transaction."""

    @abstractmethod
    def join(self, topic: str, group_id: str) -> None:
        """Read a topic as a member of a group, only what is committed."""

    @abstractmethod
    def poll(self) -> list[Read]:
        """What came in, if anything did."""

    @abstractmethod
    def send_offsets(self) -> None:
        """Put up to where the last polls have read into the transaction, as the member that one was when it began."""

    @abstractmethod
    def rewind(self) -> None:
        """Go back to what the group has committed."""

    def _read(self, records: list[Read]) -> list[Read]:
        for record in records:
            self._positions[record.partition] = record.offset + 1
        return records

    def _taken_positions(self) -> dict[int, int]:
        taken, self._positions = self._positions, {}
        return taken


class Make(Protocol):
    """How a client is made."""

    def __call__(self, bootstrap: str, transactional_id: str, *, timeout_ms: int = 30_000) -> TransactionalClient:
        """One that is ready to begin. Raises Fenced and Aborted."""
        ...
