"""What lies below a simulated disk's files: the platter, its power, its room and its rot, and what can be done to them."""

from __future__ import annotations

import posixpath
from fnmatch import fnmatchcase
from typing import Final

from tidelog.model import invariant
from tidelog.runtime.clock import Clock
from tidelog.runtime.disk import FileMissing
from tidelog.simulation.clock import SimulatedClock
from tidelog.simulation.disk_executor import SimulatedChild, SimulatedExecutor
from tidelog.simulation.disk_faults import DiskFaults, OperationHook
from tidelog.simulation.disk_file import DiskState
from tidelog.simulation.disk_image import DirectoryNode, DiskImage, FileNode, Loss, Node
from tidelog.simulation.randomness import SimulatedRandomness

_CAPACITY_BYTES: Final = 1 << 40


class DiskHardware:
    """A platter with power. Files are made of it by `SimulatedDisk`."""

    def __init__(
        self,
        clock: Clock | None = None,
        randomness: SimulatedRandomness | None = None,
        *,
        capacity_bytes: int = _CAPACITY_BYTES,
    ) -> None:
        self.thread_latency_ms = (0.2, 5.0)
        self.child_latency_ms = (20.0, 500.0)
        self.harm_count = 0
        """How often somebody put in another disk, or a bit turned: what was flushed need not be there after that."""
        self._power_cut_count = 0
        self._clock = clock or SimulatedClock()
        self._state = DiskState(self._clock, capacity_bytes)
        self.open_files = self._state.files
        self._randomness = randomness or SimulatedRandomness("disk")
        self._image = DiskImage()
        self._capacity_bytes = capacity_bytes
        self._threads: dict[str, SimulatedExecutor] = {}
        self._child: SimulatedChild | None = None

    @property
    def faults(self) -> DiskFaults:
        """What fails next."""
        return self._state.faults

    @property
    def incarnation(self) -> int:
        """How many crashes this disk has seen."""
        return self._state.incarnation

    @property
    def refused_count(self) -> int:
        """How many operations found no room."""
        return self._state.refused_count

    @property
    def operation_count(self) -> int:
        """How many changes were made to this disk."""
        return self._state.operation_count

    # Power.

    def crash(self, *, lose: Loss = Loss.ALL, seed: int | None = None) -> None:
        """End the process that used this disk, losing exactly `lose`; with a `seed` the power cut keeps, loses and tears by chance."""
        if lose is not Loss.NOTHING or seed is not None:
            self._power_cut_count += 1
        if seed is None:
            self._image.crash(lose)
        else:
            self._image.crash_by_chance(SimulatedRandomness(f"crash/{seed}"))
        self._begin_incarnation()

    def cut_power(self) -> None:
        """Lose, keep and tear what is unflushed as the disk's own stream of chance says."""
        self._power_cut_count += 1
        self._image.crash_by_chance(self._randomness)
        self._begin_incarnation()

    def wipe(self) -> None:
        """Somebody put an empty disk into the machine while it was off."""
        self._image = DiskImage()
        self.harm_count += 1
        self._power_cut_count += 1
        self._begin_incarnation()
        self._state.is_off = True

    def switch_off(self) -> None:
        """The node is down: every call raises PowerCut until `crash` or `cut_power` says what the disk comes back with."""
        self._state.is_off = True

    def cut_power_after(self, operations: int) -> None:
        """Raise PowerCut once `operations` more changes are done, and from every call after that, until `crash` brings the disk back."""
        self._state.off_after = self.operation_count + operations

    def on_operation(self, hook: OperationHook) -> None:
        """Call `hook` after every change to the disk (reads are not counted); what it raises comes out of the operation."""
        self._state.hooks.append(hook)

    def fill_up(self, *, after_bytes: int = 0) -> None:
        """Leave room for `after_bytes` more; deleting files makes room too."""
        self._state.capacity_bytes = self._state.used_bytes + after_bytes

    def free_up(self) -> None:
        """The disk is as large again as it ever was."""
        self._state.capacity_bytes = self._capacity_bytes

    def flip_bit(self, path: str, *, position: int, bit: int = 0) -> None:
        """Rot: a bit of the file turns, on the platter and for every reader."""
        node = self._find(path)
        if node is None:
            raise FileMissing("rot", path, "No such file or directory")
        invariant(isinstance(node, FileNode), "only files rot")
        if isinstance(node, FileNode):
            self.harm_count += 1
            node.flip_bit(position, bit)

    # Looking on.

    def look_at(self, pattern: str) -> dict[str, bytes]:
        """What the files hold whose paths match a shell pattern, in the order of the paths, whether the machine is on or not."""
        return {path: bytes(node.content) for path, node in self._image.paths() if fnmatchcase(path, pattern)}

    def count_of(self, pattern: str) -> int:
        """How many files have paths that match a shell pattern."""
        return sum(fnmatchcase(path, pattern) for path, _ in self._image.paths())

    def peek(self, path: str) -> FileNode | None:
        """The file at a path, for an onlooker: no fault strikes and nothing is counted. None where no file is."""
        node = self._find(path)
        return node if isinstance(node, FileNode) else None

    def _begin_incarnation(self) -> None:
        self._state.begin_incarnation(sum(len(node.content) for node in self._image.files()))
        self._threads.clear()
        self._child = None

    def _find(self, path: str) -> Node | None:
        node: Node | None = self._image.root
        for name in parts(path):
            if not isinstance(node, DirectoryNode):
                return None
            node = node.entries.get(name)
        return node


def parts(path: str) -> list[str]:
    """The names on the way to a path."""
    return [part for part in posixpath.normpath(path).split("/") if part not in ("", ".")]
