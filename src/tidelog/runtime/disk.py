"""Files and directories. Synchronous: what may block long (fsync, unlink of large files) goes through the `threads` of the log directory.

Nothing written is durable before `File.fsync`; no name (created, renamed, unlinked) is durable before `Disk.fsync_dir` of its directory.
The simulated twin forgets exactly what this contract allows it to forget.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Final, Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview


THREADS_PER_DIRECTORY: Final = 8
"""Flushes of several files that run side by side share the commits of the file system's journal."""


class StorageFailure(Exception):
    """The disk said no. The owner of the log directory takes it offline."""

    def __init__(self, operation: str, path: str, reason: str) -> None:
        super().__init__(f"{operation} {path}: {reason}")
        self.operation = operation
        self.path = path
        self.reason = reason

    def __reduce__(self) -> tuple[type[StorageFailure], tuple[str, str, str]]:
        # The child process sends its failures home pickled; the default would call us with the finished sentence only.
        return type(self), (self.operation, self.path, self.reason)


class DiskFull(StorageFailure):
    """No space left, quota reached, or out of file descriptors: the failures that may pass by themselves."""


class FileMissing(StorageFailure):
    """The file or directory is not there."""


class File(Protocol):
    """An open file. Positions are explicit; there is no cursor."""

    @property
    def path(self) -> str:
        """Where the file was opened, following later renames by `Disk.rename`."""
        ...

    def size(self) -> int:
        """Length in bytes."""
        ...

    def pread(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`; fewer only at the end of the file."""
        ...

    def pwrite(self, position: int, chunks: Sequence[Buffer]) -> None:
        """Write all chunks one after the other from `position`, or raise; after a raise any prefix may have been written."""
        ...

    def truncate(self, size: int) -> None:
        """Cut, or extend with zeros, to `size`."""
        ...

    def fsync(self) -> None:
        """Make contents and length durable. A failed fsync is never retried: what it covered may be gone."""
        ...

    def close(self) -> None:
        """Give the descriptor back; closing twice is harmless."""
        ...


class DiskLock(Protocol):
    """An exclusive lock that dies with its process."""

    def release(self) -> None:
        """Let the next one in."""
        ...


class Disk(Protocol):
    """Paths are absolute or relative to the process; separators are '/'."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; `create` makes an empty file where none is. Raises FileMissing."""
        ...

    def read(self, path: str) -> bytes:
        """The whole of a small file. Raises FileMissing."""
        ...

    def replace(self, path: str, content: bytes) -> None:
        """Durably and atomically replace a small file: temporary file, fsync, rename, directory fsync."""
        ...

    def exists(self, path: str) -> bool:
        """Whether a file or directory has this name."""
        ...

    def is_dir(self, path: str) -> bool:
        """Whether the name is a directory (a symbolic link is not)."""
        ...

    def listdir(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        ...

    def mkdir(self, path: str) -> None:
        """Make a directory and its missing parents, for the owner's eyes only; existing ones are left alone."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Atomically rename a file or directory, replacing a file at `target`; open files keep working under the new name."""
        ...

    def unlink(self, path: str) -> None:
        """Remove a file. Raises FileMissing."""
        ...

    def rmtree(self, path: str) -> None:
        """Remove a directory with all it holds; one that is gone already is fine."""
        ...

    def fsync_dir(self, path: str) -> None:
        """Make the names in a directory durable."""
        ...

    def mtime_ms(self, path: str) -> int:
        """When the file was last written, wall clock."""
        ...

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        """Pretend the file was last written then (compaction keeps the age of what it rewrites)."""
        ...

    def usable_bytes(self, path: str) -> int:
        """Space still free for us on the file system that holds `path`."""
        ...

    def total_bytes(self, path: str) -> int:
        """Size of the file system that holds `path`."""
        ...

    def boot_id(self) -> str:
        """Names the time since the machine was last switched on: under the same name, no unflushed write can have been lost."""
        ...

    def lock(self, path: str) -> DiskLock | None:
        """Take the exclusive lock on a (created) lock file, or None if another process holds it."""
        ...

    def threads(self, log_dir: str) -> Executor:
        """The few threads of a log directory, used through `loop.run_in_executor` only; they keep no order among themselves."""
        ...

    def child(self) -> Executor:
        """A low-priority child process that dies with us, used through `loop.run_in_executor` only; arguments are pickled."""
        ...

    def close(self) -> None:
        """End the threads and the child."""
        ...
