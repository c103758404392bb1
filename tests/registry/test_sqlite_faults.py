"""A file that is locked, full, damaged or cut off in the middle of a commit, while sessions are held in it."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tidelog.registry import Create, Registry, RegistryUnavailable, SessionExpired, Set
from tidelog.registry.sqlite import CALLS_MAX, LOCK_TIMEOUT_MS, SqliteRegistry
from tidelog.registry.sqlite_file import SqliteFile
from tidelog.registry.sqlite_sessions import SessionLock

T = TypeVar("T")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "registry.sqlite"


def tell(path: Path, story: Callable[[SqliteRegistry], Awaitable[T]], *, session_timeout_ms: int = 30_000) -> T:
    """A story with one session and a node in which an epoch is kept."""

    async def session() -> T:
        registry = SqliteRegistry(str(path), session_timeout_ms=session_timeout_ms)
        await registry.open_session()
        if not await registry.exists("/epoch"):
            await registry.create("/epoch", b"0")
        async with asyncio.timeout(30):
            told = await story(registry)
        await registry.close()
        return told

    return asyncio.run(session())


class Intruder:
    """Another program that keeps the file's write lock."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("BEGIN IMMEDIATE")

    def go(self) -> None:
        self._connection.execute("ROLLBACK")
        self._connection.close()


async def latest_turn_ms(until: asyncio.Future[T]) -> float:
    """The longest time for which the loop did not come back to us."""
    loop = asyncio.get_running_loop()
    worst_ms, before = 0.0, loop.time()
    while not until.done():
        await asyncio.wait([until], timeout=0.002)
        worst_ms, before = max(worst_ms, (loop.time() - before) * 1000), loop.time()
    return worst_ms


async def wait_for_a_lock(path: Path, registry: Registry, duration_s: float) -> float:
    intruder = Intruder(path)
    asyncio.get_running_loop().call_later(duration_s, intruder.go)
    write = asyncio.ensure_future(registry.set("/epoch", b"1", version=0))
    worst_ms = await latest_turn_ms(write)
    assert write.result() == 1
    return worst_ms


@pytest.mark.timed
def test_c05_write_outlasts_a_short_lock_without_holding_the_loop(path: Path) -> None:
    assert LOCK_TIMEOUT_MS > 5_000
    assert tell(path, lambda registry: wait_for_a_lock(path, registry, 0.1)) < 100


@pytest.mark.proof
def test_c05_write_outlasts_a_lock_of_five_seconds_without_holding_the_loop(path: Path) -> None:
    assert tell(path, lambda registry: wait_for_a_lock(path, registry, 5)) < 100


@pytest.mark.timed
def test_c05_lock_longer_than_the_timeout_ends_no_session(path: Path) -> None:
    async def story(registry: SqliteRegistry) -> None:
        other = SqliteRegistry(str(path), session_timeout_ms=500, lock_timeout_ms=100)
        await other.open_session()
        intruder = Intruder(path)
        for _ in range(12):
            with pytest.raises(RegistryUnavailable) as refused:
                await other.set("/epoch", b"1")
            assert refused.value.may_pass
        intruder.go()
        await registry.set("/epoch", b"2")
        await other.set("/epoch", b"3")
        await other.close()

    tell(path, story, session_timeout_ms=500)


@pytest.mark.slow
def test_waiting_calls_are_bounded_and_the_rest_is_told(path: Path) -> None:
    async def story(registry: SqliteRegistry) -> tuple[int, int]:
        intruder = Intruder(path)
        first = asyncio.ensure_future(registry.set("/epoch", b"1"))
        calls = [asyncio.ensure_future(registry.exists("/epoch")) for _ in range(CALLS_MAX + 10)]
        await asyncio.wait([calls[-1]])
        intruder.go()
        await first
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        refused = [outcome for outcome in outcomes if isinstance(outcome, RegistryUnavailable)]
        assert all(each.may_pass for each in refused)
        return len(refused), outcomes.count(True)

    assert tell(path, story) == (11, CALLS_MAX - 1)


