"""The simulated disk: byte-offset files in memory that forget, tear, fill up and fail as real ones do.

`SimulatedDisk()` needs nothing else: no loop, no world. Cut the power with `crash`, inject errors through `faults`, walk every crash
point with `cut_power_after`.
"""

from __future__ import annotations

import copy
import posixpath
from concurrent.futures import Executor

from tidelog.runtime.disk import THREADS_PER_DIRECTORY, FileMissing, StorageFailure
from tidelog.simulation.disk_executor import SimulatedChild, SimulatedExecutor
from tidelog.simulation.disk_file import SimulatedFile, SimulatedLock
from tidelog.simulation.disk_hardware import DiskHardware, parts
from tidelog.simulation.disk_image import (
    DirectoryNode,
    FileNode,
    Name,
    NameChange,
    Node,
)


class SimulatedDisk(DiskHardware):
    """One node's disk. Outlives the node's processes; each `crash` ends one `incarnation`."""

    # The Disk contract.

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        """Open for reading and writing."""
        path = posixpath.normpath(path)
        node = self._find(path)
        self._state.begin("create" if node is None and create else "open", path)
        if node is None and create:
            node = FileNode(self._clock.wall_ms())
            self._change_name("create", path, NameChange(node=node, target=self._place_for("create", path)))
        if node is None:
            raise FileMissing("open", path, "No such file or directory")
        if isinstance(node, DirectoryNode):
            raise StorageFailure("open", path, "Is a directory")
        file = SimulatedFile(self._state, node, path)
        self._state.files[file] = None
        return file

    def read(self, path: str) -> bytes:
        """The whole of a small file."""
        self._state.begin("read", path)
        node = self._present("read", path)
        if isinstance(node, DirectoryNode):
            raise StorageFailure("read", path, "Is a directory")
        return bytes(node.content)

    def replace(self, path: str, content: bytes) -> None:
        """Temporary file, fsync, rename, directory fsync: four crash points and more."""
        temporary = f"{path}.tmp"
        file = self.open(temporary, create=True)
        try:
            file.truncate(0)
            file.pwrite(0, [content])
            file.fsync()
            self.rename(temporary, path)
        except StorageFailure:
            self._discard(temporary)
            raise
        finally:
            file.close()
        self.fsync_dir(posixpath.dirname(path) or ".")

    def exists(self, path: str) -> bool:
        """Whether a file or directory has this name."""
        self._state.begin("stat", path)
        return self._find(path) is not None

    def is_dir(self, path: str) -> bool:
        """Whether the name is a directory."""
        self._state.begin("stat", path)
        return isinstance(self._find(path), DirectoryNode)

    def listdir(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        self._state.begin("list", path)
        return sorted(self._directory("list", path).entries)

    def mkdir(self, path: str) -> None:
        """Make a directory and its missing parents."""
        path = posixpath.normpath(path)
        node = self._find(path)
        if node is None:
            parent = posixpath.dirname(path)
            if parent:
                self.mkdir(parent)
            self._state.begin("mkdir", path)
            self._change_name("mkdir", path, NameChange(node=DirectoryNode(), target=self._place_for("mkdir", path)))
        elif isinstance(node, FileNode):
            raise StorageFailure("mkdir", path, "File exists")

    def rename(self, source: str, target: str) -> None:
        """Atomically rename a file or directory, replacing a file (or, with a directory, an empty directory) at `target`."""
        source, target = posixpath.normpath(source), posixpath.normpath(target)
        self._state.begin("rename", source)
        node = self._present("rename", source)
        replaced = self._find(target)
        if replaced is node:
            return
        if target.startswith(f"{source}/"):
            raise StorageFailure("rename", source, "Invalid argument")
        _check_replaceable(source, node, replaced)
        change = NameChange(
            node=node, source=self._place("rename", source), target=self._place("rename", target), replaced=replaced
        )
        if isinstance(replaced, FileNode):
            self._state.lose_name(replaced)
        self._image.change(change)
        for file in self._state.files:
            file.moved(node, source, target)
        self._state.end("rename", source)

    def unlink(self, path: str) -> None:
        """Remove a file."""
        self._state.begin("unlink", path)
        node = self._present("unlink", path)
        if isinstance(node, DirectoryNode):
            raise StorageFailure("unlink", path, "Is a directory")
        self._state.lose_name(node)
        self._change_name("unlink", path, NameChange(node=node, source=self._place("unlink", path)))

    def rmtree(self, path: str) -> None:
        """Remove a directory with all it holds, one name at a time."""
        path = posixpath.normpath(path)
        node = self._find(path)
        if node is None:
            return
        for name in self.listdir(path):
            below = f"{path}/{name}"
            if self.is_dir(below):
                self.rmtree(below)
            else:
                self.unlink(below)
        self._state.begin("rmdir", path)
        self._change_name("rmdir", path, NameChange(node=node, source=self._place("rmdir", path)))

    def fsync_dir(self, path: str) -> None:
        """Make the names in a directory durable."""
        self._state.begin("fsync_dir", path)
        self._image.fsync_dir(self._directory("fsync_dir", path))
        self._state.end("fsync_dir", path)

    def mtime_ms(self, path: str) -> int:
        """When the file was last written, by the wall clock of the node."""
        self._state.begin("stat", path)
        node = self._present("stat", path)
        return node.mtime_ms if isinstance(node, FileNode) else 0

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        """Pretend the file was last written then."""
        self._state.begin("utime", path)
        node = self._present("utime", path)
        if isinstance(node, FileNode):
            node.mtime_ms = mtime_ms
        self._state.end("utime", path)

    def usable_bytes(self, path: str) -> int:
        """Space still free."""
        self._state.begin("stat", path)
        return self._state.room_bytes

    def total_bytes(self, path: str) -> int:
        """Size of the disk."""
        self._state.begin("stat", path)
        return self._state.capacity_bytes

    def boot_id(self) -> str:
        """Changes with every power cut, and with nothing else."""
        return f"boot-{self._power_cut_count}"

    def lock(self, path: str) -> SimulatedLock | None:
        """Take the exclusive lock on a (created) lock file, or None if it is held."""
        path = posixpath.normpath(path)
        self._state.begin("lock", path)
        self.open(path, create=True).close()
        if path in self._state.locks:
            return None
        self._state.locks[path] = lock = SimulatedLock(self._state, path)
        return lock

    def threads(self, log_dir: str) -> Executor:
        """The threads of a log directory."""
        return self._thread(log_dir)

    def child(self) -> SimulatedChild:
        """A child process."""
        if self._child is None:
            self._child = SimulatedChild(lambda: self._randomness.between(*self.child_latency_ms), self)
        return self._child

    def close(self) -> None:
        """Nothing runs that would have to end."""

    # What a test or a fault does to the disk; more of it in `disk_hardware`.

    def copy(self) -> SimulatedDisk:
        """The disk as it is now, flushed or not, in another machine: what is done to the copy is not done to this one."""
        twin = SimulatedDisk(self._clock, self._randomness.stream("copy"), capacity_bytes=self._capacity_bytes)
        twin._image = copy.deepcopy(self._image)
        twin._begin_incarnation()
        return twin

    def stall(self, log_dir: str, *, duration_ms: float) -> None:
        """The thread of `log_dir` begins nothing new for a while, as a disk does whose controller resets."""
        self._thread(log_dir).stall_until(self._clock.monotonic_ms() + duration_ms)

    def end_stall(self, log_dir: str) -> None:
        """The disk is itself again, for all that comes from now on."""
        self._thread(log_dir).end_stall(self._clock.monotonic_ms())

    def _thread(self, log_dir: str) -> SimulatedExecutor:
        log_dir = posixpath.normpath(log_dir)
        if log_dir not in self._threads:
            self._threads[log_dir] = SimulatedExecutor(
                lambda: self._randomness.between(*self.thread_latency_ms), workers=THREADS_PER_DIRECTORY
            )
        return self._threads[log_dir]

    def _change_name(self, operation: str, path: str, change: NameChange) -> None:
        self._image.change(change)
        self._state.end(operation, path)

    def _discard(self, path: str) -> None:
        try:
            self.unlink(path)
        except StorageFailure:
            return  # The failure that brought us here is the one to report.

    def _present(self, operation: str, path: str) -> Node:
        node = self._find(path)
        if node is None:
            raise FileMissing(operation, path, "No such file or directory")
        return node

    def _directory(self, operation: str, path: str) -> DirectoryNode:
        node = self._present(operation, path)
        if isinstance(node, FileNode):
            raise StorageFailure(operation, path, "Not a directory")
        return node

    def _place(self, operation: str, path: str) -> Name:
        names = parts(path)
        if not names:
            raise StorageFailure(operation, path, "Device or resource busy")
        parent = self._find("/".join(names[:-1]))
        if parent is None:
            raise FileMissing(operation, path, "No such file or directory")
        if isinstance(parent, FileNode):
            raise StorageFailure(operation, path, "Not a directory")
        return Name(parent, names[-1])

    def _place_for(self, operation: str, path: str) -> Name:
        place = self._place(operation, path)
        if self._state.room_bytes == 0:
            self._state.refuse(operation, path)
        return place


def _check_replaceable(source: str, node: Node, replaced: Node | None) -> None:
    if isinstance(replaced, DirectoryNode):
        if isinstance(node, FileNode):
            raise StorageFailure("rename", source, "Is a directory")
        if replaced.entries:
            raise StorageFailure("rename", source, "Directory not empty")
    if isinstance(replaced, FileNode) and isinstance(node, DirectoryNode):
        raise StorageFailure("rename", source, "Not a directory")
