"""Real processes for the tests: a Tidelog broker, a cluster of them, and anything else that is started, awaited and ended.

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

from tidelog.testing.ports import free_ports

START_TIMEOUT_S: Final = 60
STOP_TIMEOUT_S: Final = 60
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
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        has_input: bool = False,
        transcript: Path | None = None,
    ) -> None:
        self.command = list(command)
        self._transcript = transcript
        self._is_asked_to_stop = False
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

    def ask_to_stop(self) -> None:
        """SIGTERM, once: some take a second one for impatience."""
        if not self._is_asked_to_stop and self.process.poll() is None:
            self._is_asked_to_stop = True
            self.process.send_signal(signal.SIGTERM)

    def stop(self, *, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Ask it to end (SIGTERM), insist after `timeout_s` (SIGKILL), and return its exit code."""
        self.ask_to_stop()
        if self.process.poll() is None:
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
        with (self._transcript or Path(os.devnull)).open("a", encoding="utf-8") as transcript:
            for line in output:
                transcript.write(line)
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


class TidelogUp(RunningProcess):
    """`tidelog up --brokers N`: brokers that their parent starts again. They are numbered from 1."""

    def __init__(self, data: Path, *options: str, broker_count: int = 3, port: int = 0) -> None:
        self.data = data
        self.broker_count = broker_count
        up = ["up", "--brokers", str(broker_count), "--port", str(port), "--data", str(data)]
        super().__init__([sys.executable, "-m", "tidelog", *up, *options])
        try:
            self.bootstrap = self.wait_for(r"^ready bootstrap=(\S+)$")[1]
        except ProcessFailed:
            self.kill()
            raise

    @property
    def pids(self) -> dict[int, int]:
        """The process of each broker that lives, by its id."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        names = {int(pid): _name_of(int(pid)) for pid in children}
        return {int(name.removeprefix("tidelog-")): pid for pid, name in names.items() if name.startswith("tidelog-")}

    def signal_broker(self, broker_id: int, number: signal.Signals) -> None:
        """Send a signal to one broker: SIGKILL, SIGSTOP, SIGCONT."""
        os.kill(self.pids[broker_id], number)

    def wait_for_return(self, broker_id: int) -> None:
        """Wait until a broker that died serves again."""
        self.wait_for(rf"broker {broker_id} serves again")


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


class TidelogCluster:
    """N `tidelog broker` processes with fixed ports and one registry, started again only when told to. They are numbered from 1.

    `ports` are where clients reach them, `own` settings of single brokers, which win over those of all. Use it as a context manager:
    leaving it ends them all.
    """

    def __init__(
        self,
        data: Path,
        properties: Mapping[str, str] | None = None,
        *,
        broker_count: int = 3,
        ports: Mapping[int, int] | None = None,
        own: Mapping[int, Mapping[str, str]] | None = None,
    ) -> None:
        self.data = data
        self._own = own or {}
        data.mkdir(parents=True, exist_ok=True)
        self.ports = dict(ports or enumerate(free_ports(broker_count), 1))
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in self.ports.values())
        self._properties = {
            "default.replication.factor": str(min(broker_count, 3)),
            "min.insync.replicas": "2" if broker_count > 2 else "1",
            **(properties or {}),
        }
        self._processes: dict[int, RunningProcess] = {}
        self._stopped: set[int] = set()
        try:
            for broker_id in self.ports:
                self._launch(broker_id)
            for broker_id in self.ports:
                self.wait_ready(broker_id)
        except ProcessFailed:
            self.kill_all()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop_all()

    @property
    def pids(self) -> dict[int, int]:
        """The process of each broker that lives, by its id."""
        alive = {key: each for key, each in self._processes.items() if each.process.poll() is None}
        return {broker_id: process.pid for broker_id, process in alive.items()}

    def log_dir(self, broker_id: int) -> Path:
        """Where a broker keeps its partitions."""
        return self.data / f"broker-{broker_id}"

    def output(self, broker_id: int) -> str:
        """The last lines of a broker's log, since it was last started."""
        return self._processes[broker_id].output

    def transcript(self, broker_id: int) -> Path:
        """Everything a broker ever said, over all its starts; complete once it has ended."""
        return self.data / f"broker-{broker_id}.log"

    def wait_ready(self, broker_id: int) -> None:
        """Wait until a broker that was started serves."""
        self._processes[broker_id].wait_for("^ready bootstrap=")

    def wait_for(self, broker_id: int, pattern: str, *, timeout_s: float = START_TIMEOUT_S) -> re.Match[str]:
        """The next line of a broker's log that matches."""
        return self._processes[broker_id].wait_for(pattern, timeout_s=timeout_s)

    def kill(self, broker_id: int) -> None:
        """SIGKILL: the process is gone at once, what the page cache has stays."""
        self._stopped.discard(broker_id)
        self._processes[broker_id].kill()

    def stop(self, broker_id: int) -> None:
        """SIGSTOP: alive, and silent until `cont`."""
        os.kill(self._processes[broker_id].pid, signal.SIGSTOP)
        self._stopped.add(broker_id)

    def cont(self, broker_id: int) -> None:
        """SIGCONT: on with what it was doing, as if no time had passed."""
        self._stopped.discard(broker_id)
        os.kill(self._processes[broker_id].pid, signal.SIGCONT)

    def shut_down(self, broker_id: int) -> int:
        """SIGTERM: a clean stop; the exit code."""
        return self._processes[broker_id].stop()

    def restart(self, *broker_ids: int) -> None:
        """Start brokers again that were killed or shut down, with their ports and their data, and wait until they serve."""
        for broker_id in broker_ids:
            self._launch(broker_id)
        for broker_id in broker_ids:
            self.wait_ready(broker_id)

    def stop_all(self) -> dict[int, int]:
        """End all brokers, in parallel; their exit codes."""
        for broker_id in sorted(self._stopped & set(self.pids)):
            self.cont(broker_id)
        for process in self._processes.values():
            process.ask_to_stop()
        return {broker_id: process.stop() for broker_id, process in self._processes.items()}

    def kill_all(self) -> None:
        """SIGKILL for all of them, at once."""
        for pid in self.pids.values():
            os.kill(pid, signal.SIGKILL)
        for process in self._processes.values():
            process.kill()
        self._stopped.clear()

    def _launch(self, broker_id: int) -> None:
        properties = {
            **self._properties,
            "node.id": str(broker_id),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[broker_id]}",
            "log.dirs": str(self.log_dir(broker_id)),
            **self._own.get(broker_id, {}),
        }
        properties.setdefault("tidelog.registry.path", str(self.data / "registry.sqlite"))
        file = self.data / f"broker-{broker_id}.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        self._processes[broker_id] = RunningProcess(
            [sys.executable, "-m", "tidelog", "broker", "--config", str(file)], transcript=self.transcript(broker_id)
        )
