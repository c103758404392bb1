"""How the processes of one machine know of each other: a lock file per session, beside the database and never the database itself.

The owner keeps its file locked, and the kernel drops the lock with the process, also on SIGKILL: a file that can be locked belongs to the dead.
The owner writes the time of its monotonic clock into it, about every second and from its event loop: a stamp that stays the same
for the session's timeout belongs to somebody who is stopped, or stuck, and whose registrations others wait for. The stamp costs no flush and
no database write, so neither a full disk nor a locked database makes a living process look dead.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tidelog.registry.protocol import SessionId

POLL_MS: Final = 100.0
GAP_MS_MAX: Final = 5 * POLL_MS  # what counts of the time between two looks: our own pauses prove nothing about others
_LOOKS_MIN: Final = 10  # that see nobody beat before a session is over, however slowly they follow each other

_STAMP: Final = struct.Struct("<dQ")  # the owner's monotonic clock, the session's timeout in ms


def lock_path(registry_path: str, session_id: SessionId) -> str:
    """Where a session's lock file is."""
    return f"{registry_path}.session-{session_id}"


class SessionLock:
    """Our own lock file. Beats come from another thread than the one that closes it: a descriptor given back is never written to."""

    def __init__(self, path: str, descriptor: int, timeout_ms: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor
        self._timeout_ms = timeout_ms
        self._guard = threading.Lock()

    @classmethod
    def take(cls, path: str, *, timeout_ms: int) -> SessionLock | None:
        """Create the file, lock it and leave a first stamp; None if somebody else holds it."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not _is_locked_by_us(descriptor):
            os.close(descriptor)
            return None
        lock = cls(path, descriptor, timeout_ms)
        try:
            os.pwrite(descriptor, _STAMP.pack(0.0, timeout_ms), 0)
        except BaseException:
            _unlink(path)
            os.close(descriptor)
            raise
        return lock

    def beat(self, monotonic_ms: float) -> None:
        """Show that we are alive. A write that fails is not told: if it goes on, the others draw their conclusion."""
        with self._guard, contextlib.suppress(OSError):
            if self._descriptor is not None:
                os.pwrite(self._descriptor, _STAMP.pack(monotonic_ms, self._timeout_ms), 0)

    def release(self, *, is_session_over: bool) -> None:
        """Let go. The file stays for others to find the session dead, unless the session is known to be over."""
        with self._guard:
            descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            if is_session_over:
                _unlink(self.path)
            os.close(descriptor)


@dataclass(slots=True)
class _Neighbour:
    descriptor: int | None
    stamp: bytes = b""
    silent_ms: float = 0.0
    is_dead: bool = False  # and we hold its lock


@dataclass(frozen=True, slots=True, kw_only=True)
class Lapsed:
    """A session to be expired, and why."""

    session_id: SessionId
    why: str


class Neighbours:
    """The sessions of others, as seen through their lock files."""

    def __init__(self, registry_path: str) -> None:
        self._registry_path = registry_path
        self._neighbours: dict[SessionId, _Neighbour] = {}
        self._looked_ms: float | None = None

    def are(self, session_ids: Iterable[SessionId]) -> None:
        """These sessions exist, besides ours."""
        present = dict.fromkeys(session_ids)
        for session_id in [session_id for session_id in self._neighbours if session_id not in present]:
            self._drop(session_id)
        for session_id in present:
            if session_id not in self._neighbours:
                self._neighbours[session_id] = _Neighbour(_open(lock_path(self._registry_path, session_id)))

    def dead(self) -> list[Lapsed]:
        """Whose process is gone. Their locks are ours until `gone` or `spare`."""
        found: list[Lapsed] = []
        for session_id, neighbour in self._neighbours.items():
            if neighbour.descriptor is None:
                found.append(Lapsed(session_id=session_id, why="it has no lock file"))
            elif _is_locked_by_us(neighbour.descriptor):
                neighbour.is_dead = True
                found.append(Lapsed(session_id=session_id, why="its process is gone"))
        return found

    def silent(self, monotonic_ms: float) -> list[Lapsed]:
        """Who did not beat, in the time in which we kept looking, for as long as its session may be silent."""
        elapsed_ms = 0.0 if self._looked_ms is None else min(monotonic_ms - self._looked_ms, GAP_MS_MAX)
        self._looked_ms = monotonic_ms
        return [
            Lapsed(session_id=session_id, why=f"it was silent for {neighbour.silent_ms:.0f} ms")
            for session_id, neighbour in self._neighbours.items()
            if neighbour.descriptor is not None and _has_timed_out(neighbour, neighbour.descriptor, elapsed_ms)
        ]

    def gone(self, lapsed: Iterable[Lapsed]) -> None:
        """Their sessions are expired: nothing is left of them."""
        for gone in lapsed:
            _unlink(lock_path(self._registry_path, gone.session_id))
            self._drop(gone.session_id)

    def spare(self) -> None:
        """The lapsed could not be expired: let others try, or ourselves at the next look."""
        for neighbour in self._neighbours.values():
            if neighbour.is_dead and neighbour.descriptor is not None:
                fcntl.flock(neighbour.descriptor, fcntl.LOCK_UN)
            neighbour.is_dead = False

    def sweep(self, session_ids: Iterable[SessionId]) -> None:
        """Remove lock files that belong to none of these sessions and to no process. Called in a write transaction, so nobody is being born."""
        directory, name = os.path.split(os.path.abspath(self._registry_path))
        known = {os.path.basename(lock_path(name, session_id)) for session_id in session_ids}
        for entry in sorted(os.listdir(directory)):
            if entry.startswith(lock_path(name, 0)[:-1]) and entry not in known:
                _unlink_if_free(os.path.join(directory, entry))

    def close(self) -> None:
        """Give the descriptors back."""
        self.are(())

    def _drop(self, session_id: SessionId) -> None:
        neighbour = self._neighbours.pop(session_id, None)
        if neighbour is not None and neighbour.descriptor is not None:
            os.close(neighbour.descriptor)


def _has_timed_out(neighbour: _Neighbour, descriptor: int, elapsed_ms: float) -> bool:
    stamp = os.pread(descriptor, _STAMP.size, 0)
    if stamp != neighbour.stamp:
        neighbour.stamp, neighbour.silent_ms = stamp, 0.0
        return False
    if len(stamp) != _STAMP.size:
        return False
    timeout_ms = _STAMP.unpack(stamp)[1]
    neighbour.silent_ms += min(elapsed_ms, timeout_ms / _LOOKS_MIN)
    return bool(neighbour.silent_ms >= timeout_ms)


def _is_locked_by_us(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _open(path: str) -> int | None:
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _unlink_if_free(path: str) -> None:
    descriptor = _open(path)
    if descriptor is not None:
        try:
            if _is_locked_by_us(descriptor):
                _unlink(path)
        finally:
            os.close(descriptor)
