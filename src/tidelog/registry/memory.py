"""The tree in memory: a table of nodes with an undo list, and the sessions that own ephemeral ones. Synchronous and pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidelog.registry import tree
from tidelog.registry.errors import NoNode, RegistryError, SessionExpired
from tidelog.registry.protocol import Node, Operation, Outcome, SessionId


class MemoryTable:
    """Nodes in dictionaries."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {tree.ROOT: tree.ROOT_NODE}
        self._names: dict[str, set[str]] = {tree.ROOT: set()}  # path -> its children's names
        self._owned: dict[SessionId, set[str]] = {}
        self._undo: list[tuple[str, Node | None]] = []

    def find(self, path: str) -> Node | None:
        """The node at a path."""
        return self._nodes.get(path)

    def put(self, path: str, node: Node) -> None:
        """Add or replace a node."""
        self._undo.append((path, self._nodes.get(path)))
        self._store(path, node)

    def remove(self, path: str) -> None:
        """Take a node away that is there."""
        self._undo.append((path, self._nodes[path]))
        self._forget(path)

    def children(self, path: str) -> list[str]:
        """Names below a path, sorted."""
        return sorted(self._names.get(path, ()))

    def owned_by(self, session_id: SessionId) -> list[str]:
        """Paths of the session's ephemeral nodes, sorted."""
        return sorted(self._owned.get(session_id, ()))

    def commit(self) -> None:
        """What was changed stays."""
        self._undo.clear()

    def roll_back(self) -> None:
        """What was changed since the last commit has not happened."""
        while self._undo:
            path, before = self._undo.pop()
            if before is None:
                self._forget(path)
            else:
                self._store(path, before)

    def _store(self, path: str, node: Node) -> None:
        self._nodes[path] = node
        self._names.setdefault(path, set())
        if path != tree.ROOT:
            self._names[tree.parent_of(path)].add(path.rpartition("/")[2])
        if node.owner is not None:
            self._owned.setdefault(node.owner, set()).add(path)

    def _forget(self, path: str) -> None:
        node = self._nodes.pop(path)
        del self._names[path]
        self._names[tree.parent_of(path)].discard(path.rpartition("/")[2])
        if node.owner is not None:
            self._owned[node.owner].discard(path)


class MemoryTree:
    """The whole registry of a process: transactions are numbered, sessions come and go, a failed multi leaves nothing.

    `on_touched` is told, after each transaction, the paths whose watchers it concerns.
    """

    def __init__(self, on_touched: Callable[[Sequence[str]], None] | None = None) -> None:
        self._table = MemoryTable()
        self._zxid = 0
        self._sessions: set[SessionId] = set()
        self._last_session_id = 0
        self._on_touched = on_touched

    @property
    def zxid(self) -> int:
        """The number of the last transaction that was committed."""
        return self._zxid

    def open_session(self) -> SessionId:
        """Begin a session under a number never used before."""
        self._last_session_id += 1
        self._sessions.add(self._last_session_id)
        return self._last_session_id

    def is_open(self, session_id: SessionId) -> bool:
        """Whether the session is in force."""
        return session_id in self._sessions

    def expire_session(self, session_id: SessionId) -> list[str]:
        """End a session and return the paths that went with it; one that has ended already is left alone."""
        self._sessions.discard(session_id)
        paths = tree.expire(self._table, session_id)
        self._table.commit()
        self._tell(tree.touched_by_expiry(paths))
        return paths

    def get(self, path: str, *, session_id: SessionId) -> Node:
        """The node at `path`."""
        [node] = self.get_many([path], session_id=session_id)
        if node is None:
            raise NoNode(path)
        return node

    def get_many(self, paths: Sequence[str], *, session_id: SessionId) -> list[Node | None]:
        """The nodes at several paths, None where there is none."""
        self.check_session(paths[0] if paths else tree.ROOT, session_id)
        for path in paths:
            tree.check_path(path)
        return [self._table.find(path) for path in paths]

    def children(self, path: str, *, session_id: SessionId) -> list[str]:
        """The names of the node's children, sorted."""
        self.get(path, session_id=session_id)
        return self._table.children(path)

    def multi(self, operations: Sequence[Operation], *, session_id: SessionId) -> list[Outcome]:
        """All operations or none."""
        self.check_session(operations[0].path if operations else tree.ROOT, session_id)
        try:
            outcomes = tree.apply(self._table, operations, session_id=session_id, zxid=self._zxid + 1)
        except RegistryError:
            self._table.roll_back()
            raise
        self._table.commit()
        self._zxid += 1
        self._tell(tree.touched_by(operations, outcomes))
        return outcomes

    def peek(self, path: str) -> Node | None:
        """The node at a path, for an onlooker without a session."""
        return self._table.find(path)

    def peek_children(self, path: str) -> list[str]:
        """Names below a path, sorted, for an onlooker without a session; none where there is no node."""
        return self._table.children(path)

    def check_session(self, path: str, session_id: SessionId) -> None:
        """Raise SessionExpired, in the name of `path`, unless the session is in force."""
        if session_id not in self._sessions:
            raise SessionExpired(path, f"session {session_id} is over")

    def _tell(self, paths: Sequence[str]) -> None:
        if self._on_touched is not None and paths:
            self._on_touched(paths)
