"""Open files and locks of the simulated disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.runtime.disk import Buffer, DiskFull, StorageFailure
from tidelog.simulation.disk_image import DirectoryNode, FileNode, Node, Truncate, Write

if TYPE_CHECKING:
    from tidelog.simulation.disk import SimulatedDisk


class SimulatedFile:
    """An open file; unusable after a crash, as the process that had it is gone."""

    __slots__ = ("_disk", "_incarnation", "_is_closed", "_node", "_path")

    def __init__(self, disk: SimulatedDisk, node: FileNode, path: str) -> None:
        self._disk = disk
        self._node = node
        self._path = path
        self._incarnation = disk.incarnation
        self._is_closed = False

    @property
    def path(self) -> str:
        """Where the file was opened, following later renames."""
        return self._path

    def size(self) -> int:
        """Length in bytes."""
        self._begin("stat")
        return len(self._node.content)

    def pread(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`; fewer only at the end of the file."""
        self._begin("read")
        if position < 0 or size < 0:
            raise StorageFailure("read", self._path, "Invalid argument")
        return bytes(memoryview(self._node.content)[position : position + size])

    def pwrite(self, position: int, chunks: Sequence[Buffer]) -> None:
        """Write all chunks; on a full disk what fits is written before DiskFull is raised."""
        self._begin("write")
        if position < 0:
            raise StorageFailure("write", self._path, "Invalid argument")
        data = b"".join(chunks)
        if data:
            room = max(len(self._node.content) - position + self._disk.room_bytes, 0)
            if room:
                self._disk.change_file(self._node, Write(position, data[:room]))
            self._disk.end("write", self._path)
            if len(data) > room:
                raise DiskFull("write", self._path, "No space left on device")

    def truncate(self, size: int) -> None:
        """Cut, or extend with zeros, to `size`."""
        self._begin("truncate")
        if size < 0:
            raise StorageFailure("truncate", self._path, "Invalid argument")
        self._disk.change_file(self._node, Truncate(size))
        self._disk.end("truncate", self._path)

    def fsync(self) -> None:
        """Make contents and length durable. If this fails, what it covered is never written, whatever later fsyncs say."""
        try:
            self._begin("fsync")
        except StorageFailure:
            self._node.fail_fsync()
            raise
        self._node.fsync()
        self._disk.end("fsync", self._path)

    def close(self) -> None:
        """Closing twice, or after a crash, is harmless."""
        self._is_closed = True
        self._disk.forget(self)

    def moved(self, node: Node, source: str, target: str) -> None:
        """Something was renamed; follow it if it was this file or a directory above."""
        if self._node is node or (isinstance(node, DirectoryNode) and self._path.startswith(f"{source}/")):
            self._path = target + self._path.removeprefix(source)

    def _begin(self, operation: str) -> None:
        if self._is_closed:
            raise StorageFailure(operation, self._path, "Bad file descriptor")
        if self._incarnation != self._disk.incarnation:
            raise StorageFailure(operation, self._path, "opened before the crash")
        self._disk.begin(operation, self._path)


class SimulatedLock:
    """Held until released or until the process is gone."""

    def __init__(self, disk: SimulatedDisk, path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        """Let the next one in; releasing twice is harmless."""
        self._disk.unlock(self._path, self)
