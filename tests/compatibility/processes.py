"""Real processes for the tests: a Tidelog broker, an Apache Kafka broker, and anything else that is started, awaited and ended.

A process here is ready when it has said so on its output, is ended with a bound, and its last words are part of any error.
"""

from __future__ import annotations

import os
import queue
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final, Self

START_TIMEOUT_S: Final = 60
STOP_TIMEOUT_S: Final = 10
_REMEMBERED_LINES: Final = 200


class ProcessFailed(Exception):
    """A process ended, or stayed silent, before it said what was waited for."""


def wait_until_gone(*pids: int, timeout_s: float = STOP_TIMEOUT_S) -> None:
    """Wait until processes, not necessarily our children, have ended. Raises ProcessFailed."""
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            if not select.select([descriptor], [], [], timeout_s)[0]:
                raise ProcessFailed(f"process {pid} is still there after {timeout_s} s")
        finally:
            os.close(descriptor)


class RunningProcess:
    """A started program whose lines are read as they come. Use it as a context manager: leaving it ends the program."""

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str] | None = None, has_input: bool = False
    ) -> None:
        self.command = list(command)
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._last_lines: deque[str] = deque(maxlen=_REMEMBERED_LINES)
        self.started_s = time.monotonic()
        self.bootstrap = ""
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, **(environment or {})},
        )
        output = self.process.stdout
        if output is None:
            raise ProcessFailed("the process has no output to read")
        self._reader = threading.Thread(target=self._read, args=(output,), daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The process id, for those who measure or kill it."""
        return self.process.pid

    @property
    def output(self) -> str:
        """The last lines it wrote."""
        return "".join(self._last_lines)

    def write_line(self, line: str) -> None:
        """Hand it one line of input; it must have been started with `has_input`."""
        if self.process.stdin is None:
            raise ProcessFailed("the process was started without input")
        try:
            self.process.stdin.write(f"{line}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise ProcessFailed(f"ended before it read {line!r}\n{self._story()}") from None

    def wait_for(self, pattern: str, *, timeout_s: float = START_TIMEOUT_S) -> re.Match[str]:
        """The first line from now on that matches `pattern`. Raises ProcessFailed when the program ends or time runs out."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise ProcessFailed(f"no line matched {pattern!r} within {timeout_s} s\n{self._story()}") from None
            if line is None:
                raise ProcessFailed(f"ended before a line matched {pattern!r}\n{self._story()}")
            if match := re.search(pattern, line):
                return match

    def stop(self, *, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Ask it to end (SIGTERM), insist after `timeout_s` (SIGKILL), and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return self._ended()

    def kill(self) -> None:
        """End it with SIGKILL: no goodbye, no flush."""
        self.process.kill()
        self._ended()

    def _ended(self) -> int:
        code = self.process.wait(STOP_TIMEOUT_S)
        self._reader.join(STOP_TIMEOUT_S)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        return code

    def _read(self, output: IO[str]) -> None:
        for line in output:
            self._last_lines.append(line)
            self._lines.put(line)
        self._lines.put(None)

    def _story(self) -> str:
        return f"$ {' '.join(self.command)}\n{self.output}"


class TidelogProcess(RunningProcess):
    """`tidelog up` in a process of its own, ready to serve."""

    def __init__(self, data: Path, *options: str, port: int = 0) -> None:
        self.log_dir = data / "broker-1"
        command = [sys.executable, "-m", "tidelog", "up", "--port", str(port), "--data", str(data), *options]
        super().__init__(command)
        try:
            self.bootstrap = self.wait_for(r"^ready bootstrap=(\S+)$")[1]
        except ProcessFailed:
            self.kill()
            raise

    @property
    def port(self) -> int:
        """The port of the first broker."""
        return int(self.bootstrap.partition(",")[0].rpartition(":")[2])
