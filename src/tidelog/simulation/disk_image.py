"""What a disk remembers and what it may forget: files as a durable image plus unflushed changes, names as durable entries plus changes.

The model is the contract of `runtime.disk`, taken at its worst: a write is safe after fsync of its file, a name after fsync of its
directory, and nothing else is. A rename is atomic. After a power cut every unflushed change may be there, not there, or (a write) there
in part, in any combination, except one that would make a file vanish that was never touched.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from tidelog.simulation.randomness import SimulatedRandomness

SECTOR_BYTES: Final = 512


class Loss(enum.Enum):
    """What a crash takes."""

    NOTHING = "nothing"  # The process died (kill -9); the kernel still has every page and name.
    ALL = "all"  # Power cut: everything unflushed is gone.
    CONTENTS = "contents"  # Power cut: names survived, unflushed contents did not (files of length zero).
    NAMES = "names"  # Power cut: contents survived, names that were not flushed did not (files that vanish).


class Write(NamedTuple):
    """Bytes put at a position."""

    position: int
    data: bytes


class Truncate(NamedTuple):
    """A new length."""

    size: int


class Extend(NamedTuple):
    """A length that grew although the bytes never came (delayed allocation); never shrinks a file."""

    size: int


Change: TypeAlias = Write | Truncate | Extend
Survivors: TypeAlias = Callable[[list[Change]], list[Change]]


class FileNode:
    """A file's contents as readers see them, as the platter has them, and what lies between."""

    __slots__ = ("content", "durable", "has_name", "mtime_ms", "pending", "rot")

    def __init__(self, mtime_ms: int) -> None:
        self.content = bytearray()
        self.durable = bytearray()
        self.pending: list[Change] = []
        self.rot: list[int] = []  # where a fault has changed bytes that nobody has replaced since
        self.mtime_ms = mtime_ms
        self.has_name = True  # Without one it takes no space that anybody counts.

    @property
    def is_rotten(self) -> bool:
        """Whether a fault has changed bytes that are still there."""
        return bool(self.rot)

    def change(self, change: Change) -> None:
        """Write or truncate, in memory only."""
        _apply(self.content, change)
        self.pending.append(change)
        if self.rot and isinstance(change, Truncate):
            self.rot = [position for position in self.rot if position < change.size]

    def flip_bit(self, position: int, bit: int) -> None:
        """Rot, on the platter and for every reader."""
        self.content[position] ^= 1 << bit
        if position < len(self.durable):
            self.durable[position] ^= 1 << bit
        self.rot.append(position)

    def fsync(self) -> None:
        """Everything changed so far reaches the platter, except what an earlier failed fsync dropped."""
        for change in self.pending:
            _apply(self.durable, change)
        self.pending.clear()

    def fail_fsync(self) -> None:
        """The kernel reports an error once and then calls the pages clean: readers see them, no later fsync writes them."""
        self.pending.clear()

    def crash(self, survivors: Survivors) -> None:
        """The machine is off; what `survivors` picks of the unflushed changes had made it."""
        for change in survivors(self.pending):
            _apply(self.durable, change)
        self.pending.clear()
        self.content = bytearray(self.durable)


class DirectoryNode:
    """Names as everybody sees them, and as the platter has them."""

    __slots__ = ("durable", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}


Node: TypeAlias = FileNode | DirectoryNode


class Name(NamedTuple):
    """A place for a node."""

    directory: DirectoryNode
    name: str


@dataclass(slots=True, kw_only=True)
class NameChange:
    """`node` leaves `source` (None: it is new) and arrives at `target` (None: it is gone), atomically."""

    node: Node
    source: Name | None = None
    target: Name | None = None
    replaced: Node | None = None
    unsynced: list[DirectoryNode] = field(default_factory=list)

    def __post_init__(self) -> None:
        for place in (self.source, self.target):
            if place is not None and not any(each is place.directory for each in self.unsynced):
                self.unsynced.append(place.directory)

    def perform(self) -> None:
        """Change the names everybody sees."""
        if self.source is not None:
            del self.source.directory.entries[self.source.name]
        if self.target is not None:
            self.target.directory.entries[self.target.name] = self.node

    def commit(self) -> None:
        """Change the names on the platter, unless the platter never saw what this change stands on."""
        if self.target is not None:
            there = self.target.directory.durable.get(self.target.name)
            if there is not None and there is not self.replaced and there is not self.node:
                return
            self.target.directory.durable[self.target.name] = self.node
        if self.source is not None and self.source.directory.durable.get(self.source.name) is self.node:
            del self.source.directory.durable[self.source.name]


