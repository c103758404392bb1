"""Open files and locks of the simulated disk, and the state of the machine they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from tidelog.runtime.clock import Clock
from tidelog.runtime.disk import Buffer, DiskFull, StorageFailure
from tidelog.simulation.disk_faults import DiskFaults, Operation, OperationHook, PowerCut
from tidelog.simulation.disk_image import DirectoryNode, FileNode, Node, Truncate, Write


class DiskState:
    """Is there power, is there room, which process is it, what does it hold open; every operation begins and ends here."""

    def __init__(self, clock: Clock, capacity_bytes: int) -> None:
        self.faults = DiskFaults()
        self.incarnation = 0
        self.operation_count = 0
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        self.refused_count = 0
        self.files: dict[SimulatedFile, None] = {}
        self.locks: dict[str, SimulatedLock] = {}
        self.hooks: list[OperationHook] = []
        self.is_off = False
        self.off_after: int | None = None
        self._clock = clock

    @property
    def room_bytes(self) -> int:
        """Space still free."""
        return max(self.capacity_bytes - self.used_bytes, 0)

    def begin(self, operation: str, path: str) -> None:
        """Is there power, is a fault due?"""
        if self.is_off or (self.off_after is not None and self.operation_count >= self.off_after):
            self.is_off = True
            raise PowerCut
        self.faults.check(operation, path)

    def end(self, operation: str, path: str) -> None:
        """A change is done: it is counted, and whoever watches is told."""
        self.operation_count += 1
        for hook in self.hooks:
            hook(Operation(number=self.operation_count, name=operation, path=path))

    def refuse(self, operation: str, path: str) -> NoReturn:
        """There is no room."""
        self.refused_count += 1
        raise DiskFull(operation, path, "No space left on device")

    def change(self, node: FileNode, change: Write | Truncate) -> None:
        """Write or truncate, with the space and the time kept."""
        before = len(node.content)
        node.change(change)
        node.mtime_ms = self._clock.wall_ms()
        if node.has_name:
            self.used_bytes += len(node.content) - before

    def lose_name(self, node: FileNode) -> None:
        """The file was unlinked or replaced: its space is free, whoever still has it open."""
        node.has_name = False
        self.used_bytes -= len(node.content)

    def begin_incarnation(self, used_bytes: int) -> None:
        """The process is gone, with its files and locks; the next one finds the power on."""
        self.incarnation += 1
        self.used_bytes = used_bytes
        self.is_off = False
        self.off_after = None
        self.files.clear()
        self.locks.clear()


class SimulatedFile:
    """An open file; unusable after a crash, as the process that had it is gone."""

    __slots__ = ("_incarnation", "_is_closed", "_node", "_path", "_state")

    def __init__(self, state: DiskState, node: FileNode, path: str) -> None:
        self._state = state
        self._node = node
        self._path = path
        self._incarnation = state.incarnation
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
            room = max(len(self._node.content) - position + self._state.room_bytes, 0)
            if room:
                self._state.change(self._node, Write(position, data[:room]))
            self._state.end("write", self._path)
            if len(data) > room:
                self._state.refuse("write", self._path)

    def truncate(self, size: int) -> None:
        """Cut, or extend with zeros, to `size`."""
        self._begin("truncate")
        if size < 0:
            raise StorageFailure("truncate", self._path, "Invalid argument")
        self._state.change(self._node, Truncate(size))
        self._state.end("truncate", self._path)

    def fsync(self) -> None:
        """Make contents and length durable. If this fails, what it covered is never written, whatever later fsyncs say."""
        try:
            self._begin("fsync")
        except StorageFailure:
            self._node.fail_fsync()
            raise
        self._node.fsync()
        self._state.end("fsync", self._path)

    def close(self) -> None:
        """Closing twice, or after a crash, is harmless."""
        self._is_closed = True
        self._state.files.pop(self, None)

    def moved(self, node: Node, source: str, target: str) -> None:
        """Something was renamed; follow it if it was this file or a directory above."""
        if self._node is node or (isinstance(node, DirectoryNode) and self._path.startswith(f"{source}/")):
            self._path = target + self._path.removeprefix(source)

    def _begin(self, operation: str) -> None:
        if self._is_closed:
            raise StorageFailure(operation, self._path, "Bad file descriptor")
        if self._incarnation != self._state.incarnation:
            raise StorageFailure(operation, self._path, "opened before the crash")
        self._state.begin(operation, self._path)


class SimulatedLock:
    """Held until released or until the process is gone."""

    def __init__(self, state: DiskState, path: str) -> None:
        self._state = state
        self._path = path

    def release(self) -> None:
        """Let the next one in; releasing twice is harmless."""
        if self._state.locks.get(self._path) is self:
            del self._state.locks[self._path]
