"""Requests and answers on the wire, seen one by one: to stop the messages of a kind and let them go singly.

Reads only what every Kafka message begins with (size, API key, correlation id), and only messages that fit into one segment. A message
that is stopped stops what its connection sends after it, as TCP keeps the order.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tidelog.simulation.transport import Segment, SimulatedTransport

_SIZE: Final = struct.Struct(">i")
_REQUEST: Final = struct.Struct(">ihhi")  # size, API key, version, correlation id
_ANSWER: Final = struct.Struct(">ii")  # size, correlation id


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Which messages: requests of an API that a host sends, or the answers to them that it is to get."""

    host: str
    api_key: int
    is_answer: bool


@dataclass(slots=True)
class Gate:
    """A place where the messages of one kind are stopped; what follows them on their connections waits as well."""

    kind: Kind
    stopped: list[tuple[SimulatedTransport, Segment]] = field(default_factory=list)

    @property
    def is_blocking(self) -> bool:
        """Whether a message waits here."""
        self.drop_dead()
        return bool(self.stopped)

    def drop_dead(self) -> None:
        """Forget what waits on connections that have ended meanwhile: nobody would read it."""
        self.stopped = [
            (sender, message) for sender, message in self.stopped if not (sender.is_gone or sender.peer.is_gone)
        ]

    def holds_back(self, sender: SimulatedTransport) -> bool:
        """Whether something this end sent before waits here."""
        return any(waiting is sender for waiting, _ in self.stopped)


class Messages:
    """Looks at every segment before the fabric carries it."""

    def __init__(self, carry: Callable[[SimulatedTransport, Segment], None]) -> None:
        self._carry = carry
        self._gates: dict[Kind, Gate] = {}
        self._asked: dict[SimulatedTransport, dict[int, int]] = {}  # which API each unanswered request was for

    def take(self, sender: SimulatedTransport, segment: Segment) -> None:
        """A segment wants to travel: on it goes, or it waits at a gate."""
        for message in _split(segment):
            gate = self._gate_for(sender, message)
            if gate is None:
                self._carry(sender, message)
            else:
                gate.stopped.append((sender, message))

    def hold(self, kind: Kind) -> Gate:
        """From now on messages of this kind wait."""
        return self._gates.setdefault(kind, Gate(kind))

    def step(self, gate: Gate) -> None:
        """The oldest message goes on."""
        if gate.is_blocking:
            sender, message = gate.stopped.pop(0)
            self._carry(sender, message)

    def release(self, gate: Gate) -> None:
        """The gate is gone, and everything that waited goes on."""
        self._gates.pop(gate.kind, None)
        gate.drop_dead()
        stopped, gate.stopped = gate.stopped, []
        for sender, message in stopped:
            self._carry(sender, message)

    def forget(self, transport: SimulatedTransport) -> None:
        """A connection is lost with all that was under way on it."""
        self._asked.pop(transport, None)
        for gate in self._gates.values():
            gate.stopped = [(sender, message) for sender, message in gate.stopped if sender is not transport]

    def _gate_for(self, sender: SimulatedTransport, message: Segment) -> Gate | None:
        kind = self._kind(sender, message)
        for gate in self._gates.values():
            if gate.holds_back(sender):
                return gate
        return None if kind is None else self._gates.get(kind)

    def _kind(self, sender: SimulatedTransport, message: Segment) -> Kind | None:
        if not isinstance(message, bytes) or len(message) < _ANSWER.size:
            return None
        if sender.is_client:
            if len(message) < _REQUEST.size:
                return None
            _, api_key, _, correlation_id = _REQUEST.unpack_from(message)
            self._asked.setdefault(sender, {})[correlation_id] = api_key
            return Kind(host=sender.host.name, api_key=api_key, is_answer=False)
        _, correlation_id = _ANSWER.unpack_from(message)
        answered = self._asked.get(sender.peer, {}).pop(correlation_id, None)
        return None if answered is None else Kind(host=sender.peer.host.name, api_key=answered, is_answer=True)


def _split(segment: Segment) -> list[Segment]:
    """The messages of a segment that holds whole ones; any other as it is."""
    if not isinstance(segment, bytes):
        return [segment]
    messages: list[Segment] = []
    position = 0
    while position + _SIZE.size <= len(segment):
        end = position + _SIZE.size + _SIZE.unpack_from(segment, position)[0]
        if not position < end <= len(segment):
            return [segment]
        messages.append(segment[position:end])
        position = end
    return messages if position == len(segment) else [segment]
