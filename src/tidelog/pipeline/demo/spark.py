"""Keeps a Spark driver running: starts it, hears how its queries get on, and starts it again when it ends, as a cluster manager would."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tidelog.pipeline.demo import driver
from tidelog.pipeline.demo.processes import DemoFailed, Process, Program
from tidelog.runtime.clock import Clock

STOP_WITHIN_S: Final = 6.0
FRUITLESS_STARTS_MAX: Final = 4
_RATE_OVER_MS: Final = 5_000.0
_LOG_LINES_SHOWN: Final = 12
_LAST_WORDS_S: Final = 0.5

_WORKER: Final = "pyspark.worker"
_DAEMON: Final = "pyspark.daemon"
_COMMITTER: Final = "python_streaming_sink_runner"
_EXECUTOR: Final = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_JVM: Final = "org.apache.spark.deploy.SparkSubmit"


@dataclass(slots=True)
class QueryState:
    """How a query gets on, over all the drivers that ran it."""

    micro_batch_id: int = -1
    micro_batches: int = 0  # that were told of; of a driver that was killed the last one may be missing
    rows: int = 0
    duration_ms: float = 0
    watermark: str | None = None
    _recent: deque[tuple[float, int]] = field(default_factory=deque)  # when, and how many rows

    def on_progress(self, event: dict[str, object], now_ms: float) -> None:
        """A micro-batch has ended, or there was nothing to do."""
        rows, micro_batch_id = _whole(event.get("rows")), _whole(event.get("micro_batch_id"))
        self.micro_batches += micro_batch_id > self.micro_batch_id
        self.micro_batch_id = max(self.micro_batch_id, micro_batch_id)
        self.rows += rows
        self.duration_ms = _whole(event.get("duration_ms"))
        watermark = event.get("watermark")
        self.watermark = watermark if isinstance(watermark, str) else None
        self._recent.append((now_ms, rows))

    def rows_per_s(self, now_ms: float) -> float:
        """Rows of the last seconds, by the second."""
        while self._recent and self._recent[0][0] < now_ms - _RATE_OVER_MS:
            self._recent.popleft()
        return sum(rows for _, rows in self._recent) * 1000 / _RATE_OVER_MS


class SparkDriver:
    """A driver that is started again whenever it ends. `on_news` hears of its ends and its returns."""

    def __init__(self, command: Sequence[str], *, log: Path, clock: Clock, on_news: Callable[[str], None]) -> None:
        self._command = command
        self._log = log
        self._clock = clock
        self._on_news = on_news
        self._program: Program | None = None
        self._past: list[Program] = []  # of drivers that ended, as long as something they started lives
        self._fruitless_starts = 0
        self._reason = ""
        self.queries: dict[str, QueryState] = {}
        self.starts = 0
        self.is_ready = asyncio.Event()
        """Set from the first time on that a driver has started its queries."""
        self.has_progressed = asyncio.Event()
        """Set while a driver runs that has ended a micro-batch since its start."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[SparkDriver]:
        """Keep a driver running as long as the block lasts, then stop it. Raises DemoFailed when it never gets anywhere."""
        async with asyncio.TaskGroup() as tasks:
            keeping = tasks.create_task(self._keep(), name="keeps the Spark driver")
            try:
                yield self
            finally:
                keeping.cancel()
                for past in self._past:
                    past.kill()
                if self._program is not None:
                    await self._program.stop(within_s=STOP_WITHIN_S)

    @property
    def jvm(self) -> list[Process]:
        """The JVM of the driver."""
        return [member for member in self._members() if _JVM in member.command]

    @property
    def executors(self) -> list[list[Process]]:
        """Who does the tasks: executor JVMs; or, where the driver is its own executor, all of its Python workers together."""
        members = self._members()
        backends = [[member] for member in members if _EXECUTOR in member.command]
        workers = [each for each in _forked(members) if _WORKER in each.command]
        return backends or ([workers] if workers else [])

    @property
    def committers(self) -> list[list[Process]]:
        """The Python processes in which the driver commits, all of them together."""
        found = [each for each in _forked(self._members()) if any(_COMMITTER in word for word in each.command)]
        return [found] if found else []

    def kill_all(self) -> None:
        """SIGKILL for the driver and everything it started, as when its machine is lost."""
        self.on_kill()
        self.has_progressed.clear()
        if self._program is not None:
            self._program.kill()

    def on_kill(self) -> None:
        """Somebody is about to kill a part of it: its end is no sign of a fault."""
        self._fruitless_starts = 0

    async def _keep(self) -> None:
        while True:
            await self._run_once()
            if self._fruitless_starts >= FRUITLESS_STARTS_MAX:
                raise DemoFailed(
                    f"the Spark driver ended {FRUITLESS_STARTS_MAX} times without getting anywhere{self._why()}"
                )
            self._on_news("the Spark driver is started again")

    async def _run_once(self) -> None:
        """One life of a driver."""
        self.starts += 1
        self._fruitless_starts += 1
        self._reason = ""
        program = self._program = await Program.start(self._command, log=self._log)
        hearing = asyncio.create_task(self._hear(program), name="hears the Spark driver")
        try:
            code = await program.ended()
            # Its last words. There may be no end of them: whatever it started has the same output.
            await asyncio.wait({hearing}, timeout=_LAST_WORDS_S)
        finally:
            hearing.cancel()
        program.close()
        self.has_progressed.clear()
        # Python workers of a dead JVM end by themselves, and soon. The next driver does not wait for them: it must stand zombies.
        self._past = [past for past in (*self._past, program) if past.members()]
        how = "was killed" if code == -signal.SIGKILL else f"ended with exit code {code}"
        self._on_news(f"the Spark driver {how}{f': {self._reason}' if self._reason else ''}")

    async def _hear(self, program: Program) -> None:
        async for line in program.lines():
            self._on_line(line)

    def _on_line(self, line: str) -> None:
        if not line.startswith('{"event"'):
            return
        event = json.loads(line)
        match event["event"]:
            case driver.READY:
                self.is_ready.set()
                self._on_news(
                    f"the Spark driver runs its queries (process {self._program.pid if self._program else 0})"
                )
            case driver.PROGRESS:
                self._fruitless_starts = 0
                self.has_progressed.set()
                query = self.queries.setdefault(str(event["query"]), QueryState())
                query.on_progress(event, self._clock.monotonic_ms())
            case driver.FAILED:
                self._reason = str(event["reason"])

    def _members(self) -> list[Process]:
        return [] if self._program is None else self._program.members()

    def _why(self) -> str:
        """The reason it gave, or else the last words of its log."""
        if self._reason:
            return f": {self._reason}\n  its log is {self._log}"
        lines = self._log.read_text(errors="replace").splitlines()[-_LOG_LINES_SHOWN:]
        return "".join(f"\n  {line}" for line in lines) + f"\n  its log is {self._log}"


def _forked(members: list[Process]) -> list[Process]:
    """Those forked from one of Spark's Python daemons, which do the work; the daemon itself only forks."""
    daemons = {member.pid for member in members if _DAEMON in member.command}
    return [member for member in members if member.parent in daemons]


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
