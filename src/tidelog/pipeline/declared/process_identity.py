"""Which process it was, so that another one that got its number later is never taken for it, let alone sent a signal."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_BOOT: Final = Path("sys/kernel/random/boot_id")
_STATE, _STARTED = (
    0,
    19,
)  # fields of /proc/PID/stat behind the name, which may hold anything: state, and start in ticks since boot
_DEAD: Final = {"Z", "X"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """A process of this machine: its number, when it started, and since which boot that is counted."""

    pid: int
    started_ticks: int
    boot: str

    def is_alive(self, *, proc: Path = _PROC) -> bool:
        """Whether this very process lives."""
        return identity_of(self.pid, proc=proc) == self


def own_identity() -> ProcessIdentity:
    """This process. Raises OSError where there is no /proc."""
    found = identity_of(os.getpid())
    if found is None:
        raise OSError("/proc does not tell of this process")
    return found


def identity_of(pid: int, *, proc: Path = _PROC) -> ProcessIdentity | None:
    """The process with this number, if one lives."""
    try:
        words = (proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        boot = (proc / _BOOT).read_text().strip()
        if words[_STATE] in _DEAD:
            return None
        return ProcessIdentity(pid=pid, started_ticks=int(words[_STARTED]), boot=boot)
    except (OSError, IndexError, ValueError):
        return None