class DiskImage:
    """The tree of names and the changes to it that no directory fsync has made durable."""

    def __init__(self) -> None:
        self.root = DirectoryNode()
        self._pending: list[NameChange] = []

    def change(self, change: NameChange) -> None:
        """Create, rename or remove a name, in memory only."""
        change.perform()
        self._pending.append(change)

    def fsync_dir(self, directory: DirectoryNode) -> None:
        """Names in `directory` reach the platter; a rename between two directories waits for both."""
        for change in self._pending:
            change.unsynced = [each for each in change.unsynced if each is not directory]
            if not change.unsynced:
                change.commit()
        self._pending = [change for change in self._pending if change.unsynced]

    def crash(self, lose: Loss) -> None:
        """Forget exactly what `lose` says."""
        if lose is Loss.NOTHING:
            return
        kept_names = self._pending if lose is Loss.CONTENTS else []
        self._restart(kept_names, (lambda pending: pending) if lose is Loss.NAMES else (lambda _: []))

    def crash_by_chance(self, randomness: SimulatedRandomness) -> None:
        """Forget, keep and tear as the seed says: first the names, then each file on its own."""
        self._restart(
            _surviving_names(self._pending, randomness), lambda pending: surviving_changes(pending, randomness)
        )

    def files(self) -> list[FileNode]:
        """Every file that has a name."""
        return [node for _, node in self.paths()]

    def paths(self) -> list[tuple[str, FileNode]]:
        """Every file that has a name, with it, in the order of the names."""
        found: list[tuple[str, FileNode]] = []
        waiting: list[tuple[str, DirectoryNode]] = [("", self.root)]
        while waiting:
            above, directory = waiting.pop()
            for name, node in directory.entries.items():
                if isinstance(node, FileNode):
                    found.append((f"{above}/{name}", node))
                else:
                    waiting.append((f"{above}/{name}", node))
        return sorted(found, key=lambda entry: entry[0])

    def _restart(self, kept: list[NameChange], survivors: Survivors) -> None:
        for change in kept:
            change.commit()
        self._pending = []
        waiting: list[DirectoryNode] = [self.root]
        while waiting:
            directory = waiting.pop()
            directory.entries = dict(sorted(directory.durable.items(), key=lambda entry: entry[0]))
            for node in directory.entries.values():
                if isinstance(node, FileNode):
                    node.has_name = True
                    node.crash(survivors)
                else:
                    waiting.append(node)


def surviving_changes(pending: list[Change], randomness: SimulatedRandomness) -> list[Change]:
    """Which unflushed changes of one file a power cut leaves, in which shape. Covers rows D02, D03 and D04 of the fault matrix."""
    if not pending:
        return []
    kept = randomness.below(len(pending))
    match randomness.below(7):
        case 0:
            return []
        case 1:
            return pending
        case 2:
            return pending[:kept]
        case 3:  # A torn write: any number of its first bytes.
            return [*pending[:kept], *_torn(pending[kept], randomness)]
        case 4:  # A lost middle: what lies behind it made it, zeros stand in its place.
            return [*pending[:kept], *pending[kept + 1 :]]
        case 5:  # Written back in any order: each sector on its own.
            return [piece for change in pending for piece in _sectors(change) if randomness.below(2)]
        case _:  # Delayed allocation: the length made it, the bytes did not.
            return [*pending[:kept], *map(_length_only, pending[kept:])]


def _surviving_names(pending: list[NameChange], randomness: SimulatedRandomness) -> list[NameChange]:
    match randomness.below(4):
        case 0:
            return []
        case 1:
            return pending
        case 2:
            return pending[: randomness.below(len(pending) + 1)]
        case _:
            return [change for change in pending if randomness.below(2)]


def _apply(image: bytearray, change: Change) -> None:
    size = len(image)
    match change:
        case Write(position, data):
            if position > size:
                image.extend(bytes(position - size))
            image[position : position + len(data)] = data
        case Truncate(new_size) if new_size < size:
            del image[new_size:]
        case Truncate(new_size) | Extend(new_size):
            image.extend(bytes(max(new_size - size, 0)))


def _torn(change: Change, randomness: SimulatedRandomness) -> list[Change]:
    if not isinstance(change, Write):
        return []
    return [Write(change.position, change.data[: randomness.below(len(change.data) + 1)])]


def _sectors(change: Change) -> list[Change]:
    if not isinstance(change, Write):
        return [change]
    pieces: list[Change] = []
    start = 0
    while start < len(change.data):
        end = start + SECTOR_BYTES - (change.position + start) % SECTOR_BYTES
        pieces.append(Write(change.position + start, change.data[start:end]))
        start = end
    return pieces


def _length_only(change: Change) -> Change:
    return Extend(change.position + len(change.data)) if isinstance(change, Write) else change
