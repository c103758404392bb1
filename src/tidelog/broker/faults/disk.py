"""A disk that can be full while there is room: nothing is written any more, and what is there can be read and removed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor

from tidelog.runtime import Disk, DiskFull, File
from tidelog.runtime.disk import Buffer, DiskLock

_REASON = "no space left on device, by a fault of a test"


class FillableDisk:
    """Every operation is that of the disk below, or DiskFull."""

    def __init__(self, below: Disk, is_full: Callable[[], bool]) -> None:
        self._below = below
        self._is_full = is_full

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; a new file wants room for its name."""
        if create and not self._below.exists(path):
            self._want_room("open", path)
        return _FillableFile(self._below.open(path, create=create), self._want_room)

    def read(self, path: str) -> bytes:
        """The whole of a small file."""
        return self._below.read(path)

    def replace(self, path: str, content: bytes) -> None:
        """Durably and atomically replace a small file."""
        self._want_room("replace", path)
        self._below.replace(path, content)

    def exists(self, path: str) -> bool:
        """Whether a file or directory has this name."""
        return self._below.exists(path)

    def is_dir(self, path: str) -> bool:
        """Whether the name is a directory."""
        return self._below.is_dir(path)

    def listdir(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        return self._below.listdir(path)

    def mkdir(self, path: str) -> None:
        """Make a directory and its missing parents."""
        if not self._below.exists(path):
            self._want_room("mkdir", path)
        self._below.mkdir(path)

    def rename(self, source: str, target: str) -> None:
        """Rename: a full disk has room for that."""
        self._below.rename(source, target)

    def unlink(self, path: str) -> None:
        """Remove a file."""
        self._below.unlink(path)

    def rmtree(self, path: str) -> None:
        """Remove a directory with all it holds."""
        self._below.rmtree(path)

    def fsync_dir(self, path: str) -> None:
        """Make the names in a directory durable."""
        self._below.fsync_dir(path)

    def mtime_ms(self, path: str) -> int:
        """When the file was last written."""
        return self._below.mtime_ms(path)

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        """Pretend the file was last written then."""
        self._below.set_mtime_ms(path, mtime_ms)

    def usable_bytes(self, path: str) -> int:
        """None, while it is full."""
        return 0 if self._is_full() else self._below.usable_bytes(path)

    def total_bytes(self, path: str) -> int:
        """Size of the file system."""
        return self._below.total_bytes(path)

    def boot_id(self) -> str:
        """Names the time since the machine was last switched on."""
        return self._below.boot_id()

    def lock(self, path: str) -> DiskLock | None:
        """Take the exclusive lock."""
        return self._below.lock(path)

    def threads(self, log_dir: str) -> Executor:
        """The threads of a log directory."""
        return self._below.threads(log_dir)

    def child(self) -> Executor:
        """A child process, which has the disk below: what is compacted meanwhile still finds room."""
        return self._below.child()

    def close(self) -> None:
        """End the threads and the child."""
        self._below.close()

    def _want_room(self, operation: str, path: str) -> None:
        if self._is_full():
            raise DiskFull(operation, path, _REASON)


class _FillableFile:
    """A file of such a disk."""

    def __init__(self, below: File, want_room: Callable[[str, str], None]) -> None:
        self._below = below
        self._want_room = want_room
        self.size = below.size
        self.pread = below.pread
        self.fsync = below.fsync
        self.close = below.close

    @property
    def path(self) -> str:
        """Where it is now."""
        return self._below.path

    def pwrite(self, position: int, chunks: Sequence[Buffer]) -> None:
        """Write where there is room; over what is there already, too, for simplicity."""
        self._want_room("write", self._below.path)
        self._below.pwrite(position, chunks)

    def truncate(self, size: int) -> None:
        """Cut; longer only where there is room."""
        if size > self._below.size():
            self._want_room("truncate", self._below.path)
        self._below.truncate(size)
