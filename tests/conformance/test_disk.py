"""What every disk promises while the power is on; what survives without it is in `tests/simulation/test_disk.py`."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable

import pytest

from tests.conformance.worlds import Twin
from tidelog.runtime import Disk, FileMissing, StorageFailure


@pytest.fixture
def disk(one_loop_twin: Twin) -> Disk:
    return one_loop_twin.runtime.disk


@pytest.fixture
def directory(one_loop_twin: Twin) -> str:
    return one_loop_twin.directory


def test_a_created_file_is_empty_and_there(disk: Disk, directory: str) -> None:
    file = disk.open(f"{directory}/f", create=True)
    assert (file.size(), file.pread(0, 10), disk.exists(f"{directory}/f")) == (0, b"", True)
    file.close()


def test_opening_with_create_keeps_what_is_there(disk: Disk, directory: str) -> None:
    file = disk.open(f"{directory}/f", create=True)
    file.pwrite(0, [b"kept"])
    file.close()
    again = disk.open(f"{directory}/f", create=True)
    assert again.pread(0, 10) == b"kept"
    again.close()


def test_chunks_of_any_buffer_kind_are_written_one_after_the_other(disk: Disk, directory: str) -> None:
    file = disk.open(f"{directory}/f", create=True)
    file.pwrite(0, [b"ab", bytearray(b"cd"), b"", memoryview(b"xefx")[1:3]])
    file.pwrite(2, [b"CD"])
    file.pwrite(3, [])
    assert file.pread(0, 100) == b"abCDef"
    file.close()


def test_more_chunks_than_one_system_call_takes_are_all_written(disk: Disk, directory: str) -> None:
    file = disk.open(f"{directory}/f", create=True)
    file.pwrite(0, [b"ab"] * 3_000)
    assert file.pread(0, 10_000) == b"ab" * 3_000
    file.close()


def test_a_read_is_short_only_at_the_end(disk: Disk, directory: str) -> None:
    file = disk.open(f"{directory}/f", create=True)
    file.pwrite(0, [b"0123456789"])
    assert [file.pread(0, 4), file.pread(8, 4), file.pread(10, 4), file.pread(99, 4)] == [b"0123", b"89", b"", b""]
    file.close()


def test_a_write_past_the_end_leaves_zeros_between(disk: Disk, directory: str) -> None:
    file = disk.open(f"{directory}/f", create=True)
    file.pwrite(3, [b"x"])
    assert file.pread(0, 10) == b"\0\0\0x"
    file.close()


def test_truncate_cuts_and_extends_with_zeros(disk: Disk, directory: str) -> None:
    file = disk.open(f"{directory}/f", create=True)
    file.pwrite(0, [b"abcdef"])
    file.truncate(2)
    file.truncate(4)
    assert (file.size(), file.pread(0, 10)) == (4, b"ab\0\0")
    file.close()


def test_two_openings_see_the_same_bytes(disk: Disk, directory: str) -> None:
    one, other = disk.open(f"{directory}/f", create=True), disk.open(f"{directory}/f")
    one.pwrite(0, [b"seen"])
    assert other.pread(0, 10) == b"seen"
    one.close()
    other.close()


def test_a_closed_file_fails_and_closes_again_in_peace(disk: Disk, directory: str) -> None:
    file = disk.open(f"{directory}/f", create=True)
    file.close()
    file.close()
    for operation in (
        file.size,
        file.fsync,
        lambda: file.pread(0, 1),
        lambda: file.pwrite(0, [b"x"]),
        lambda: file.truncate(0),
    ):
        with pytest.raises(StorageFailure, match="Bad file descriptor"):
            operation()


@pytest.mark.parametrize("position", [-1, -100])
def test_negative_positions_are_refused(disk: Disk, directory: str, position: int) -> None:
    file = disk.open(f"{directory}/f", create=True)
    with pytest.raises(StorageFailure, match="Invalid argument"):
        file.pwrite(position, [b"x"])
    with pytest.raises(StorageFailure, match="Invalid argument"):
        file.pread(position, 1)
    with pytest.raises(StorageFailure, match="Invalid argument"):
        file.truncate(position)
    file.close()


MISSING: dict[str, Callable[[Disk, str], object]] = {
    "open": lambda disk, path: disk.open(path),
    "create below": lambda disk, path: disk.open(f"{path}/f", create=True),
    "read": lambda disk, path: disk.read(path),
    "replace below": lambda disk, path: disk.replace(f"{path}/f", b""),
    "listdir": lambda disk, path: disk.listdir(path),
    "rename": lambda disk, path: disk.rename(path, f"{path}2"),
    "unlink": lambda disk, path: disk.unlink(path),
    "fsync_dir": lambda disk, path: disk.fsync_dir(path),
    "mtime": lambda disk, path: disk.mtime_ms(path),
    "set mtime": lambda disk, path: disk.set_mtime_ms(path, 1),
    "lock below": lambda disk, path: disk.lock(f"{path}/.lock"),
}


@pytest.mark.parametrize("operation", MISSING.values(), ids=MISSING.keys())
def test_what_is_not_there_is_missing(disk: Disk, directory: str, operation: Callable[[Disk, str], object]) -> None:
    with pytest.raises(FileMissing, match="No such file or directory") as failure:
        operation(disk, f"{directory}/nothing")
    assert failure.value.path.startswith(f"{directory}/nothing")


def test_asking_about_what_is_not_there_is_no_failure(disk: Disk, directory: str) -> None:
    disk.replace(f"{directory}/f", b"")
    assert not disk.exists(f"{directory}/nothing")
    assert not disk.is_dir(f"{directory}/nothing")
    assert not disk.exists(f"{directory}/f/below-a-file")
    disk.rmtree(f"{directory}/nothing")


def test_replace_leaves_only_the_new_content(disk: Disk, directory: str) -> None:
    disk.replace(f"{directory}/f", b"a long old content")
    disk.replace(f"{directory}/f", b"new")
    assert disk.read(f"{directory}/f") == b"new"
    assert disk.listdir(directory) == ["f"]


def test_a_failed_replace_leaves_the_old_content_and_no_temporary_file(disk: Disk, directory: str) -> None:
    disk.mkdir(f"{directory}/target/full")
    with pytest.raises(StorageFailure):
        disk.replace(f"{directory}/target", b"a file cannot replace a directory")
    assert disk.listdir(directory) == ["target"]


def test_mkdir_makes_parents_and_leaves_what_is_there(disk: Disk, directory: str) -> None:
    disk.mkdir(f"{directory}/a/b/c")
    disk.replace(f"{directory}/a/b/f", b"kept")
    disk.mkdir(f"{directory}/a/b/c")
    disk.mkdir(f"{directory}/a/b")
    assert disk.listdir(f"{directory}/a/b") == ["c", "f"]
    assert disk.is_dir(f"{directory}/a/b/c")
    assert not disk.is_dir(f"{directory}/a/b/f")


def test_mkdir_refuses_the_name_of_a_file(disk: Disk, directory: str) -> None:
    disk.replace(f"{directory}/f", b"")
    with pytest.raises(StorageFailure):
        disk.mkdir(f"{directory}/f")
    with pytest.raises(StorageFailure):
        disk.mkdir(f"{directory}/f/below")


def test_listdir_is_sorted(disk: Disk, directory: str) -> None:
    for name in ("b", "a", "c", "B"):
        disk.open(f"{directory}/{name}", create=True).close()
    assert disk.listdir(directory) == ["B", "a", "b", "c"]


def test_directories_are_no_files_and_files_no_directories(disk: Disk, directory: str) -> None:
    disk.mkdir(f"{directory}/d")
    disk.replace(f"{directory}/f", b"")
    for operation in (disk.open, disk.read, disk.unlink):
        with pytest.raises(StorageFailure):
            operation(f"{directory}/d")
    for on_directory in (disk.listdir, disk.rmtree, disk.fsync_dir):
        with pytest.raises(StorageFailure):
            on_directory(f"{directory}/f")


def test_an_open_file_follows_its_rename(disk: Disk, directory: str) -> None:
    file = disk.open(f"{directory}/old", create=True)
    disk.rename(f"{directory}/old", f"{directory}/new")
    file.pwrite(0, [b"still me"])
    assert file.path == f"{directory}/new"
    assert disk.read(f"{directory}/new") == b"still me"
    assert not disk.exists(f"{directory}/old")
    file.close()


def test_an_open_file_follows_the_rename_of_its_directory(disk: Disk, directory: str) -> None:
    disk.mkdir(f"{directory}/t-0")
    disk.mkdir(f"{directory}/t-01")
    file, neighbour = disk.open(f"{directory}/t-0/f", create=True), disk.open(f"{directory}/t-01/f", create=True)
    disk.rename(f"{directory}/t-0", f"{directory}/t-0-delete")
    file.pwrite(0, [b"moved"])
    assert file.path == f"{directory}/t-0-delete/f"
    assert neighbour.path == f"{directory}/t-01/f"
    assert disk.read(f"{directory}/t-0-delete/f") == b"moved"
    file.close()
    neighbour.close()


def test_rename_replaces_a_file_whose_readers_keep_the_old_bytes(disk: Disk, directory: str) -> None:
    disk.replace(f"{directory}/a", b"new")
    disk.replace(f"{directory}/b", b"old")
    reader = disk.open(f"{directory}/b")
    disk.rename(f"{directory}/a", f"{directory}/b")
    assert (reader.pread(0, 10), disk.read(f"{directory}/b")) == (b"old", b"new")
    disk.rename(f"{directory}/b", f"{directory}/c")
    assert reader.path == f"{directory}/b"
    reader.close()


def test_rename_onto_itself_changes_nothing(disk: Disk, directory: str) -> None:
    disk.replace(f"{directory}/a", b"same")
    disk.rename(f"{directory}/a", f"{directory}/a")
    assert disk.read(f"{directory}/a") == b"same"


def test_rename_refuses_what_would_lose_a_directory(disk: Disk, directory: str) -> None:
    disk.mkdir(f"{directory}/full/below")
    disk.mkdir(f"{directory}/d")
    disk.replace(f"{directory}/f", b"")
    for source, target in (("d", "full"), ("f", "d"), ("d", "f"), ("full", "full/below/x")):
        with pytest.raises(StorageFailure):
            disk.rename(f"{directory}/{source}", f"{directory}/{target}")
    assert disk.listdir(directory) == ["d", "f", "full"]


def test_an_unlinked_file_lives_until_it_is_closed(disk: Disk, directory: str) -> None:
    file = disk.open(f"{directory}/f", create=True)
    disk.unlink(f"{directory}/f")
    file.pwrite(0, [b"ghost"])
    assert file.pread(0, 10) == b"ghost"
    assert disk.listdir(directory) == []
    file.close()


def test_a_name_used_again_is_another_file(disk: Disk, directory: str) -> None:
    ghost = disk.open(f"{directory}/f", create=True)
    disk.unlink(f"{directory}/f")
    disk.replace(f"{directory}/f", b"second")
    disk.rename(f"{directory}/f", f"{directory}/g")
    assert (ghost.pread(0, 10), ghost.path) == (b"", f"{directory}/f")
    ghost.close()


def test_rmtree_removes_everything_below(disk: Disk, directory: str) -> None:
    disk.mkdir(f"{directory}/d/e")
    disk.replace(f"{directory}/d/e/f", b"x")
    disk.rmtree(f"{directory}/d")
    assert disk.listdir(directory) == []


def test_fsync_of_file_and_directory_succeeds(disk: Disk, directory: str) -> None:
    file = disk.open(f"{directory}/f", create=True)
    file.pwrite(0, [b"safe"])
    file.fsync()
    disk.fsync_dir(directory)
    assert file.pread(0, 10) == b"safe"
    file.close()


def test_writing_sets_the_time_and_set_mtime_changes_it(one_loop_twin: Twin, disk: Disk, directory: str) -> None:
    disk.replace(f"{directory}/f", b"x")
    assert abs(disk.mtime_ms(f"{directory}/f") - one_loop_twin.runtime.clock.wall_ms()) < 60_000
    disk.set_mtime_ms(f"{directory}/f", 1_234_567_890_123)
    assert disk.mtime_ms(f"{directory}/f") == 1_234_567_890_123


def test_usable_space_is_part_of_the_total(disk: Disk, directory: str) -> None:
    assert 0 < disk.usable_bytes(directory) <= disk.total_bytes(directory)


def test_the_boot_has_one_name_as_long_as_it_lasts(disk: Disk) -> None:
    assert disk.boot_id()
    assert disk.boot_id() == disk.boot_id()


def test_a_lock_excludes_until_it_is_released(disk: Disk, directory: str) -> None:
    held = disk.lock(f"{directory}/.lock")
    assert held is not None
    assert disk.lock(f"{directory}/.lock") is None
    held.release()
    again = disk.lock(f"{directory}/.lock")
    assert again is not None
    held.release()
    assert disk.lock(f"{directory}/.lock") is None, "a lock released twice must not release the next holder's"
    again.release()
    assert disk.listdir(directory) == [".lock"]


def test_the_threads_of_a_directory_run_all_that_is_handed_to_them(twin: Twin) -> None:
    done: list[int] = []

    async def run() -> None:
        threads = twin.runtime.disk.threads(twin.directory)
        assert twin.runtime.disk.threads(f"{twin.directory}/") is threads
        await asyncio.gather(*(asyncio.get_running_loop().run_in_executor(threads, done.append, n) for n in range(20)))

    twin.run(run())
    assert sorted(done) == list(range(20))


def test_a_failure_in_the_thread_comes_back_to_the_loop(twin: Twin) -> None:
    async def run() -> None:
        threads = twin.runtime.disk.threads(twin.directory)
        await asyncio.get_running_loop().run_in_executor(threads, twin.runtime.disk.read, f"{twin.directory}/nothing")

    with pytest.raises(FileMissing):
        twin.run(run())


@pytest.mark.slow
def test_the_child_gets_the_disk_and_sends_results_and_failures_home(twin: Twin) -> None:
    async def run() -> bytes:
        loop, disk = asyncio.get_running_loop(), twin.runtime.disk
        await loop.run_in_executor(disk.child(), disk.replace, f"{twin.directory}/f", b"by the child")
        with pytest.raises(FileMissing) as failure:
            await loop.run_in_executor(disk.child(), disk.read, f"{twin.directory}/nothing")
        assert failure.value.reason == "No such file or directory"
        return await loop.run_in_executor(disk.child(), disk.read, f"{twin.directory}/f")

    assert twin.run(run()) == b"by the child"


@pytest.mark.slow
def test_the_child_works_on_copies(twin: Twin) -> None:
    mine: list[int] = []

    async def run() -> None:
        await asyncio.get_running_loop().run_in_executor(twin.runtime.disk.child(), operator.iadd, mine, [1])

    twin.run(run())
    assert mine == []
