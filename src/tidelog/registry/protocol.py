"""The registry: a small tree that remembers, with versions, sessions, ephemeral nodes and atomic multi-writes.

The contract is ZooKeeper's, as far as the controller needs it:

- Reads and writes are linearizable; a write that was answered survives a power loss.
- A node's `version` is 0 when created and grows by one with every set; `set`, `delete` and `Check` can demand one.
- `czxid` is the number of the transaction that created the node: global, growing, never reused.
- A parent must exist before its child, and goes after it. Ephemeral nodes have no children and end with their session.
- A `multi` happens as a whole, in order, or not at all.
- A watch says that something may have changed, not what: whoever is told reads again. It stays until cancelled, also over lost
  connections; several changes may be told as one, and no change made after `watch` returned stays untold while the session lives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

SessionId: TypeAlias = int

ANY: Final = -1  # matches every version
DATA_BYTES_MAX: Final = 1_000_000  # with its path below the 1 MiB that ZooKeeper takes in one request
OPERATIONS_MAX: Final = 4096  # of one multi


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What a path holds."""

    data: bytes
    version: int
    czxid: int
    owner: SessionId | None = None  # the session an ephemeral node ends with
    children_created: int = 0  # ever; the next sequential child gets this number

    @property
    def is_ephemeral(self) -> bool:
        """Whether the node ends with its session."""
        return self.owner is not None


@dataclass(frozen=True, slots=True)
class Check:
    """Demand that a node has a version."""

    path: str
    version: int = ANY


@dataclass(frozen=True, slots=True)
class Create:
    """Create a node; a sequential one gets ten digits behind its name."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


@dataclass(frozen=True, slots=True)
class Set:
    """Replace a node's data."""

    path: str
    data: bytes
    version: int = ANY


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a node without children."""

    path: str
    version: int = ANY


Operation: TypeAlias = Check | Create | Set | Delete


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one operation of a multi left behind: the path it really touched, and the node there (None once deleted)."""

    path: str
    node: Node | None


class Watch(Protocol):
    """An interest in a node."""

    def cancel(self) -> None:
        """Nothing more is told; cancelling twice is harmless."""
        ...


class Registry(Protocol):
    """One holder's handle on the tree. Its session begins with `open_session`; before that, and after it expired, calls
    raise SessionExpired. Every call may raise RegistryUnavailable."""

    @property
    def session_id(self) -> SessionId | None:
        """The session in force, if any."""
        ...

    async def open_session(self) -> SessionId:
        """Begin a session, ending the handle's former one."""
        ...

    async def get(self, path: str) -> Node:
        """The node at `path`. Raises NoNode."""
        ...

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """The nodes at several paths, None where there is none; no moment in time is promised for the whole."""
        ...

    async def children(self, path: str) -> list[str]:
        """The names of the node's children, sorted. Raises NoNode."""
        ...

    async def exists(self, path: str) -> bool:
        """Whether there is a node."""
        ...

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        """Create a node and return its path, which differs from `path` if sequential. Raises NodeExists, NoNode."""
        ...

    async def set(self, path: str, data: bytes, version: int = ANY) -> int:
        """Replace the data and return the new version. Raises NoNode, BadVersion."""
        ...

    async def delete(self, path: str, version: int = ANY) -> None:
        """Remove the node. Raises NoNode, BadVersion, NotEmpty."""
        ...

    async def multi(self, operations: Sequence[Operation]) -> list[Outcome]:
        """All operations or none, in order. Raises the error of the first that fails."""
        ...

    async def watch(self, path: str, on_change: Callable[[], None]) -> Watch:
        """Have `on_change` called, on the loop, after the node at `path` came, went or got other data, or its set of children changed.

        The node need not exist. Ends with the session: whoever opens the next one watches again.
        """
        ...

    async def ended(self) -> None:
        """Wait until the session in force is over through no doing of ours: it expired, or the registry says that it did."""
        ...

    async def close(self) -> None:
        """End the session, and with it its ephemeral nodes, and let go of the registry; closing twice is harmless."""
        ...
