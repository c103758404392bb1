"""Who is alive, seen through lock files and told the time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog.registry.sqlite_sessions import POLL_MS, Neighbours, SessionLock, lock_path

TIMEOUT_MS = 1_000


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "registry.sqlite")


@pytest.fixture
def lock(path: str) -> Iterator[SessionLock]:
    taken = take(path, 1)
    yield taken
    taken.release(is_session_over=True)


@pytest.fixture
def neighbours(path: str) -> Iterator[Neighbours]:
    opened = Neighbours(path)
    yield opened
    opened.close()


def take(path: str, session_id: int) -> SessionLock:
    taken = SessionLock.take(lock_path(path, session_id), timeout_ms=TIMEOUT_MS)
    assert taken is not None
    return taken


def watch(neighbours: Neighbours, begin_ms: float, end_ms: float, step_ms: float = POLL_MS) -> list[int]:
    """Look again and again; the sessions that timed out meanwhile."""
    now_ms, found = begin_ms, []
    while now_ms <= end_ms:
        found += [lapsed.session_id for lapsed in neighbours.silent(now_ms)]
        now_ms += step_ms
    return found


def test_locked_file_belongs_to_the_living(neighbours: Neighbours, lock: SessionLock) -> None:
    neighbours.are([1])
    assert neighbours.dead() == []


def test_file_that_can_be_locked_belongs_to_the_dead(neighbours: Neighbours, lock: SessionLock) -> None:
    neighbours.are([1])
    lock.release(is_session_over=False)
    assert [lapsed.session_id for lapsed in neighbours.dead()] == [1]


def test_session_without_a_lock_file_belongs_to_the_dead(neighbours: Neighbours) -> None:
    neighbours.are([1])
    assert [lapsed.session_id for lapsed in neighbours.dead()] == [1]


def test_only_one_finder_buries_the_dead_at_a_time(path: str, neighbours: Neighbours, lock: SessionLock) -> None:
    other = Neighbours(path)
    for finder in (neighbours, other):
        finder.are([1])
    lock.release(is_session_over=False)
    assert len(neighbours.dead()) == 1
    assert other.dead() == []
    neighbours.spare()
    assert len(other.dead()) == 1
    other.close()


def test_nothing_is_left_of_the_buried(path: str, neighbours: Neighbours, lock: SessionLock) -> None:
    neighbours.are([1])
    lock.release(is_session_over=False)
    neighbours.gone(neighbours.dead())
    assert os.listdir(os.path.dirname(path)) == []
    assert neighbours.dead() == []


def test_who_does_not_beat_for_the_timeout_is_found(neighbours: Neighbours, lock: SessionLock) -> None:
    neighbours.are([1])
    lock.beat(1.0)
    assert watch(neighbours, 0, TIMEOUT_MS - POLL_MS) == []
    assert watch(neighbours, TIMEOUT_MS, TIMEOUT_MS) == [1]


def test_who_beats_is_left_alone(neighbours: Neighbours, lock: SessionLock) -> None:
    neighbours.are([1])
    for beat in range(20):
        lock.beat(float(beat))
        begin_ms = beat * TIMEOUT_MS * 0.9
        assert watch(neighbours, begin_ms, begin_ms + TIMEOUT_MS * 0.8) == []


def test_our_own_pause_is_not_held_against_others(neighbours: Neighbours, lock: SessionLock) -> None:
    neighbours.are([1])
    assert watch(neighbours, 0, 200) == []
    assert watch(neighbours, 3_600_000, 3_600_200) == []
    lock.beat(2.0)
    assert watch(neighbours, 3_600_300, 3_600_300) == []


def test_slow_looks_find_the_silent_in_the_end(neighbours: Neighbours, lock: SessionLock) -> None:
    # A machine so loaded that we look only every ten seconds: each look counts for little, and yet counts.
    neighbours.are([1])
    looks = [len(watch(neighbours, now_ms, now_ms)) for now_ms in range(0, 200_000, 10_000)]
    assert looks.index(1) == 10


def test_timeout_is_the_one_the_owner_asked_for(path: str, neighbours: Neighbours, lock: SessionLock) -> None:
    patient = SessionLock.take(lock_path(path, 2), timeout_ms=10 * TIMEOUT_MS)
    assert patient is not None
    neighbours.are([1, 2])
    assert set(watch(neighbours, 0, 5 * TIMEOUT_MS)) == {1}
    patient.release(is_session_over=True)


def test_lock_files_of_nobody_are_swept_and_others_stay(path: str, neighbours: Neighbours, lock: SessionLock) -> None:
    directory = Path(path).parent
    for name in ("registry.sqlite.session-7", "registry.sqlite.session-8", "registry.sqlite-wal", "session-9"):
        (directory / name).write_bytes(b"")
    living = take(path, 9)
    neighbours.sweep([8])
    assert sorted(entry.name for entry in directory.iterdir()) == [
        "registry.sqlite-wal",
        "registry.sqlite.session-1",
        "registry.sqlite.session-8",
        "registry.sqlite.session-9",
        "session-9",
    ]
    living.release(is_session_over=True)


def test_lock_held_by_another_is_not_taken(path: str, lock: SessionLock) -> None:
    assert SessionLock.take(lock.path, timeout_ms=TIMEOUT_MS) is None


def test_descriptor_given_back_is_never_written_to(path: str, lock: SessionLock, tmp_path: Path) -> None:
    lock.release(is_session_over=True)
    innocent = os.open(tmp_path / "innocent", os.O_RDWR | os.O_CREAT)  # most likely under the same number
    lock.beat(1.0)
    assert os.pread(innocent, 16, 0) == b""
    os.close(innocent)


def test_program_we_start_does_not_keep_the_lock(neighbours: Neighbours, lock: SessionLock) -> None:
    command = [sys.executable, "-c", "import sys; sys.stdout.write('x'); sys.stdout.flush(); sys.stdin.read()"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, close_fds=False) as child:
        assert child.stdout is not None
        child.stdout.read(1)
        neighbours.are([1])
        lock.release(is_session_over=False)
        assert len(neighbours.dead()) == 1
        assert child.stdin is not None
        child.stdin.close()
