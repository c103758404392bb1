"""Who listens on a port of this machine, as far as /proc shows it to us."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_LISTENING: Final = "0A"
_COMMAND_SHOWN: Final = 80


class Holder(NamedTuple):
    """A process that holds a port."""

    pid: int
    command: str

    def __str__(self) -> str:
        return f"process {self.pid}: {self.command}"


def port_holder(port: int, *, proc: Path = Path("/proc")) -> Holder | None:
    """The process that listens on a TCP port; None where there is none, or where we may not look."""
    inodes = {f"socket:[{inode}]" for inode in _listening_inodes(port, proc)}
    if not inodes:
        return None
    for process in _processes(proc):
        if _holds(process, inodes):
            return Holder(int(process.name), command_of(process))
    return None


def _listening_inodes(port: int, proc: Path) -> Iterator[str]:
    """The sockets of /proc/net/tcp and tcp6 that listen on the port."""
    for table in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for columns in map(str.split, lines):
            local, state, inode = columns[1], columns[3], columns[9]
            if state == _LISTENING and int(local.rpartition(":")[2], 16) == port:
                yield inode


def _processes(proc: Path) -> Iterator[Path]:
    try:
        yield from sorted(each for each in proc.iterdir() if each.name.isdigit())
    except OSError:
        return


def _holds(process: Path, inodes: set[str]) -> bool:
    try:
        return any(_target(file) in inodes for file in (process / "fd").iterdir())
    except OSError:  # another user's, or gone meanwhile
        return False


def _target(file: Path) -> str:
    try:
        return os.readlink(file)
    except OSError:
        return ""


def command_of(process: Path) -> str:
    """The command line of a process in /proc, shortened."""
    shown = " ".join(words_of(process)) or "?"
    return shown if len(shown) <= _COMMAND_SHOWN else shown[:_COMMAND_SHOWN] + "..."


def words_of(process: Path) -> list[str]:
    """The whole of it; [] for one that is gone, or is another user's."""
    try:
        return (process / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except OSError:
        return []
