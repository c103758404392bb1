"""What only the real disk can be asked: modes, symbolic links, other processes, and who dies with whom."""

from __future__ import annotations

import os
import pickle
import select
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog.runtime import DiskFull, StorageFailure
from tidelog.runtime.real import RealDisk


@pytest.fixture
def disk() -> Iterator[RealDisk]:
    opened = RealDisk()
    yield opened
    opened.close()


def test_files_and_directories_are_for_their_owner_only(disk: RealDisk, tmp_path: Path) -> None:
    disk.mkdir(f"{tmp_path}/a/b")
    disk.open(f"{tmp_path}/a/f", create=True).close()
    disk.replace(f"{tmp_path}/a/r", b"")
    held = disk.lock(f"{tmp_path}/a/.lock")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes == {"a": 0o700, "b": 0o700, "f": 0o600, "r": 0o600, ".lock": 0o600}
    assert held is not None
    held.release()


def test_a_symbolic_link_is_not_followed(disk: RealDisk, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "directory").symlink_to(tmp_path)
    for operation in (disk.open, disk.read, disk.lock):
        with pytest.raises(StorageFailure):
            operation(f"{tmp_path}/link")
    assert disk.exists(f"{tmp_path}/link")
    assert not disk.is_dir(f"{tmp_path}/directory")


def test_a_planted_link_at_the_temporary_name_of_replace_is_not_written_through(disk: RealDisk, tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"untouched")
    (tmp_path / "f.tmp").symlink_to(tmp_path / "victim")
    with pytest.raises(StorageFailure):
        disk.replace(f"{tmp_path}/f", b"attack")
    assert (tmp_path / "victim").read_bytes() == b"untouched"


def test_a_pipe_is_no_partition_file(disk: RealDisk, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageFailure, match="not a regular file"):
        disk.open(f"{tmp_path}/pipe")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs the full device of Linux")
def test_no_space_left_is_disk_full(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.open(f"{tmp_path}/f", create=True)
    full = os.open("/dev/full", os.O_RDWR)
    os.dup2(full, file._fd)  # type: ignore[attr-defined]  # noqa: SLF001
    os.close(full)
    with pytest.raises(DiskFull, match="No space left on device"):
        file.pwrite(0, [b"x"])
    file.close()


def test_a_disk_pickles_without_its_open_files_and_threads(disk: RealDisk, tmp_path: Path) -> None:
    disk.open(f"{tmp_path}/f", create=True).close()
    disk.threads(str(tmp_path)).submit(os.getpid).result()
    copied: RealDisk = pickle.loads(pickle.dumps(disk))  # noqa: S301
    assert copied.listdir(str(tmp_path)) == ["f"]
    copied.close()


@pytest.mark.parametrize("kind", [StorageFailure, DiskFull])
def test_failures_survive_the_way_home_from_the_child(kind: type[StorageFailure]) -> None:
    failure = pickle.loads(pickle.dumps(kind("write", "/f", "why")))  # noqa: S301
    assert (type(failure), failure.operation, failure.path, failure.reason) == (kind, "write", "/f", "why")
    assert str(failure) == "write /f: why"


def test_a_forgotten_file_gives_its_descriptor_back(disk: RealDisk, tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        disk.open(f"{tmp_path}/f", create=True)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.slow
def test_a_lock_excludes_another_process_and_dies_with_it(disk: RealDisk, tmp_path: Path) -> None:
    script = (
        "import sys; from tidelog.runtime.real import RealDisk; held = RealDisk().lock(sys.argv[1]);"
        "print(held is not None, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, f"{tmp_path}/.lock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        assert disk.lock(f"{tmp_path}/.lock") is None
        holder.kill()
        holder.wait()
    held = disk.lock(f"{tmp_path}/.lock")
    assert held is not None
    held.release()


@pytest.mark.slow
def test_a_lock_is_not_inherited_by_the_child_process(disk: RealDisk, tmp_path: Path) -> None:
    held = disk.lock(f"{tmp_path}/.lock")
    assert held is not None
    assert disk.child().submit(os.getpid).result() != os.getpid()
    held.release()
    again = disk.lock(f"{tmp_path}/.lock")
    assert again is not None
    again.release()


@pytest.mark.slow
def test_the_child_is_nice_and_ours_and_comes_back_after_it_died(disk: RealDisk) -> None:
    assert disk.child().submit(os.getpriority, os.PRIO_PROCESS, 0).result() >= 10
    assert disk.child().submit(os.getppid).result() == os.getpid()
    died = disk.child().submit(os._exit, 1)
    assert died.exception() is not None
    assert disk.child().submit(len, "back").result() == 4


@pytest.mark.slow
def test_closing_does_not_wait_for_a_child_in_the_middle_of_its_work(disk: RealDisk) -> None:
    child = disk.child().submit(os.getpid).result()
    waiting = disk.child().submit(signal.pause)
    disk.close()
    assert waiting.cancelled() or waiting.exception() is not None
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


@pytest.mark.slow
def test_the_child_dies_with_a_killed_parent(tmp_path: Path) -> None:
    script = (
        "import os, signal; from tidelog.runtime.real import RealDisk\n"
        "if __name__ == '__main__':\n"
        "    child = RealDisk().child(); print(child.submit(os.getpid).result(), flush=True)\n"
        "    child.submit(signal.pause); signal.pause()\n"
    )
    (tmp_path / "parent.py").write_text(script)
    with subprocess.Popen([sys.executable, str(tmp_path / "parent.py")], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        gone = os.pidfd_open(child)
        parent.kill()
        parent.wait()
    assert select.select([gone], [], [], 10)[0], "the child outlived its killed parent"
    os.close(gone)