def test_damage_found_in_use_ends_the_session_and_is_told_at_the_next(path: Path) -> None:
    async def story(registry: SqliteRegistry) -> None:
        await registry.multi([Create(f"/n{number}", bytes(900)) for number in range(200)])
        checkpoint = sqlite3.connect(path, isolation_level=None)
        checkpoint.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        checkpoint.close()
        descriptor = os.open(path, os.O_RDWR)
        os.pwrite(descriptor, b"\xa5" * (os.fstat(descriptor).st_size - 4096), 4096)
        os.fsync(descriptor)
        other = SqliteRegistry(str(path))
        with pytest.raises(RegistryUnavailable, match=r"corrupt|malformed"):
            await other.open_session()
        await other.close()
        with pytest.raises((RegistryUnavailable, SessionExpired)):
            await registry.multi([Set(f"/n{number}", bytes(5000)) for number in range(200)])
        await registry.ended()
        with pytest.raises(RegistryUnavailable, match=r"corrupt|malformed"):
            await registry.open_session()
        os.close(descriptor)

    tell(path, story)


@pytest.fixture
def files(path: Path) -> Iterator[list[SqliteFile]]:
    """Three open sessions; the last one has an ephemeral node."""
    opened = [SqliteFile(str(path), lock_timeout_ms=20, size_bytes_max=1 << 24) for _ in range(3)]
    for file in opened:
        file.open_session()
        file.poll(0.0)
    opened[-1].multi([Create("/mine", ephemeral=True)])
    yield opened
    for file in opened:
        file.close()


def die(file: SqliteFile) -> int:
    """What a SIGKILL leaves of a session."""
    assert file.lock is not None
    assert file.session_id is not None
    file.lock.release(is_session_over=False)
    return file.session_id


def test_death_found_while_the_file_is_locked_is_told_by_anybody_later(path: Path, files: list[SqliteFile]) -> None:
    first, second, victim = files
    session_id = die(victim)
    intruder = Intruder(path)
    with pytest.raises(RegistryUnavailable, match="locked"):
        first.poll(100.0)
    intruder.go()
    assert [lapsed.session_id for lapsed in second.poll(200.0)] == [session_id]
    assert first.poll(200.0) == []
    assert first.children("/") == []


def test_session_that_was_expired_meanwhile_is_not_expired_twice(files: list[SqliteFile]) -> None:
    first, second, victim = files
    session_id = die(victim)
    second.expire_session(session_id)
    second.expire_session(session_id)
    assert first.poll(100.0) == []
    assert first.children("/") == []


def test_c05_owner_that_goes_on_after_a_survivor_expired_it_writes_nothing(files: list[SqliteFile]) -> None:
    """Stopped between deciding to write and writing: the session is checked in the transaction that would write."""
    survivor, _, stopped = files
    assert stopped.session_id is not None
    survivor.expire_session(stopped.session_id)
    survivor.multi([Create("/epoch", b"1")])
    for late in (Set("/epoch", b"2"), Create("/mine", ephemeral=True)):
        with pytest.raises(SessionExpired):
            stopped.multi([late])
    epoch, mine = survivor.find(["/epoch", "/mine"])
    assert epoch is not None
    assert (epoch.data, mine) == (b"1", None)
    stopped.open_session()
    stopped.multi([Create("/mine", ephemeral=True)])
    [mine] = survivor.find(["/mine"])
    assert mine is not None
    assert mine.czxid > epoch.czxid, "no epoch is used twice"


def test_session_that_was_ended_by_its_owner_is_not_told_as_expired(path: Path, files: list[SqliteFile]) -> None:
    first, _, leaving = files
    leaving.end_session()
    assert first.poll(100.0) == []
    assert not list(path.parent.glob(f"{path.name}.session-3"))


def test_lock_file_that_belongs_to_no_session_goes_with_the_next_opening(path: Path, files: list[SqliteFile]) -> None:
    leftover = Path(f"{path}.session-99")
    leftover.write_bytes(b"")
    files[0].open_session()
    assert not leftover.exists()
    assert len(list(path.parent.glob("*.session-*"))) == 3


def test_session_whose_lock_file_cannot_be_made_does_not_begin(path: Path, files: list[SqliteFile]) -> None:
    held = SessionLock.take(f"{path}.session-4", timeout_ms=1_000)  # the next number
    assert held is not None
    with pytest.raises(RegistryUnavailable, match="held by another"):
        files[0].open_session()
    assert files[0].session_id is None
    held.release(is_session_over=True)
    assert files[0].open_session() == 4


