"""Who holds a lock on a file of this machine, as far as /proc shows it to us."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Final

from tidelog.cli.port_holder import Holder, command_of

_COLUMNS: Final = 8  # 1: FLOCK ADVISORY WRITE <pid> <major:minor:inode> 0 EOF


def lock_holder(path: Path, *, kinds: Collection[str] = ("FLOCK",), proc: Path = Path("/proc")) -> Holder | None:
    """The process that holds a lock on a file; None where nobody does, or where we may not look.

    Our brokers take an flock; those of Apache Kafka, as all Java programs, a lock of the kind POSIX.
    """
    try:
        status = path.stat()
        lines = (proc / "locks").read_text().splitlines()
    except OSError:
        return None
    for columns in map(str.split, lines):
        if len(columns) != _COLUMNS or columns[1] not in kinds:
            continue
        pid, file = columns[4:6]
        if _names(file, status) and int(pid) > 0:  # a holder in another container has no number here
            return Holder(int(pid), command_of(proc / pid))
    return None


def _names(file: str, status: os.stat_result) -> bool:
    """Whether `major:minor:inode` is this file; where a file system has no device of its own (major 0), the inode must do."""
    major, minor, inode = file.split(":")
    device = (int(major, 16), int(minor, 16))
    is_same_device = device == (os.major(status.st_dev), os.minor(status.st_dev)) or device[0] == 0
    return is_same_device and int(inode) == status.st_ino
