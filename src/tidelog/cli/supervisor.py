"""The parent of the brokers of `tidelog up --brokers N`: starts them, passes on what they say, starts again whoever dies, ends all.

One thread and no event loop, so that a broker can be forked from it at any time. It waits in one place, for what the
children write, for signals, and for the next thing that is due.
"""

from __future__ import annotations

import os
import selectors
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

from tidelog.cli.failure import EXIT_FAILED, EXIT_OK
from tidelog.cli.forked import STOP_WITH_EVERYBODY, Forked
from tidelog.cli.lines import Lines
from tidelog.cli.restarts import Restarts
from tidelog.runtime.clock import Clock

READY: Final = "ready bootstrap="
METRICS: Final = " metrics="  # follows the address, between a broker and its parent
STOP_WITHIN_MS: Final = 4_000  # a broker bounds its own goodbye; this is for one that cannot
TOGETHER_WITHIN_MS: Final = 10_000
_ASK_AGAIN_MS: Final = 20
_READ_BYTES: Final = 1 << 20  # more than a pipe holds
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Launch = Callable[[int, str | None], Forked]
"""Starts a broker by its id; the second argument is the address it had before, which it shall have again."""


class Voice(Protocol):
    """Tells the user what happens."""

    def ready(self, bootstrap: str, metrics: Sequence[str]) -> None:
        """All brokers serve, and know each other; their metrics are shown there."""
        ...

    def say(self, text: str) -> None:
        """Something happened to a broker."""
        ...

    def quote(self, broker_id: int, line: str) -> None:
        """A broker said this on its stderr."""
        ...


@dataclass(slots=True, kw_only=True)
class _Broker:
    broker_id: int
    child: Forked | None = None
    address: str | None = None  # once known, kept over restarts
    metrics: tuple[str, ...] = ()
    is_ready: bool = False
    start_again_ms: float | None = None
    restarts: Restarts = field(default_factory=Restarts)
    said: Lines = field(default_factory=Lines)
    complained: Lines = field(default_factory=Lines)