def frames_of(wal: bytes) -> list[int]:
    """Where each frame of a write-ahead log ends: a header of 32 bytes, then frames of a page and 24 bytes."""
    [page_bytes] = struct.unpack(">I", wal[8:12])
    return list(range(32, len(wal) + 1, page_bytes + 24))


def epoch_in(directory: Path, content: bytes, wal: bytes) -> int:
    directory.mkdir()
    copy = directory / "registry.sqlite"
    copy.write_bytes(content)
    Path(f"{copy}-wal").write_bytes(wal)

    async def read(registry: Registry) -> int:
        return int((await registry.get("/epoch")).data)

    epoch = tell(copy, read)
    shutil.rmtree(directory)
    return epoch


@pytest.mark.slow
def test_c05_power_cut_anywhere_in_the_log_leaves_a_committed_prefix(path: Path, tmp_path: Path) -> None:
    wals: list[bytes] = []  # the log when the epoch of this number was answered

    def note() -> None:
        wals.append(Path(f"{path}-wal").read_bytes())

    async def climb(registry: Registry) -> None:
        note()
        for epoch in range(1, 9):
            await registry.set("/epoch", b"%d" % epoch)
            note()

    tell(path, lambda registry: registry.exists("/epoch"))
    content = path.read_bytes()
    tell(path, climb)
    seen: list[int] = []
    for cut in [cut for end in frames_of(wals[-1]) for cut in (end - 1000, end) if cut >= 0]:
        epoch = epoch_in(tmp_path / "cut", content, wals[-1][:cut])
        assert epoch >= sum(len(wal) <= cut for wal in wals[1:]), f"cut at {cut}"
        seen.append(epoch)
    assert seen == sorted(seen)
    assert set(seen) == set(range(9))


FILLS_THE_DISK = """
import asyncio, os, sys
from tidelog.registry import RegistryUnavailable
from tidelog.registry.sqlite import SqliteRegistry
async def main(directory):
    ballast = os.path.join(directory, "ballast")
    with open(ballast, "wb") as file:
        file.write(bytes(200_000))
    registry = SqliteRegistry(os.path.join(directory, "registry.sqlite"))
    await registry.open_session()
    await registry.create("/epoch", b"0")
    session_id, written = registry.session_id, 0
    try:
        while True:
            await registry.set("/epoch", b"%d" % (written + 1) + bytes(30_000))
            written += 1
    except RegistryUnavailable as full:
        assert full.may_pass and "full" in full.reason, full.reason
    assert (await registry.get("/epoch")).data.rstrip(bytes(1)) == b"%d" % written
    os.unlink(ballast)
    await registry.set("/epoch", b"%d" % (written + 1))
    assert registry.session_id == session_id and written > 0
    await registry.close()
asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.slow
def test_c05_full_disk_refuses_writes_whole_and_is_used_again_when_there_is_room(tmp_path: Path) -> None:
    mount = f"mount -t tmpfs -o size=600k tmpfs {tmp_path}"
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    try:
        can_mount = subprocess.run([*command, mount], check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        can_mount = False
    if not can_mount:
        pytest.skip("a small file system cannot be mounted here")
    run = [*command, f'{mount} && "$0" -c "$1" {tmp_path}', sys.executable, FILLS_THE_DISK]
    done = subprocess.run(run, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


OPEN_TOGETHER = """
import multiprocessing, sys
from tidelog.registry.sqlite_file import SqliteFile

def open_it(path, start):
    start.wait()
    file = SqliteFile(path, lock_timeout_ms=5_000, size_bytes_max=1 << 24)
    file.open_session()
    file.close()

processes = multiprocessing.get_context("fork")
for number in range(15):
    start = processes.Barrier(6)
    group = [processes.Process(target=open_it, args=(f"{sys.argv[1]}-{number}", start)) for _ in range(6)]
    for one in group:
        one.start()
    for one in group:
        one.join()
    if any(one.exitcode for one in group):
        sys.exit(f"round {number}: {[one.exitcode for one in group]}")
"""


@pytest.mark.slow
def test_many_who_open_a_new_file_at_once_all_come_in(path: Path) -> None:
    """SQLite refuses at once whoever meets another turning the file into one with a write-ahead log; of three brokers one died so."""
    done = subprocess.run(
        [sys.executable, "-c", OPEN_TOGETHER, str(path)], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
