"""Drives a coordinator's machine by values: a log that commits at once, a clock that is moved, replies that are kept."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from tidelog.coordinator import (
    RING_AGAIN_MS,
    Client,
    Command,
    CoordinatorRecord,
    Decision,
    Machine,
    Moment,
    TimerKey,
    Token,
    Written,
)
from tidelog.model import ErrorCode, ProducerIdentity
from tidelog.wire.definition import Request, Response

WALL_MS = 1_700_000_000_000


class Driver:
    """Does what the service does, without waiting. `log` is what would be in the partition."""

    def __init__(self, make: Callable[[], Machine]) -> None:
        self._make = make
        self._tokens = itertools.count(1)
        self.monotonic_ms = 0.0
        self.log: list[CoordinatorRecord] = []
        self.replies: dict[Token, Response] = {}
        self.timers: dict[TimerKey, float] = {}
        self.waiting: dict[Token, Command] = {}
        self.errands: list[object] = []  # to be done elsewhere
        self.append_error: ErrorCode | None = None
        self.machine = make()
        self._take_over()

    @property
    def now(self) -> Moment:
        return Moment(WALL_MS + int(self.monotonic_ms), self.monotonic_ms)

    def send(
        self,
        request: Request[Any],
        *,
        version: int,
        client_id: str = "client",
        host: str = "/127.0.0.1",
        connection: int = 0,
    ) -> Token:
        """Ask; the answer may come later."""
        token = next(self._tokens)
        command = self.waiting[token] = Command(token, request, Client(client_id, host, version, connection))
        self._carry_out(self.machine.decide(command, self.now))
        return token

    def ask(self, request: Request[Any], *, version: int, client_id: str = "client", connection: int = 0) -> Any:
        """Ask, and be answered at once."""
        token = self.send(request, version=version, client_id=client_id, connection=connection)
        assert token in self.replies, "parked"
        return self.replies[token]

    def answer(self, token: Token) -> Any:
        """The answer to a request that was sent before."""
        assert token in self.replies, "still parked"
        return self.replies[token]

    def is_parked(self, token: Token) -> bool:
        return token in self.waiting

    def wait_ms(self, duration_ms: float) -> None:
        """Let time pass, ringing timers in order."""
        end_ms = self.monotonic_ms + duration_ms
        while self.timers:
            key, at_ms = min(self.timers.items(), key=lambda item: item[1])
            if at_ms > end_ms:
                break
            self.monotonic_ms = max(self.monotonic_ms, at_ms)
            del self.timers[key]
            if not self._carry_out(self.machine.on_timer(key, self.now)):
                self.timers[key] = self.monotonic_ms + RING_AGAIN_MS
        self.monotonic_ms = end_ms

    def topics_changed(self) -> None:
        self._carry_out(self.machine.on_topics_changed(self.now))

    def fail_over(self) -> None:
        """Another broker takes over: only the log is left. Whoever was parked hears NOT_COORDINATOR."""
        for token, command in list(self.waiting.items()):
            self._reply(token, self.machine.refusal(command, ErrorCode.NOT_COORDINATOR))
        self.timers.clear()
        self.errands.clear()
        self.machine = self._make()
        for offset, record in enumerate(self.log):
            self.machine.replay(record, Written(offset))
        self._take_over()

    def _take_over(self) -> None:
        for decision in self.machine.on_loaded(self.now):
            self._carry_out(decision)

    def _carry_out(self, decision: Decision) -> bool:
        if decision.records and self.append_error is not None:
            for reply in decision.replies:
                if reply.token in self.waiting:
                    refusal = self.machine.refusal(self.waiting[reply.token], self.append_error)
                    self._reply(reply.token, refusal)
            return False
        for record in decision.records:
            self.write(record, decision.producer)
        for change in decision.changes:
            self.machine.adopt(change)
        for key, at_ms in decision.timers:
            self.timers.pop(key, None)
            if at_ms is not None:
                self.timers[key] = at_ms
        self.errands.extend(decision.errands)
        for token, response in decision.replies:
            self._reply(token, response)
        return True

    def write(self, record: CoordinatorRecord, producer: ProducerIdentity | None = None) -> None:
        """Have something in the log, be it that somebody else wrote it."""
        self.machine.replay(record, Written(len(self.log), *(producer or ())))
        self.log.append(record)

    def _reply(self, token: Token, response: Response) -> None:
        if self.waiting.pop(token, None) is not None:
            self.replies[token] = response