class Supervisor:
    """Runs brokers until a signal. `is_together` says whether the brokers at these addresses know each other."""

    def __init__(
        self,
        broker_ids: Sequence[int],
        launch: Launch,
        voice: Voice,
        clock: Clock,
        *,
        is_together: Callable[[Sequence[str]], bool],
        is_restarting: bool = True,
    ) -> None:
        self._brokers = [_Broker(broker_id=broker_id) for broker_id in broker_ids]
        self._launch = launch
        self._voice = voice
        self._clock = clock
        self._is_together = is_together
        self._is_restarting = is_restarting
        self._selector = selectors.DefaultSelector()
        self._signal_count = 0
        self._is_announced = False
        self._announce_before_ms: float | None = None
        self._stop_before_ms: float | None = None
        self._exit_code = EXIT_OK

    def run(self) -> int:
        """Start all brokers, look after them until a signal or until there is nobody left, and return the exit code."""
        with self._signals_heard():
            try:
                for broker in self._brokers:
                    self._start(broker)
                while any(broker.child or broker.start_again_ms is not None for broker in self._brokers):
                    self._wait()
                    self._heed_signals()
                    self._reap()
                    self._start_those_due()
                    self._announce_if_ready()
                    self._end_those_late()
            finally:
                self._kill_all()
                self._selector.close()
        return self._exit_code

    # --- signals ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _signals_heard(self) -> Iterator[None]:
        """Have signals counted, and each of them end the wait."""
        reading, writing = os.pipe()
        for end in (reading, writing):
            os.set_blocking(end, False)
        self._selector.register(reading, selectors.EVENT_READ)
        heard = [number for number in _SIGNALS if number != signal.SIGHUP or not _is_ignored(number)]
        before = {number: signal.signal(number, self._on_signal) for number in heard}
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(reading)
            os.close(writing)

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._signal_count += 1

    def _heed_signals(self) -> None:
        if self._signal_count and self._stop_before_ms is None:
            self._stop_all()
        elif self._signal_count > 1:
            self._signal_count = 1
            self._exit_code = EXIT_FAILED
            self._voice.say("stopped at once by a second signal; the next start recovers")
            self._send_all(signal.SIGKILL)

    # --- waiting ----------------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Wait for words, signals or the next thing due, and take the words."""
        due = [broker.start_again_ms for broker in self._brokers] + [self._stop_before_ms]
        if self._announce_before_ms is not None:
            due.append(self._clock.monotonic_ms() + _ASK_AGAIN_MS)
        moments = [each for each in due if each is not None]
        timeout_s = max(0.0, min(moments) - self._clock.monotonic_ms()) / 1000 if moments else None
        for key, _ in self._selector.select(timeout_s):
            if isinstance(key.data, _Broker):
                self._hear(key.data)
            else:
                _read(key.fd)

    def _hear(self, broker: _Broker) -> None:
        """Take what a broker has written so far."""
        if broker.child is None:
            return
        for line in broker.complained.feed(self._taken(broker.child.stderr)):
            self._voice.quote(broker.broker_id, line)
        for line in broker.said.feed(self._taken(broker.child.stdout)):
            if line.startswith(READY):
                address, _, metrics = line.removeprefix(READY).partition(METRICS)
                broker.metrics = tuple(filter(None, metrics.split(",")))
                self._on_ready(broker, address)

    def _taken(self, descriptor: int) -> bytes:
        """All that is there; a descriptor at its end is no longer waited for."""
        content = _read(descriptor)
        if content is None:
            if descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)
            return b""
        return content

    # --- a broker's life ----------------------------------------------------------------------------------------------

    def _start(self, broker: _Broker) -> None:
        broker.start_again_ms = None
        broker.is_ready = False
        broker.said, broker.complained = Lines(), Lines()
        broker.child = self._launch(broker.broker_id, broker.address)
        for descriptor in (broker.child.stdout, broker.child.stderr):
            self._selector.register(descriptor, selectors.EVENT_READ, broker)

    def _on_ready(self, broker: _Broker, address: str) -> None:
        broker.is_ready = True
        broker.address = address
        broker.restarts.on_ready(self._clock.monotonic_ms())
        if self._is_announced and broker.child is not None:
            self._voice.say(f"broker {broker.broker_id} serves again at {address} (process {broker.child.pid})")

    def _announce_if_ready(self) -> None:
        if self._is_announced or self._stop_before_ms is not None:
            return
        if not all(broker.is_ready for broker in self._brokers):
            return
        now_ms = self._clock.monotonic_ms()
        if self._announce_before_ms is None:
            self._announce_before_ms = now_ms + TOGETHER_WITHIN_MS
        addresses = [broker.address or "" for broker in self._brokers]
        is_late = now_ms >= self._announce_before_ms
        if not is_late and not self._is_together(addresses):
            return
        if is_late:
            self._voice.say("all brokers serve, but not all of them know each other yet")
        self._is_announced = True
        self._announce_before_ms = None
        self._voice.ready(",".join(addresses), [url for broker in self._brokers for url in broker.metrics])

    def _reap(self) -> None:
        """Notice who has died."""
        for broker in self._brokers:
            if broker.child is None:
                continue
            pid, status = os.waitpid(broker.child.pid, os.WNOHANG)
            if pid:
                self._hear(broker)
                self._forget(broker)
                self._on_death(broker, os.waitstatus_to_exitcode(status))

    def _forget(self, broker: _Broker) -> None:
        if broker.child is None:
            return
        for descriptor in (broker.child.stdout, broker.child.stderr):
            if descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)
        for line in broker.complained.rest():
            self._voice.quote(broker.broker_id, line)
        broker.child.close()
        broker.child = None

    def _on_death(self, broker: _Broker, code: int) -> None:
        if self._stop_before_ms is not None:
            self._exit_code = self._exit_code or (EXIT_OK if code == EXIT_OK else EXIT_FAILED)
            return
        what = f"broker {broker.broker_id} {described(code)}"
        if not self._is_announced:
            # It has said why, or was killed; the cluster that was asked for will not be.
            self._exit_code = code if code > 0 else EXIT_FAILED
            self._voice.say(f"{what} before all brokers were ready; the others are stopped")
            self._stop_all()
        elif self._is_restarting:
            pause_ms = broker.restarts.on_death(self._clock.monotonic_ms())
            broker.start_again_ms = self._clock.monotonic_ms() + pause_ms
            self._voice.say(f"{what}, starting it again in {pause_ms // 1000} s")
        else:
            self._exit_code = EXIT_FAILED
            self._voice.say(f"{what} and is not started again")

    def _start_those_due(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for broker in self._brokers:
            if broker.start_again_ms is not None and now_ms >= broker.start_again_ms:
                self._start(broker)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _stop_all(self) -> None:
        """Ask everybody to leave; nobody is started again."""
        self._stop_before_ms = self._clock.monotonic_ms() + STOP_WITHIN_MS
        self._announce_before_ms = None
        for broker in self._brokers:
            broker.start_again_ms = None
        self._send_all(STOP_WITH_EVERYBODY)
        self._send_all(signal.SIGCONT)  # one that is stopped could not even leave

    def _end_those_late(self) -> None:
        if self._stop_before_ms is not None and self._clock.monotonic_ms() >= self._stop_before_ms:
            late = [str(broker.broker_id) for broker in self._brokers if broker.child]
            if late:
                self._voice.say(f"broker {', '.join(late)} did not stop in time and is ended; the next start recovers")
            self._kill_all()

    def _kill_all(self) -> None:
        self._send_all(signal.SIGKILL)
        for broker in self._brokers:
            if broker.child is not None:
                os.waitpid(broker.child.pid, 0)
                self._exit_code = EXIT_FAILED
                self._hear(broker)
                self._forget(broker)

    def _send_all(self, number: signal.Signals) -> None:
        for broker in self._brokers:
            if broker.child is not None:
                os.kill(broker.child.pid, number)


def described(code: int) -> str:
    """How a process ended, by its exit code; a negative one is the signal that killed it."""
    if code >= 0:
        return "stopped" if code == EXIT_OK else f"died (exit code {code})"
    try:
        return f"died (killed by {signal.Signals(-code).name})"
    except ValueError:
        return f"died (killed by signal {-code})"


def _is_ignored(number: signal.Signals) -> bool:
    """Whether whoever started us wants us not to hear it, as nohup does."""
    return signal.getsignal(number) is signal.SIG_IGN


def _read(descriptor: int) -> bytes | None:
    """What can be read now, up to a bound: nothing yet is empty, nothing ever again is None."""
    try:
        return os.read(descriptor, _READ_BYTES) or None
    except BlockingIOError:
        return b""
