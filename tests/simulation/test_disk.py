"""What the simulated disk forgets, tears and refuses, and that it forgets nothing it promised to keep."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from tidelog.runtime import DiskFull, StorageFailure
from tidelog.simulation import Loss, PowerCut, SimulatedClock, SimulatedDisk
from tidelog.simulation.disk_faults import Operation
from tidelog.simulation.disk_file import SimulatedFile

SEEDS = range(300)


@pytest.fixture
def disk() -> SimulatedDisk:
    made = SimulatedDisk()
    made.mkdir("/data")
    made.fsync_dir("/")
    return made


def durable_file(disk: SimulatedDisk, content: bytes = b"safe") -> SimulatedFile:
    file = disk.open("/data/f", create=True)
    file.pwrite(0, [content])
    file.fsync()
    disk.fsync_dir("/data")
    return file


def outcomes(*, content: bytes, writes: list[tuple[int, bytes]]) -> set[bytes]:
    """Every content some seed leaves of unflushed `writes` over durable `content`."""
    found = set()
    for seed in SEEDS:
        disk = SimulatedDisk()
        disk.mkdir("/data")
        disk.fsync_dir("/")
        file = durable_file(disk, content)
        for position, data in writes:
            file.pwrite(position, [data])
        disk.crash(seed=seed)
        found.add(disk.read("/data/f"))
    return found


def test_a_power_cut_takes_unflushed_bytes_and_keeps_flushed_ones(disk: SimulatedDisk) -> None:
    durable_file(disk).pwrite(4, [b" lost"])
    disk.crash()
    assert disk.read("/data/f") == b"safe"


def test_a_killed_process_loses_nothing_but_its_files_and_locks(disk: SimulatedDisk) -> None:
    file = disk.open("/data/f", create=True)
    file.pwrite(0, [b"in the page cache"])
    assert disk.lock("/data/.lock") is not None
    disk.crash(lose=Loss.NOTHING)
    assert disk.read("/data/f") == b"in the page cache"
    assert disk.lock("/data/.lock") is not None
    with pytest.raises(StorageFailure, match="opened before the crash"):
        file.size()
    file.close()


def test_a_file_vanishes_whose_directory_was_not_flushed(disk: SimulatedDisk) -> None:
    file = disk.open("/data/f", create=True)
    file.pwrite(0, [b"flushed, but nameless"])
    file.fsync()
    disk.crash()
    assert disk.listdir("/data") == []


def test_a_directory_vanishes_with_all_it_holds(disk: SimulatedDisk) -> None:
    disk.mkdir("/data/t-0")
    disk.replace("/data/t-0/f", b"x")
    disk.crash()
    assert disk.listdir("/data") == []


def test_names_can_survive_without_contents_and_contents_without_names(disk: SimulatedDisk) -> None:
    disk.open("/data/f", create=True).pwrite(0, [b"bytes"])
    disk.crash(lose=Loss.CONTENTS)
    assert disk.read("/data/f") == b""
    file = disk.open("/data/f")
    disk.fsync_dir("/data")
    file.pwrite(0, [b"bytes"])
    disk.open("/data/g", create=True)
    disk.crash(lose=Loss.NAMES)
    assert disk.listdir("/data") == ["f"]
    assert disk.read("/data/f") == b"bytes"


def test_an_unflushed_rename_or_unlink_is_undone(disk: SimulatedDisk) -> None:
    durable_file(disk)
    disk.rename("/data/f", "/data/g")
    disk.crash()
    assert disk.listdir("/data") == ["f"]
    disk.unlink("/data/f")
    disk.crash()
    assert disk.read("/data/f") == b"safe"


def test_a_flushed_rename_holds(disk: SimulatedDisk) -> None:
    durable_file(disk)
    disk.rename("/data/f", "/data/g")
    disk.fsync_dir("/data")
    disk.crash()
    assert disk.listdir("/data") == ["g"]


def test_a_rename_between_directories_waits_for_both(disk: SimulatedDisk) -> None:
    durable_file(disk)
    disk.mkdir("/data/d")
    disk.fsync_dir("/data")
    disk.rename("/data/f", "/data/d/f")
    disk.fsync_dir("/data/d")
    disk.crash()
    assert disk.listdir("/data") == ["d", "f"]
    disk.rename("/data/f", "/data/d/f")
    disk.fsync_dir("/data/d")
    disk.fsync_dir("/data")
    disk.crash()
    assert (disk.listdir("/data"), disk.listdir("/data/d")) == (["d"], ["f"])


def test_replace_gives_old_or_new_at_every_crash_point_and_seed() -> None:
    seen = set()
    for operations in range(8):
        for seed in range(40):
            disk = SimulatedDisk()
            disk.mkdir("/data")
            disk.fsync_dir("/")
            disk.replace("/data/f", b"old")
            disk.cut_power_after(operations)
            with suppress(PowerCut):
                disk.replace("/data/f", b"new")
            disk.crash(seed=seed)
            seen.add((operations, disk.read("/data/f")))
    assert {content for _, content in seen} == {b"old", b"new"}
    assert {content for operations, content in seen if operations == 7} == {b"new"}


def test_seeds_lose_a_suffix_tear_the_last_write_and_lose_a_middle() -> None:
    found = outcomes(content=b"AA", writes=[(2, b"BB"), (4, b"CC"), (6, b"DD")])
    assert {b"AA", b"AABB", b"AABBCC", b"AABBCCDD"} <= found
    assert {b"AAB", b"AABBC", b"AABBCCD"} <= found, "torn"
    assert {b"AA\0\0CCDD", b"AABB\0\0DD"} <= found, "a lost middle is zeros"
    assert b"AA\0\0\0\0\0\0" in found, "a length without bytes"


def test_no_seed_touches_flushed_bytes_that_were_not_written_again() -> None:
    found = outcomes(content=b"flushed.", writes=[(8, b"tail" * 400), (1700, b"x")])
    assert all(content.startswith(b"flushed.") for content in found)


def test_sectors_of_one_write_survive_one_by_one() -> None:
    found = outcomes(content=b"", writes=[(0, b"1" * 512 + b"2" * 512 + b"3" * 512)])
    assert b"\0" * 512 + b"2" * 512 + b"3" * 512 in found
    assert b"1" * 512 + b"\0" * 512 + b"3" * 512 in found


def test_no_seed_loses_a_name_that_nobody_touched() -> None:
    for seed in SEEDS:
        disk = SimulatedDisk()
        disk.mkdir("/data")
        disk.fsync_dir("/")
        durable_file(disk)
        disk.rename("/data/f", "/data/g")
        disk.open("/data/f", create=True).close()
        disk.rename("/data/f", "/data/h")
        disk.crash(seed=seed)
        contents = [disk.read(f"/data/{name}") for name in disk.listdir("/data")]
        assert contents.count(b"safe") == 1, f"seed {seed}: {disk.listdir('/data')}"


def test_the_same_seed_crashes_the_same_way() -> None:
    def content(seed: int) -> bytes:
        disk = SimulatedDisk()
        file = durable_file_at_root(disk)
        for n in range(20):
            file.pwrite(n * 10, [b"%09d " % n])
        disk.crash(seed=seed)
        return disk.read("/f")

    assert [content(seed) for seed in range(20)] == [content(seed) for seed in range(20)]


def durable_file_at_root(disk: SimulatedDisk) -> SimulatedFile:
    file = disk.open("/f", create=True)
    disk.fsync_dir("/")
    return file


def test_a_failed_fsync_is_never_made_good_by_the_next(disk: SimulatedDisk) -> None:
    file = durable_file(disk)
    file.pwrite(4, [b"doomed"])
    disk.faults.fail("fsync", path="*/f")
    with pytest.raises(StorageFailure, match="fsync /data/f: Input/output error"):
        file.fsync()
    file.pwrite(10, [b"later"])
    file.fsync()
    assert file.pread(0, 100) == b"safedoomedlater"
    disk.crash()
    assert disk.read("/data/f") == b"safe\0\0\0\0\0\0later"


def test_a_full_disk_takes_what_fits_and_goes_on_when_space_returns(disk: SimulatedDisk) -> None:
    file = durable_file(disk)
    disk.fill_up(after_bytes=3)
    with pytest.raises(DiskFull, match="No space left on device"):
        file.pwrite(4, [b"12345"])
    assert disk.read("/data/f") == b"safe123"
    file.pwrite(0, [b"SAFE"])
    with pytest.raises(DiskFull):
        disk.open("/data/g", create=True)
    disk.free_up()
    file.pwrite(7, [b"45"])
    assert disk.read("/data/f") == b"SAFE12345"


def test_deleting_makes_room_on_a_full_disk(disk: SimulatedDisk) -> None:
    durable_file(disk, b"x" * 100)
    disk.fill_up()
    assert disk.usable_bytes("/data") == 0
    disk.unlink("/data/f")
    assert disk.usable_bytes("/data") == 100


def test_a_file_without_a_name_takes_no_space(disk: SimulatedDisk) -> None:
    file = durable_file(disk, b"x" * 100)
    free = disk.usable_bytes("/data")
    disk.unlink("/data/f")
    file.truncate(0)
    file.pwrite(0, [b"y" * 50])
    assert disk.usable_bytes("/data") == free + 100


def test_faults_hit_the_chosen_operation_path_and_time(disk: SimulatedDisk) -> None:
    file, other = disk.open("/data/a.log", create=True), disk.open("/data/b.log", create=True)
    disk.faults.fail("write", path="*/a.log", skip=1, times=2)
    file.pwrite(0, [b"1"])
    for _ in range(2):
        with pytest.raises(StorageFailure):
            file.pwrite(1, [b"2"])
    file.pwrite(1, [b"3"])
    other.pwrite(0, [b"4"])
    assert disk.faults.injected == 2


def test_a_fault_without_an_end_lasts_until_healed(disk: SimulatedDisk) -> None:
    disk.faults.fail(path="/data*", times=None)
    for _ in range(3):
        with pytest.raises(StorageFailure):
            disk.listdir("/data")
    disk.faults.heal()
    assert disk.listdir("/data") == []


def test_a_read_only_directory_can_be_read_and_not_changed(disk: SimulatedDisk) -> None:
    file = durable_file(disk)
    disk.mkdir("/data2")
    disk.faults.make_read_only("/data")
    changes: list[Callable[[], object]] = [
        lambda: file.pwrite(0, [b"x"]),
        lambda: file.truncate(0),
        lambda: disk.unlink("/data/f"),
        lambda: disk.rename("/data/f", "/data/g"),
        lambda: disk.mkdir("/data/d"),
        lambda: disk.replace("/data/f", b"x"),
    ]
    for change in changes:
        with pytest.raises(StorageFailure, match="Read-only file system"):
            change()
    assert disk.read("/data/f") == b"safe"
    disk.replace("/data2/f", b"another directory")


def test_a_flipped_bit_is_there_for_readers_and_after_a_crash(disk: SimulatedDisk) -> None:
    durable_file(disk, b"\x00\x00")
    disk.flip_bit("/data/f", position=1, bit=7)
    assert disk.read("/data/f") == b"\x00\x80"
    disk.crash()
    assert disk.read("/data/f") == b"\x00\x80"


def test_every_change_is_counted_and_reads_are_not(disk: SimulatedDisk) -> None:
    seen: list[Operation] = []
    disk.on_operation(seen.append)
    before = disk.operation_count
    disk.replace("/data/f", b"x")
    disk.read("/data/f")
    disk.listdir("/data")
    names = [operation.name for operation in seen]
    assert names == ["create", "truncate", "write", "fsync", "rename", "fsync_dir"]
    assert [operation.number for operation in seen] == list(range(before + 1, before + 7))


def test_after_the_power_is_cut_nothing_works_until_the_crash(disk: SimulatedDisk) -> None:
    file = durable_file(disk)
    disk.cut_power_after(1)
    file.pwrite(0, [b"the last"])
    for operation in (file.fsync, lambda: disk.listdir("/data"), lambda: disk.mkdir("/other")):
        with pytest.raises(PowerCut):
            operation()
    disk.crash()
    assert disk.read("/data/f") == b"safe"


def test_rmtree_can_be_cut_between_any_two_names(disk: SimulatedDisk) -> None:
    disk.mkdir("/data/t-0")
    for name in "abc":
        disk.replace(f"/data/t-0/{name}", b"")
    disk.cut_power_after(2)
    with pytest.raises(PowerCut):
        disk.rmtree("/data/t-0")
    disk.crash(lose=Loss.NOTHING)
    assert disk.listdir("/data/t-0") == ["c"]


def test_the_time_of_a_write_is_the_wall_clock_of_the_node() -> None:
    clock = SimulatedClock()
    disk = SimulatedDisk(clock)
    file = disk.open("/f", create=True)
    clock.advance_ms(5_000)
    clock.jump_wall_ms(-3_600_000)
    file.pwrite(0, [b"x"])
    assert disk.mtime_ms("/f") == clock.wall_ms()


def test_only_a_power_cut_changes_the_name_of_the_boot() -> None:
    disk = SimulatedDisk()
    first = disk.boot_id()
    disk.crash(lose=Loss.NOTHING)
    assert disk.boot_id() == first, "a killed process takes no power with it"
    disk.cut_power()
    assert disk.boot_id() != first
