"""Who holds a lock: ourselves, nobody, or somebody we may not look at."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from tidelog.cli.lock_holder import lock_holder


def test_the_process_that_holds_a_lock_is_named(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with path.open("w") as file:
        assert lock_holder(path) is None
        fcntl.flock(file, fcntl.LOCK_EX)
        holder = lock_holder(path)
    assert holder is not None
    assert holder.pid == os.getpid()
    assert lock_holder(path) is None


def test_a_file_that_is_not_there_is_held_by_nobody(tmp_path: Path) -> None:
    assert lock_holder(tmp_path / "none") is None


def test_a_machine_without_proc_names_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert lock_holder(tmp_path / "file", proc=tmp_path / "none") is None


def test_other_kinds_of_locks_and_holders_we_cannot_see_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    inode = (tmp_path / "file").stat().st_ino
    lines = [
        f"1: POSIX  ADVISORY  WRITE 77 00:01:{inode} 0 EOF",
        f"2: FLOCK  ADVISORY  WRITE 0 00:01:{inode} 0 EOF",
        f"2: -> FLOCK  ADVISORY  WRITE 78 00:01:{inode} 0 EOF",
        f"3: FLOCK  ADVISORY  WRITE 79 00:01:{inode + 1} 0 EOF",
    ]
    (tmp_path / "locks").write_text("\n".join(lines))
    assert lock_holder(tmp_path / "file", proc=tmp_path) is None


def test_a_lock_as_java_takes_it_counts_where_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    inode = (tmp_path / "file").stat().st_ino
    (tmp_path / "locks").write_text(f"1: POSIX  ADVISORY  WRITE 77 00:01:{inode} 0 EOF\n")
    holder = lock_holder(tmp_path / "file", kinds=("FLOCK", "POSIX"), proc=tmp_path)
    assert holder is not None
    assert holder.pid == 77
