"""What only a file can suffer: death of its process, loss of power, damage, locks, a full disk."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from tidelog.registry import Create, NodeExists, Registry, RegistryUnavailable, SessionExpired, Set
from tidelog.registry.sqlite import SqliteRegistry

T = TypeVar("T")


def use(path: Path, work: Callable[[Registry], Awaitable[T]], *, size_bytes_max: int = 1 << 30) -> T:
    """Open the file, work with it in a session, close it."""

    async def session() -> T:
        registry = SqliteRegistry(str(path), lock_timeout_ms=20, size_bytes_max=size_bytes_max)
        try:
            await registry.open_session()
            async with asyncio.timeout(10):
                return await work(registry)
        finally:
            await registry.close()

    return asyncio.run(session())


async def write_epoch(registry: Registry) -> None:
    await registry.create("/controller_epoch", b"7")


async def read_epoch(registry: Registry) -> bytes:
    return (await registry.get("/controller_epoch")).data


async def nothing(_: Registry) -> None:
    return None


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "registry.sqlite"


def test_tree_is_there_again_after_a_restart(path: Path) -> None:
    use(path, write_epoch)
    assert use(path, read_epoch) == b"7"


def test_creation_ids_and_sessions_go_on_growing_after_a_restart(path: Path) -> None:
    async def created(registry: Registry) -> tuple[int, int]:
        name = await registry.create("/n", sequential=True)
        return (await registry.get(name)).czxid, registry.session_id or 0

    first, second = use(path, created), use(path, created)
    assert second[0] > first[0]
    assert second[1] > first[1]


def test_clean_close_leaves_one_file_for_its_owners_eyes(path: Path) -> None:
    use(path, write_epoch)
    assert [entry.name for entry in path.parent.iterdir()] == ["registry.sqlite"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


DIES = """
import asyncio, os, signal, sys
from tidelog.registry.sqlite import SqliteRegistry
async def main():
    registry = SqliteRegistry(sys.argv[1])
    await registry.open_session()
    await registry.create("/controller_epoch", b"1")
    for epoch in range(2, 6):
        await registry.set("/controller_epoch", str(epoch).encode())
    await registry.create("/mine", ephemeral=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


@pytest.mark.slow
def test_killed_process_loses_its_session_and_nothing_it_was_answered(path: Path) -> None:
    died = subprocess.run([sys.executable, "-c", DIES, str(path)], check=False, timeout=240)
    assert died.returncode == -signal.SIGKILL

    async def seen(registry: Registry) -> tuple[bytes, list[str]]:
        return await read_epoch(registry), await registry.children("/")

    assert use(path, seen) == (b"5", ["controller_epoch"])
    assert [entry.name for entry in path.parent.iterdir()] == ["registry.sqlite"]


def test_id_held_by_a_live_session_is_not_given_again(path: Path) -> None:
    async def both(first: Registry) -> None:
        await first.create("/ids_1", ephemeral=True)
        second = SqliteRegistry(str(path))
        await second.open_session()
        with pytest.raises(NodeExists):
            await second.create("/ids_1", ephemeral=True)
        await second.close()

    use(path, both)


def power_lost_copies(path: Path, target: Path, epochs: int) -> list[Path]:
    """What the medium holds after each answered write: the files as they are, without the shared memory that dies with the machine."""
    copies: list[Path] = []

    async def climb(registry: Registry) -> None:
        await registry.create("/controller_epoch", b"0")
        for epoch in range(epochs):
            await registry.set("/controller_epoch", b"%d" % epoch, version=epoch)
            copy = target / str(epoch)
            copy.mkdir()
            for suffix in ("", "-wal"):
                shutil.copy(f"{path}{suffix}", copy)
            copies.append(copy / path.name)

    use(path, climb)
    return copies


def test_epoch_never_goes_back_whenever_the_power_is_lost(path: Path, tmp_path: Path) -> None:
    for epoch, copy in enumerate(power_lost_copies(path, tmp_path, 10)):
        assert use(copy, read_epoch) == b"%d" % epoch


def test_torn_tail_of_the_write_ahead_log_takes_no_answered_write_with_it(path: Path, tmp_path: Path) -> None:
    for epoch, copy in enumerate(power_lost_copies(path, tmp_path, 5)):
        with open(f"{copy}-wal", "ab") as wal:
            wal.write(b"\x55" * 3000)
        assert use(copy, read_epoch) == b"%d" % epoch


def test_file_is_kept_with_a_write_ahead_log(path: Path) -> None:
    # Bytes 18 and 19 of the header; opening refuses a file system on which WAL with full flushing cannot be had.
    use(path, write_epoch)
    assert path.read_bytes()[18:20] == b"\x02\x02"


def test_file_that_is_no_database_is_named(path: Path) -> None:
    path.write_bytes(b"certainly not a database, but long enough to be read as the header of one " * 20)
    with pytest.raises(RegistryUnavailable, match="file is not a database") as refused:
        use(path, nothing)
    assert str(path) in str(refused.value)
    assert not refused.value.may_pass


def test_database_of_another_program_is_left_alone(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE accounts (id INTEGER)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(RegistryUnavailable, match="another application"):
        use(path, nothing)
    assert path.read_bytes()[100:] == before[100:]


def test_file_of_a_newer_program_is_refused(path: Path) -> None:
    use(path, write_epoch)
    with sqlite3.connect(path) as newer:
        newer.execute("PRAGMA user_version = 2")
    newer.close()
    with pytest.raises(RegistryUnavailable, match="format 2, this program understands 1"):
        use(path, nothing)


def test_corrupt_page_is_found_before_anything_is_read_from_it(path: Path) -> None:
    async def fill(registry: Registry) -> None:
        await registry.multi([Create(f"/n{number}", bytes(200)) for number in range(200)])

    use(path, fill)
    content = bytearray(path.read_bytes())
    content[4096 * 3 : 4096 * 4] = b"\xa5" * 4096
    path.write_bytes(content)
    with pytest.raises(RegistryUnavailable, match=r"corrupt|malformed"):
        use(path, nothing)


def test_truncated_file_is_refused(path: Path) -> None:
    async def fill(registry: Registry) -> None:
        await registry.multi([Create(f"/n{number}", bytes(200)) for number in range(200)])

    use(path, fill)
    path.write_bytes(path.read_bytes()[: 4096 * 3])
    with pytest.raises(RegistryUnavailable, match=r"corrupt|malformed"):
        use(path, nothing)


def test_missing_directory_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "registry.sqlite"
    with pytest.raises(RegistryUnavailable, match="No such file or directory") as refused:
        use(path, nothing)
    assert str(path) in str(refused.value)


async def lost(registry: Registry) -> None:
    """The next call is refused, the session is over, and no other is begun in whatever is there now."""
    with pytest.raises(RegistryUnavailable, match="removed or replaced"):
        await registry.set("/controller_epoch", b"8")
    await registry.ended()
    with pytest.raises(SessionExpired):
        await read_epoch(registry)
    with pytest.raises(RegistryUnavailable, match="removed or replaced"):
        await registry.open_session()


def test_file_removed_under_us_is_noticed_before_the_next_write(path: Path) -> None:
    async def lose(registry: Registry) -> None:
        await write_epoch(registry)
        os.unlink(path)
        await lost(registry)

    use(path, lose)
    assert not path.exists()


def test_file_replaced_under_us_is_noticed_and_not_taken_for_ours(path: Path, tmp_path: Path) -> None:
    older = tmp_path / "older"
    use(older, nothing)

    async def lose(registry: Registry) -> None:
        await write_epoch(registry)
        os.replace(older, path)
        await lost(registry)

    use(path, lose)


def test_file_removed_under_an_idle_handle_ends_its_session(path: Path) -> None:
    async def lose(registry: Registry) -> None:
        os.unlink(path)
        await registry.ended()

    use(path, lose)


def test_locked_file_is_told_after_a_bounded_wait_and_used_when_it_is_free_again(path: Path) -> None:
    async def wait(registry: Registry) -> bytes:
        await write_epoch(registry)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(RegistryUnavailable, match="locked") as refused:
            await registry.set("/controller_epoch", b"8")
        assert refused.value.may_pass
        assert await read_epoch(registry) == b"7"
        other.execute("ROLLBACK")
        other.close()
        await registry.set("/controller_epoch", b"9")
        return await read_epoch(registry)

    assert use(path, wait) == b"9"


async def write_until_refused(registry: Registry) -> None:
    for number in range(1000):
        await registry.multi([Set("/controller_epoch", b"%d" % number), Create(f"/n{number}", bytes(20_000))])


def test_full_registry_refuses_writes_whole_and_goes_on_with_what_it_has(path: Path) -> None:
    async def fill(registry: Registry) -> tuple[int, bytes]:
        await write_epoch(registry)
        with pytest.raises(RegistryUnavailable, match="full") as refused:
            await write_until_refused(registry)
        assert refused.value.may_pass
        written = [name for name in await registry.children("/") if name.startswith("n")]
        await registry.delete("/n0")
        await registry.create("/again", bytes(1000))
        return len(written), await read_epoch(registry)

    count, epoch = use(path, fill, size_bytes_max=1 << 18)
    assert epoch == b"%d" % (count - 1)
    assert count > 3


def test_loop_goes_on_while_the_file_is_locked(path: Path) -> None:
    async def wait(registry: Registry) -> int:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        write = asyncio.ensure_future(registry.create("/a"))
        turns = 0
        while not write.done() and turns < 1000:
            await asyncio.wait([write], timeout=0)
            turns += 1
        other.execute("ROLLBACK")
        other.close()
        await asyncio.gather(write, return_exceptions=True)
        return turns

    assert use(path, wait) > 10


def test_unwritable_directory_is_told(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        path = Path("/proc/registry.sqlite")
    else:
        tmp_path.chmod(0o500)
        path = tmp_path / "registry.sqlite"
    with pytest.raises(RegistryUnavailable):
        use(path, nothing)
