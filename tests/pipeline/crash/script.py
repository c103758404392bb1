"""What befalls a process at a named point, told by files: a test does not start the processes in which Spark commits and writes.

A file in the directory of a query says what to do at a point. Whoever comes there first takes the file by renaming it, so it is done once,
over all attempts and all lives of the query.
"""

from __future__ import annotations

import enum
import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.cluster.waiting import eventually

PATIENCE_S: Final = 240  # for a test that gets several processes to where it wants them before it lets one go on
OUTLIVE_S: Final = 1_200  # longer than any test: whoever outlives its driver is let go last, or killed


class Act(enum.StrEnum):
    """What can be done at a point."""

    NOTE = "note"  # that somebody was here
    WAIT = "wait"  # until the test says go on
    OUTLIVE = "outlive"  # the same, and do not end with the daemon of Spark that this process was forked from
    DIE = "die"  # by SIGKILL, and at once
    DIE_SOON = "die soon"  # by an alarm that nobody handles, while the process goes on
    RAISE = "raise"
    RAISE_ALWAYS = "raise always"  # whoever comes, until it is cancelled


class Interrupted(Exception):
    """Raised where a script says so."""


@dataclass(frozen=True, slots=True)
class Script:
    """The script of one query. It can be pickled."""

    directory: Path

    def plan(self, point: str, act: Act, *, passes: int = 0, delay_ms: float = 0) -> None:
        """Let `act` happen when somebody comes to `point`, after so many have passed there unharmed."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for suffix in ("taken", "arrived", "go"):
            self._file(point, suffix).unlink(missing_ok=True)
        self._write(point, act, passes, delay_ms)

    def cancel(self, point: str) -> None:
        """Nothing happens there any more."""
        self._file(point, "do").unlink(missing_ok=True)

    def at(self, point: str) -> None:
        """Called by the processes of Spark."""
        file = self._file(point, "do")
        if not file.exists():
            return
        words = json.loads(file.read_text())
        if words["act"] == Act.RAISE_ALWAYS:
            raise Interrupted(f"as planned, at {point!r}")
        if words["passes"]:
            self._write(point, Act(words["act"]), words["passes"] - 1, words["delay_ms"])
            return
        try:
            file.rename(self._file(point, "taken"))
        except FileNotFoundError:
            return  # Somebody else was here first.
        self._do(point, Act(words["act"]), words["delay_ms"])

    def has_been_at(self, point: str) -> bool:
        """Whether what was planned has happened, or has begun to."""
        return self._file(point, "arrived").exists()

    def pid_at(self, point: str) -> int:
        """The process that has come there."""
        return int(self._file(point, "arrived").read_text())

    def go_on(self, point: str) -> None:
        """Let whoever waits there go on, or whoever comes there to wait."""
        self._file(point, "go").touch()

    def _write(self, point: str, act: Act, passes: int, delay_ms: float) -> None:
        draft = self._file(point, "draft")
        draft.write_text(json.dumps({"act": act, "passes": passes, "delay_ms": delay_ms}))
        draft.rename(self._file(point, "do"))

    def _do(self, point: str, act: Act, delay_ms: float) -> None:
        if act is Act.OUTLIVE:  # before anybody hears that we are here, and kills the daemon
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        draft = self._file(point, "arriving")
        draft.write_text(str(os.getpid()))
        draft.rename(self._file(point, "arrived"))
        match act:
            case Act.NOTE:
                pass
            case Act.DIE:
                os.kill(os.getpid(), signal.SIGKILL)
            case Act.DIE_SOON:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.setitimer(signal.ITIMER_REAL, delay_ms / 1000)
            case Act.RAISE | Act.RAISE_ALWAYS:
                raise Interrupted(f"as planned, at {point!r}")
            case Act.OUTLIVE:
                self._wait(point, OUTLIVE_S)
            case Act.WAIT:
                self._wait(point, PATIENCE_S)

    def _wait(self, point: str, timeout_s: float) -> None:
        eventually(self._file(point, "go").exists, f"the test lets go at {point!r}", timeout_s=timeout_s)

    def _file(self, point: str, suffix: str) -> Path:
        return self.directory / f"{point.replace(' ', '-')}.{suffix}"
