"""The programs of a demo: each in a session of its own, ended with everything it started, and gone when we are.

A session of its own keeps Ctrl-C from reaching a program before we have decided what shall end first, and tells apart, among all processes
of the machine, those that a program started: whatever they did to their process groups, the session is inherited.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Self

from tidelog.runtime.real_child import die_with

_LINE_BYTES_MAX: Final = 1 << 20
_REMEMBERED_LINES: Final = 20
_GONE_WITHIN_S: Final = 5.0
_LOOK_AGAIN_S: Final = 0.05
_PROC: Final = Path("/proc")


class DemoFailed(Exception):
    """A demo cannot go on; the message is for its user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process of the machine, as the kernel tells of it."""

    pid: int
    parent: int
    name: str
    command: tuple[str, ...]


class Program:
    """A program that was started, its lines, and its end."""

    def __init__(
        self, process: subprocess.Popen[bytes], output: asyncio.StreamReader, pipe: asyncio.ReadTransport
    ) -> None:
        self._process = process
        self._output = output
        self._pipe = pipe
        self.last_lines: deque[str] = deque(maxlen=_REMEMBERED_LINES)

    @classmethod
    async def start(cls, command: Sequence[str], *, log: Path | None = None) -> Self:
        """Start it. What it says on stderr is appended to `log`, or else said among its lines."""
        process = _spawned(command, log)
        output = asyncio.StreamReader(limit=_LINE_BYTES_MAX)
        try:
            pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(output), process.stdout
            )
        except asyncio.CancelledError:  # between its start and the moment from which on somebody would end it
            process.kill()
            process.wait()
            raise
        return cls(process, output, pipe)

    @property
    def pid(self) -> int:
        """Its process id, which is also that of its session."""
        return self._process.pid

    async def lines(self) -> AsyncIterator[str]:
        """What it says, line by line, until nobody has its output any more: neither it nor anyone it started."""
        while line := await self._output.readline():
            text = line.decode(errors="replace").rstrip("\n")
            self.last_lines.append(text)
            yield text

    async def ended(self) -> int:
        """Wait for its end; the exit code, negative for a signal. What it started may still be there."""
        while (code := self._process.poll()) is None:  # noqa: ASYNC110  # as often as it takes; a watcher would hold more than it helps
            await asyncio.sleep(_LOOK_AGAIN_S)
        return code

    def close(self) -> None:
        """Hear no more of it."""
        self._pipe.close()

    def members(self) -> list[Process]:
        """All processes of its session that live, itself among them."""
        return session_members(self.pid)

    def kill(self) -> None:
        """SIGKILL for it and all it started, at once."""
        for member in self.members():
            kill(member.pid)

    async def stop(self, *, within_s: float) -> None:
        """Ask it to end, insist when it does not within the time, and see that nothing it started is left."""
        try:
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGTERM)
                with suppress(TimeoutError):
                    async with asyncio.timeout(within_s):
                        await self.ended()
                        await self._until_alone()
        finally:
            self.kill()
            self.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_GONE_WITHIN_S):
                await self.ended()
                await self._until_alone()

    async def _until_alone(self) -> None:
        """Wait for those it left behind: they end by themselves when their parent has."""
        while self.members():  # noqa: ASYNC110  # they are not our children: no event tells of their end
            await asyncio.sleep(_LOOK_AGAIN_S)


def kill(pid: int) -> bool:
    """SIGKILL; whether there was anybody."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def session_members(session: int) -> list[Process]:
    """The processes of a session that live, oldest first."""
    numbered = (directory for directory in _PROC.iterdir() if directory.name.isdigit())
    found = [process for directory in numbered if (process := _process(directory, session)) is not None]
    return sorted(found, key=lambda process: process.pid)


def _spawned(command: Sequence[str], log: Path | None) -> subprocess.Popen[bytes]:
    with (log or Path(os.devnull)).open("ab") as file:
        return subprocess.Popen(  # noqa: S603  # our own programs
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if log is None else file,
            start_new_session=True,
            preexec_fn=partial(die_with, os.getpid()),
        )


def _process(directory: Path, session: int) -> Process | None:
    """The process of a directory of /proc, if it is of the session, and no zombie."""
    try:
        before, _, after = (directory / "stat").read_text(errors="replace").rpartition(")")
        state, parent, _group, of_session, *_ = after.split()
        if int(of_session) != session or state in {"Z", "X"}:
            return None
        command = (directory / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except (OSError, ValueError):
        return None  # It ended while we looked.
    return Process(pid=int(directory.name), parent=int(parent), name=before.partition("(")[2], command=tuple(command))
