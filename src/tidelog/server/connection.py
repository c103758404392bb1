"""One client's connection: frames in, answers out, in request order.

One request of a connection is served at a time, as in Kafka: a parked fetch holds back the requests behind it. That is what keeps pipelined
requests in order, and with idempotence makes five of them in flight safe. Produced batches that are appended and wait for their
acknowledgement hold back everything but further batches, which are appended behind them and answered after them (see `pipeline`). While a
request waits or the client does not read its answers, reading from the socket stops once enough is queued, so a connection never holds more
than its limits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Final, Protocol, cast

from tidelog.model import InvariantBroken
from tidelog.runtime import Address, Clock
from tidelog.server.dispatcher import Dispatcher
from tidelog.server.guard import Guard
from tidelog.server.intake import ConnectionLimits, Intake
from tidelog.server.pipeline import Frame, Pipeline, Place, Settling
from tidelog.server.refusals import ConnectionRefused, Refusal
from tidelog.wire.stream import FrameRefused

_SLICE_REQUESTS: Final = 64
_SLICE_MS: Final = 5


class ConnectionOwner(Protocol):
    """What a connection needs of the listener it lives in."""

    @property
    def name(self) -> str:
        """The listener's name, for answers that depend on it."""
        ...

    @property
    def is_serving(self) -> bool:
        """Whether requests are answered yet; before that they queue up, within the limits."""
        ...

    @property
    def clock(self) -> Clock:
        """Time, for idleness."""
        ...

    @property
    def guard(self) -> Guard:
        """What the listeners of the broker share."""
        ...

    def spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run work that ends with the listener at the latest."""
        ...

    def forget(self, connection: Connection) -> None:
        """The connection is over."""
        ...


class Connection(asyncio.Protocol):
    """The shell around one transport. Lives in the listener that accepted it."""

    def __init__(self, dispatcher: Dispatcher, limits: ConnectionLimits, owner: ConnectionOwner) -> None:
        self._dispatcher = dispatcher
        self._limits = limits
        self._owner = owner
        self._intake = Intake(limits, owner.guard.budget, owner.clock, self)
        self._transport: asyncio.Transport | None = None
        self._is_admitted = False  # From being let in to being lost or refused.
        self._pipeline = Pipeline()
        self._is_sending_due = False
        self._is_writable = True
        self._is_pump_due = False
        self._stalled_since_ms = 0.0
        self._active_ms = owner.clock.monotonic_ms()
        self._local = self._peer = Address("", 0)
        self._number = next(owner.guard.connection_numbers)

    # asyncio.Protocol: what the transport tells us.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember who talks to whom, and send away who is one too many."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports inherit from none of asyncio's.
        self._local = _address(transport.get_extra_info("sockname"))
        self._peer = _address(transport.get_extra_info("peername"))
        objection = self._owner.guard.admission.enter(self._peer.host)
        self._is_admitted = objection is None
        if objection is not None:
            self._refuse(Refusal.TOO_MANY, objection)
        elif self._owner.guard.budget.is_spent:
            # Soon, not now: uvloop begins to read after this, whatever was said about it.
            asyncio.get_running_loop().call_soon(self._intake.regulate_reading)

    def data_received(self, data: bytes) -> None:
        """Queue the frames that are complete and serve what can be served."""
        self._active_ms = self._owner.clock.monotonic_ms()
        if not self._is_admitted:
            return
        try:
            self._intake.feed(data)
        except FrameRefused as refused:
            self._refuse(Refusal.FRAME, str(refused))
            return
        self._pump()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the queue and stop waiting for anything on this client's behalf."""
        self._transport = None
        self._end()
        for task in self.waiting:
            task.cancel()
        self._owner.forget(self)

    def pause_writing(self) -> None:
        """The client does not read its answers: serve it nothing more until it does."""
        self._is_writable = False
        self._stalled_since_ms = self._owner.clock.monotonic_ms()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._is_writable = True
        self._pump()

    # What the listener asks.

    @property
    def waiting(self) -> list[asyncio.Task[None]]:
        """The requests whose answers are being waited for."""
        return self._pipeline.tasks

    def begin(self) -> None:
        """The listener serves from now on: answer what has queued up."""
        self._pump()

    def close_if_overdue(self, now_ms: float) -> bool:
        """Drop a client that was silent, or has not read its answers, for too long."""
        if not self._is_writable and now_ms - self._stalled_since_ms > self._limits.write_stall_ms_max:
            self._refuse(Refusal.SLOW_READER, "answers were not read in time")
            return True
        if self._intake.is_overdue(now_ms):
            self._refuse(Refusal.SLOW_SENDER, "a request was not finished in time")
            return True
        if self._pipeline.is_empty and now_ms - self._active_ms > self._limits.idle_ms_max:
            self.close()
            return True
        return False

    def close(self) -> None:
        """Hang up after what is already written has left."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Hang up at once."""
        if self._transport is not None:
            self._transport.abort()

    # Serving.

    def _pump(self) -> None:
        """Serve what has queued up, but not so much at once that other clients wait: a chunk may hold thousands of small requests."""
        until_ms = self._owner.clock.monotonic_ms() + _SLICE_MS
        for _ in range(_SLICE_REQUESTS):
            frame = self._intake.take() if self._can_serve() else None
            if frame is None:
                break
            self._serve(frame)
            if self._owner.clock.monotonic_ms() > until_ms:
                break
        if self._is_admitted:
            self._intake.settle()
            if self._intake.has_queued and self._can_serve() and not self._is_pump_due:
                self._is_pump_due = True
                asyncio.get_running_loop().call_soon(self._pump_on)

    def _pump_on(self) -> None:
        self._is_pump_due = False
        self._pump()

    def _can_serve(self) -> bool:
        if not (self._is_writable and self._owner.is_serving and self._is_admitted):
            return False
        pipeline = self._pipeline
        return pipeline.is_empty or (pipeline.takes_settling and self._intake.is_produce_next)

    def _serve(self, frame: bytearray) -> None:
        try:
            answer = self._dispatcher.dispatch(frame, self._owner.name, self._local, self._peer, self._number)
        except ConnectionRefused as refused:
            self._refuse(refused.kind, str(refused))
            return
        except Exception as bug:  # noqa: BLE001  # see _blame
            self._blame(bug)
            return
        if answer is None:
            return
        if isinstance(answer, list):
            if self._pipeline.is_empty:
                self._write(answer)
            else:
                self._pipeline.enter(is_settling=True).answer(answer)
            return
        place = self._pipeline.enter(is_settling=isinstance(answer, Settling))
        later = answer.answer if isinstance(answer, Settling) else answer
        place.task = self._owner.spawn(self._await(place, later, self._intake.begin_waiting(frame)))

    async def _await(
        self, place: Place, answer: Awaitable[Frame | Settling[Frame | None] | None], held_bytes: int
    ) -> None:
        try:
            frame = await answer
            if isinstance(frame, Settling):
                place.is_settling = True
                self._pump()
                frame = await frame.answer
        except ConnectionRefused as refused:
            self._pipeline.leave(place)
            self._refuse(refused.kind, str(refused))
            return
        except Exception as bug:  # noqa: BLE001  # see _blame
            self._pipeline.leave(place)
            self._blame(bug)
            return
        finally:
            self._intake.end_waiting(held_bytes)
        place.answer(frame)
        if self._pipeline.has_unanswered:
            # Others that were woken with this one are about to be answered: what leaves together costs one write.
            if not self._is_sending_due:
                self._is_sending_due = True
                asyncio.get_running_loop().call_soon(self._send_due)
        else:
            self._send_due()

    def _send_due(self) -> None:
        """Write what may leave, and serve what could not be served before that."""
        self._is_sending_due = False
        due = self._pipeline.due()
        if due:
            self._write(due)
        self._active_ms = self._owner.clock.monotonic_ms()
        self._pump()

    def _write(self, frame: Frame) -> None:
        if self._transport is not None:
            self._transport.writelines(frame)

    # What the intake asks of its source.

    def pause(self) -> None:
        """Read no more for now."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def end_under_pressure(self) -> None:
        """Hang up: what this connection holds is needed."""
        self._refuse(Refusal.PRESSURE, "requests in work reached their bound (queued.max.request.bytes)")

    def _blame(self, bug: Exception) -> None:
        """A handler failed in a way nobody foresaw. One request must not end the node for all clients, so only its connection goes;

        a broken invariant, though, means that the node's own state cannot be trusted, and stops it.
        """
        if isinstance(bug, InvariantBroken):
            self._end()
            self._owner.spawn(_raise(bug))
        else:
            self._refuse(Refusal.BUG, repr(bug), bug)

    def _refuse(self, kind: Refusal, reason: str, bug: Exception | None = None) -> None:
        self._owner.guard.refusals.note(self._peer, kind, reason, bug)
        self._end()

    def _end(self) -> None:
        """Hang up at once and give back what is held; nothing that still arrives is looked at."""
        self.abort()
        self._intake.close()
        if self._is_admitted:
            self._is_admitted = False
            self._owner.guard.admission.leave(self._peer.host)


async def _raise(bug: InvariantBroken) -> None:
    raise bug


def _address(name: object) -> Address:
    return Address(str(name[0]), int(name[1])) if isinstance(name, tuple) and len(name) >= 2 else Address("", 0)
