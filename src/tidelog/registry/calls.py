"""The calls of a registry that are others in disguise, once for all its twins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from tidelog.registry.errors import NoNode
from tidelog.registry.protocol import ANY, Create, Delete, Node, Operation, Outcome, Set


class RegistryCalls(ABC):
    """A registry that reads with `get_many` and writes with `multi`."""

    @abstractmethod
    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """The nodes at several paths, None where there is none."""

    @abstractmethod
    async def multi(self, operations: Sequence[Operation]) -> list[Outcome]:
        """All operations or none, in order."""

    async def get(self, path: str) -> Node:
        """The node at `path`. Raises NoNode."""
        [node] = await self.get_many([path])
        if node is None:
            raise NoNode(path)
        return node

    async def exists(self, path: str) -> bool:
        """Whether there is a node."""
        return await self.get_many([path]) != [None]

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        """Create a node and return its path, which differs from `path` if sequential. Raises NodeExists, NoNode."""
        [outcome] = await self.multi([Create(path, data, ephemeral, sequential)])
        return outcome.path

    async def set(self, path: str, data: bytes, version: int = ANY) -> int:
        """Replace the data and return the new version. Raises NoNode, BadVersion."""
        [outcome] = await self.multi([Set(path, data, version)])
        return ANY if outcome.node is None else outcome.node.version

    async def delete(self, path: str, version: int = ANY) -> None:
        """Remove the node. Raises NoNode, BadVersion, NotEmpty."""
        await self.multi([Delete(path, version)])
