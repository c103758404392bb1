"""Child processes that run trials, one after another, each on a core of its own."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from types import TracebackType
from typing import IO, Final, Self

from tidelog.runtime.clock import Clock
from tidelog.simulation.run import plan_of
from tidelog.simulation.verdict import SIMULATOR, Trial, Verdict, Violation

TRIAL_WITHIN_MS: Final = 600_000  # of real time; a trial takes seconds
SECOND_WITHIN_MS: Final = 2_000  # and this much more for every simulated second
_READ_BYTES: Final = 1 << 16
_LAST_WORDS_BYTES: Final = 2_000


class Child:
    """A process that serves trials, and what it has said so far of the one it has."""

    def __init__(self, trial: Trial, clock: Clock) -> None:
        self._clock = clock
        self._said = bytearray()
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the child
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tidelog.simulation.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C is the parent's to hear; without a parent there are no more trials.
        )
        self.is_alive = True
        self.begin(trial)

    def fileno(self) -> int:
        """Where its verdicts come from."""
        return _opened(self._process.stdout).fileno()

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    @property
    def left_ms(self) -> float:
        """How long its trial may still take."""
        return max(self._deadline_ms - self._clock.monotonic_ms(), 0.0)

    def begin(self, trial: Trial) -> None:
        """Give it a trial."""
        self.trial = trial
        self._within_ms = TRIAL_WITHIN_MS + trial.seconds * SECOND_WITHIN_MS
        self._deadline_ms = self._clock.monotonic_ms() + self._within_ms
        stdin = _opened(self._process.stdin)
        try:
            stdin.write(json.dumps(trial.to_json()).encode() + b"\n")
            stdin.flush()
        except BrokenPipeError:
            return  # It died; reading from it will tell.

    def read(self) -> Verdict | None:
        """What it says, or that it died; None as long as the verdict is not there whole."""
        data = os.read(self.fileno(), _READ_BYTES)
        if not data:
            return self._died(f"the process of the trial ended with {self._process.wait()}")
        self._said += data
        if not self._said.endswith(b"\n"):
            return None
        verdict = Verdict.from_json(json.loads(self._said))
        self._said.clear()
        return verdict

    def expire(self) -> Verdict:
        """The verdict of a trial that does not come to an end."""
        return self._died(f"the trial did not end within {self._within_ms / 1000:.0f} s of real time")

    def close(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            try:
                _opened(pipe).close()
            except BrokenPipeError:
                continue  # Half a trial lay in the pipe to a child that had died.

    def _died(self, how: str) -> Verdict:
        self.is_alive = False
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(self._errors.tell() - _LAST_WORDS_BYTES, 0))
        words = self._errors.read().decode(errors="replace").strip()
        return Verdict(
            trial=self.trial,
            plan=plan_of(self.trial),
            violation=Violation(
                checker=SIMULATOR, sentence=f"{how}; its last words: {words}" if words else how, at_ms=0.0
            ),
        )


class Children:
    """As many as there are jobs, busy as long as there are trials. Leaving the `with` ends them."""

    def __init__(self, trials: Iterator[Trial], jobs: int, clock: Clock) -> None:
        self._trials = trials
        self._jobs = jobs
        self._clock = clock
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for child in self._busy():
            child.close()
        self._selector.close()

    def verdicts(self) -> Iterator[Verdict]:
        """Each as soon as it is there."""
        for trial in islice(self._trials, self._jobs):
            self._register(Child(trial, self._clock))
        while busy := self._busy():
            ready = [key.data for key, _ in self._selector.select(min(child.left_ms for child in busy) / 1000)]
            for child in ready or [child for child in busy if child.left_ms == 0]:
                verdict = child.read() if ready else child.expire()
                if verdict is not None:
                    self._go_on(child)
                    yield verdict

    def _busy(self) -> list[Child]:
        return [key.data for key in self._selector.get_map().values()]

    def _register(self, child: Child) -> None:
        self._selector.register(child, selectors.EVENT_READ, child)

    def _go_on(self, child: Child) -> None:
        """The next trial, for a new child if this one died."""
        trial = next(self._trials, None)
        if trial is not None and child.is_alive:
            child.begin(trial)
            return
        self._selector.unregister(child)
        child.close()
        if trial is not None:
            self._register(Child(trial, self._clock))


def _opened(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise ValueError("every pipe of a child is opened")
    return pipe
