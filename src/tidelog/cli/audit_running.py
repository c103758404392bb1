"""An audit on a Spark session of its own, which says nothing on the terminal; a bar tells how far it is."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO

from tidelog.cli.failure import CommandFailed, WrongUsage
from tidelog.pipeline.audit.running import AuditPlan, BeingWritten, audit
from tidelog.pipeline.segments.directories import DirectoryRefused
from tidelog.pipeline.session import spark_session
from tidelog.runtime.clock import Clock
from tidelog.runtime.real import RealClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidelog.pipeline.audit.report import Report

BAR_WIDTH: Final = 24
_ERASE: Final = "\r\x1b[K"
_STDERR: Final = 2


class Bar:
    """One line on a terminal that is drawn over: what is done, how much of it, for how long."""

    def __init__(self, out: TextIO, clock: Clock) -> None:
        self._out = out
        self._clock = clock
        self._started_ms = clock.monotonic_ms()

    def __call__(self, what: str, done: int, total: int) -> None:
        """So many tasks of so many are done."""
        part = done / total if total else 0.0
        drawn = "#" * int(part * BAR_WIDTH)
        seconds = (self._clock.monotonic_ms() - self._started_ms) / 1000
        self._out.write(f"{_ERASE}{what:<16} [{drawn:.<{BAR_WIDTH}}] {part:4.0%} {seconds:.0f} s")
        self._out.flush()

    def end(self) -> None:
        """Leave nothing behind: the report follows."""
        self._out.write(_ERASE)
        self._out.flush()


def audit_on_spark(plan: AuditPlan, *, master: str, is_quiet: bool) -> tuple[Report, float]:
    """The report, and how many seconds it took without the start of Spark. Raises CommandFailed, WrongUsage."""
    clock = RealClock()
    bar = Bar(sys.stderr, clock) if sys.stderr.isatty() and not is_quiet else None
    if bar is not None:
        bar("starting Spark", 0, 0)
    try:
        with _session(master) as session:
            started_ms = clock.monotonic_ms()
            report = _audited(session, plan, bar)
            return report, (clock.monotonic_ms() - started_ms) / 1000
    finally:
        if bar is not None:
            bar.end()


def _audited(session: SparkSession, plan: AuditPlan, bar: Bar | None) -> Report:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return audit(session, plan, bar)
    except DirectoryRefused as refused:
        raise WrongUsage(f"--data {refused}") from None
    except BeingWritten as written:
        raise WrongUsage(f"--data {written}") from None
    except (PySparkException, Py4JError) as failure:
        raise CommandFailed(f"Spark could not finish the audit: {_first_line(failure)}") from None


def _first_line(failure: Exception) -> str:
    lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
    return lines[0] if lines else type(failure).__name__


@contextmanager
def _session(master: str) -> Iterator[SparkSession]:
    """The session that is there already, or one of our own, stopped at the end. Raises CommandFailed."""
    from pyspark.sql import SparkSession

    present = SparkSession.getActiveSession()
    if present is not None:
        yield present
        return
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        with _silenced():
            session = spark_session("tidelog audit", master=master)
    except (PySparkException, Py4JError, RuntimeError) as failure:
        raise CommandFailed(f"Spark did not start on {master}: {_first_line(failure)}") from None
    try:
        session.sparkContext.setLogLevel("ERROR")
        yield session
    finally:
        session.stop()


@contextmanager
def _silenced() -> Iterator[None]:
    """What is started meanwhile keeps a stderr that nobody reads: Spark's Java writes warnings there that are none."""
    sys.stderr.flush()
    kept = os.dup(_STDERR)
    with tempfile.TemporaryFile() as nobodys:
        os.dup2(nobodys.fileno(), _STDERR)
        try:
            yield
        finally:
            os.dup2(kept, _STDERR)
            os.close(kept)
