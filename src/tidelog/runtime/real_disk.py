"""The real disk: Linux files behind the `Disk` contract, every OSError turned into a StorageFailure that names operation and path."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import threading
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Final

from tidelog.runtime.disk import THREADS_PER_DIRECTORY, Buffer, DiskFull, File, FileMissing, StorageFailure
from tidelog.runtime.real_child import ChildProcess
from tidelog.runtime.real_room import Rooms

_FILE_MODE: Final = 0o600
_DIRECTORY_MODE: Final = 0o700
_CHUNKS_MAX: Final = 1024  # IOV_MAX on Linux
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW


class RealFile:
    """One descriptor. After `close` every operation fails."""

    __slots__ = ("__weakref__", "_disk", "_fd", "_path")

    def __init__(self, disk: RealDisk, fd: int, path: str) -> None:
        self._disk = disk
        self._fd = fd
        self._path = path

    @property
    def path(self) -> str:
        """Where the file was opened, following later renames by the disk that opened it."""
        return self._path

    def size(self) -> int:
        """Length in bytes."""
        with _failing("stat", self._path):
            return os.fstat(self._fd).st_size

    def pread(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`; fewer only at the end of the file."""
        try:
            data = os.pread(self._fd, size, position)
            if len(data) == size or not data:
                return data
            return self._pread_rest(data, position, size)
        except OSError as error:
            raise _failure("read", self._path, error) from error

    def pwrite(self, position: int, chunks: Sequence[Buffer]) -> None:
        """Write all chunks one after the other from `position`, or raise."""
        if position < 0:  # pwritev2 takes -1 for "where the cursor is" and would write there.
            raise StorageFailure("write", self._path, os.strerror(errno.EINVAL))
        try:
            if self._disk.rooms.are_short:
                self._disk.rooms.check(self._path)
            total = sum(map(len, chunks))
            if len(chunks) > _CHUNKS_MAX or os.pwritev(self._fd, chunks, position) != total:
                self._pwrite_piecewise(position, chunks)
        except OSError as error:
            if not self._disk.rooms.made_for(self._path, error):
                raise _failure("write", self._path, error) from error
            self.pwrite(position, chunks)  # the same bytes once more

    def truncate(self, size: int) -> None:
        """Cut, or extend with zeros, to `size`."""
        with _failing("truncate", self._path):
            os.ftruncate(self._fd, size)

    def fsync(self) -> None:
        """Make contents and length durable."""
        with _failing("fsync", self._path):
            if self._fd < 0:  # os.fsync would call it a ValueError.
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            os.fsync(self._fd)

    def close(self) -> None:
        """Give the descriptor back; closing twice is harmless."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._disk.forget(self)
            with _failing("close", self._path):
                os.close(fd)

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def renamed(self, path: str) -> None:
        """The disk moved the file."""
        self._path = path

    def _pread_rest(self, data: bytes, position: int, size: int) -> bytes:
        pieces = [data]
        read = len(data)
        while read < size and (piece := os.pread(self._fd, size - read, position + read)):
            pieces.append(piece)
            read += len(piece)
        return b"".join(pieces)

    def _pwrite_piecewise(self, position: int, chunks: Sequence[Buffer]) -> None:
        # Rewriting from the start after a short write is harmless: the bytes are the same.
        for chunk in chunks:
            rest = memoryview(chunk).cast("B")
            while rest:
                written = os.pwrite(self._fd, rest, position)
                if written == 0:
                    raise OSError(errno.EIO, "the disk took no bytes")
                position += written
                rest = rest[written:]


class RealLock:
    """An flock, which the kernel drops with the last descriptor; close-on-exec keeps it from children."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        """Let the next one in; releasing twice is harmless."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class RealDisk:
    """Files of this machine. Pickles without its executors and open files, so that the child process can be given one."""

    def __init__(self) -> None:
        self.rooms = Rooms()
        self._files: dict[str, dict[str, weakref.WeakSet[RealFile]]] = {}  # Open ones by directory and name.
        self._files_guard = threading.Lock()  # Log directory threads rename and close while the loop opens.
        self._threads: dict[str, ThreadPoolExecutor] = {}
        self._child: ChildProcess | None = None

    def __reduce__(self) -> tuple[type[RealDisk], tuple[()]]:
        return RealDisk, ()

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; a symbolic link is refused."""
        path = os.path.normpath(path)
        with _failing("open", path):
            flags = os.O_RDWR | _FLAGS | (os.O_CREAT if create else 0)
            fd = self.rooms.tried(path, lambda: os.open(path, flags, _FILE_MODE))
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                os.close(fd)
                raise OSError(errno.EINVAL, "not a regular file")
        file = RealFile(self, fd, path)
        with self._files_guard:
            directory, name = os.path.split(path)
            self._files.setdefault(directory, {}).setdefault(name, weakref.WeakSet()).add(file)
        return file

    def read(self, path: str) -> bytes:
        """The whole of a small file."""
        with _failing("read", path):
            fd = os.open(path, os.O_RDONLY | _FLAGS)
            with open(fd, "rb", buffering=0) as file:
                return file.readall()

    def replace(self, path: str, content: bytes) -> None:
        """Durably and atomically replace a small file: temporary file, fsync, rename, directory fsync."""
        with _failing("replace", path):
            self.rooms.tried(path, lambda: _write_and_rename(path, content))
        self.fsync_dir(os.path.dirname(path) or ".")

    def exists(self, path: str) -> bool:
        """Whether a file or directory has this name."""
        return self._mode(path) is not None

    def is_dir(self, path: str) -> bool:
        """Whether the name is a directory (a symbolic link is not)."""
        mode = self._mode(path)
        return mode is not None and stat.S_ISDIR(mode)

    def listdir(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        with _failing("list", path):
            return sorted(os.listdir(path))

    def mkdir(self, path: str) -> None:
        """Make a directory and its missing parents, for the owner's eyes only; existing ones are left alone."""
        with _failing("mkdir", path):
            if os.path.isdir(path):
                return
            parent = os.path.dirname(path.rstrip("/"))
            if parent:
                self.mkdir(parent)
            try:
                self.rooms.tried(path, lambda: os.mkdir(path, _DIRECTORY_MODE))
            except FileExistsError:
                if not os.path.isdir(path):
                    raise

    def rename(self, source: str, target: str) -> None:
        """Atomically rename a file or directory, replacing a file at `target`; open files keep working under the new name."""
        source, target = os.path.normpath(source), os.path.normpath(target)
        with _failing("rename", source), self._files_guard:
            os.rename(source, target)
            if source == target:
                return
            self._take(target)  # What was open there has lost its name.
            moved = self._take(source)
            if moved is not None:
                self._adopt(target, moved)
            elif os.path.isdir(target):
                self._move_below(source, target)

    def unlink(self, path: str) -> None:
        """Remove a file."""
        with _failing("unlink", path), self._files_guard:
            os.unlink(path)
            self._take(os.path.normpath(path))

    def rmtree(self, path: str) -> None:
        """Remove a directory with all it holds; one that is gone already is fine."""
        with _failing("rmtree", path):
            if os.path.lexists(path):
                shutil.rmtree(path)

    def fsync_dir(self, path: str) -> None:
        """Make the names in a directory durable."""
        with _failing("fsync", path):
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def mtime_ms(self, path: str) -> int:
        """When the file was last written, wall clock."""
        with _failing("stat", path):
            return os.lstat(path).st_mtime_ns // 1_000_000

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        """Pretend the file was last written then."""
        with _failing("utime", path):
            os.utime(path, ns=(mtime_ms * 1_000_000, mtime_ms * 1_000_000), follow_symlinks=False)

    def usable_bytes(self, path: str) -> int:
        """Space still free for records on the file system that holds `path`: none where only what was kept in reserve is left."""
        with _failing("statvfs", path):
            if self.rooms.are_short and self.rooms.is_short(path):
                return 0
            system = os.statvfs(path)
            return system.f_bavail * system.f_frsize

    def total_bytes(self, path: str) -> int:
        """Size of the file system that holds `path`."""
        with _failing("statvfs", path):
            system = os.statvfs(path)
            return system.f_blocks * system.f_frsize

    def boot_id(self) -> str:
        """The kernel's own name for this boot."""
        with _failing("read", _BOOT_ID), open(_BOOT_ID, encoding="ascii") as file:
            return file.read().strip()

    def lock(self, path: str) -> RealLock | None:
        """Take the exclusive lock on a (created) lock file, or None if another holder, in this process or another, has it."""
        with _failing("lock", path):
            fd = os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, _FILE_MODE)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                return None
            except OSError:
                os.close(fd)
                raise
            return RealLock(fd)

    def threads(self, log_dir: str) -> Executor:
        """The threads of a log directory."""
        log_dir = os.path.normpath(log_dir)
        if log_dir not in self._threads:
            self._threads[log_dir] = ThreadPoolExecutor(
                THREADS_PER_DIRECTORY, thread_name_prefix=f"disk:{os.path.basename(log_dir)}"
            )
        return self._threads[log_dir]

    def child(self) -> Executor:
        """A low-priority child process that dies with us."""
        if self._child is None:
            self._child = ChildProcess()
        return self._child

    def close(self) -> None:
        """End the threads, after what they were given, and the child, at once."""
        if self._child is not None:
            self._child.shutdown()
        for thread in self._threads.values():
            thread.shutdown()
        self._threads.clear()
        self._child = None

    def forget(self, file: RealFile) -> None:
        """The file was closed."""
        with self._files_guard:
            directory, name = os.path.split(file.path)
            same_name = self._files.get(directory, {}).get(name)
            if same_name is not None:
                same_name.discard(file)
                if not same_name:
                    self._take(file.path)

    def _take(self, path: str) -> weakref.WeakSet[RealFile] | None:
        """The open files of this name, which they lose."""
        directory, name = os.path.split(path)
        names = self._files.get(directory)
        if names is None:
            return None
        taken = names.pop(name, None)
        if not names:
            del self._files[directory]
        return taken

    def _adopt(self, path: str, files: weakref.WeakSet[RealFile]) -> None:
        directory, name = os.path.split(path)
        self._files.setdefault(directory, {})[name] = files
        for file in files:
            file.renamed(path)

    def _move_below(self, source: str, target: str) -> None:
        """Give the open files below a renamed directory their new names; costs what lies in it, not what is open elsewhere."""
        for name, files in self._files.pop(source, {}).items():
            self._adopt(f"{target}/{name}", files)
        with os.scandir(target) as entries:
            below = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        for name in below:
            self._move_below(f"{source}/{name}", f"{target}/{name}")

    def _mode(self, path: str) -> int | None:
        with _failing("stat", path):
            try:
                return os.lstat(path).st_mode
            except (FileNotFoundError, NotADirectoryError):
                return None


def _write_and_rename(path: str, content: bytes) -> None:
    temporary = f"{path}.tmp"
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _FLAGS, _FILE_MODE)
        with open(fd, "wb", buffering=0) as file:
            rest = memoryview(content)
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(fd)
        os.rename(temporary, path)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
        raise


@contextmanager
def _failing(operation: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _failure(operation, path, error) from error


def _failure(operation: str, path: str, error: OSError) -> StorageFailure:
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE):  # All of them may pass by themselves.
        return DiskFull(operation, path, reason)
    if error.errno == errno.ENOENT:
        return FileMissing(operation, path, reason)
    return StorageFailure(operation, path, reason)
