"""The rules of the tree, once for all: they work on any table of nodes, in memory or in a database.

A table is told every change in order and can take all of them back; the rules never leave half of a multi behind as long as the table's owner
does so on an error.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Final, Protocol, assert_never

from tidelog.registry.errors import BadRequest, BadVersion, NodeExists, NoNode, NotEmpty
from tidelog.registry.protocol import (
    ANY,
    DATA_BYTES_MAX,
    OPERATIONS_MAX,
    Check,
    Create,
    Delete,
    Node,
    Operation,
    Outcome,
    SessionId,
    Set,
)

ROOT: Final = "/"
ROOT_NODE: Final = Node(data=b"", version=0, czxid=0)

_PATH: Final = re.compile(r"(/(?!\.{1,2}(/|$))[^/\x00-\x1f\x7f-\x9f\ud800-\udfff]+)+")


class NodeTable(Protocol):
    """Where nodes are kept. The root is always there."""

    def find(self, path: str) -> Node | None:
        """The node at a path."""
        ...

    def put(self, path: str, node: Node) -> None:
        """Add or replace a node."""
        ...

    def remove(self, path: str) -> None:
        """Take a node away that is there."""
        ...

    def children(self, path: str) -> list[str]:
        """Names below a path, sorted."""
        ...

    def owned_by(self, session_id: SessionId) -> list[str]:
        """Paths of the session's ephemeral nodes, sorted."""
        ...


def check_path(path: str) -> None:
    """Raise BadRequest unless `path` is absolute, without empty, dot or control-character parts."""
    if path != ROOT and _PATH.fullmatch(path) is None:
        raise BadRequest(path, "malformed path")


def parent_of(path: str) -> str:
    """The path one step up."""
    return path.rpartition("/")[0] or ROOT


def apply(table: NodeTable, operations: Sequence[Operation], *, session_id: SessionId, zxid: int) -> list[Outcome]:
    """Apply a multi in order; on an error the caller takes back what the table was told."""
    if len(operations) > OPERATIONS_MAX:
        raise BadRequest(operations[0].path, f"{len(operations)} operations in one multi, {OPERATIONS_MAX} are allowed")
    return [_apply_one(table, operation, session_id, zxid) for operation in operations]


def expire(table: NodeTable, session_id: SessionId) -> list[str]:
    """Remove a session's ephemeral nodes and return their paths."""
    paths = table.owned_by(session_id)
    for path in paths:
        table.remove(path)
    return paths


def touched_by(operations: Sequence[Operation], outcomes: Sequence[Outcome]) -> list[str]:
    """The paths whose watchers a multi concerns, each once: nodes that came, went or got data, and the parents of the first two."""
    paths: dict[str, None] = {}
    for operation, outcome in zip(operations, outcomes, strict=True):
        if not isinstance(operation, Check):
            paths[outcome.path] = None
        if isinstance(operation, Create | Delete):
            paths[parent_of(outcome.path)] = None
    return list(paths)


def touched_by_expiry(removed: Sequence[str]) -> list[str]:
    """The paths whose watchers the end of a session concerns, each once."""
    return list(dict.fromkeys(path for gone in removed for path in (gone, parent_of(gone))))


def _apply_one(table: NodeTable, operation: Operation, session_id: SessionId, zxid: int) -> Outcome:
    check_path(operation.path)
    match operation:
        case Create():
            return _create(table, operation, session_id, zxid)
        case Check(path, version):
            return Outcome(path, _expected(table, path, version))
        case Set(path, data, version):
            _check_size(path, data)
            node = _expected(table, path, version)
            node = dataclasses.replace(node, data=data, version=node.version + 1)
            table.put(path, node)
            return Outcome(path, node)
        case Delete(path, version):
            _delete(table, path, version)
            return Outcome(path, None)
        case _:
            assert_never(operation)


def _create(table: NodeTable, create: Create, session_id: SessionId, zxid: int) -> Outcome:
    _check_size(create.path, create.data)
    if create.path == ROOT:
        raise NodeExists(ROOT)
    parent_path = parent_of(create.path)
    parent = table.find(parent_path)
    if parent is None:
        raise NoNode(parent_path)
    if parent.is_ephemeral:
        raise BadRequest(create.path, "an ephemeral node has no children")
    path = f"{create.path}{parent.children_created:010d}" if create.sequential else create.path
    if table.find(path) is not None:
        raise NodeExists(path)
    node = Node(data=create.data, version=0, czxid=zxid, owner=session_id if create.ephemeral else None)
    table.put(parent_path, dataclasses.replace(parent, children_created=parent.children_created + 1))
    table.put(path, node)
    return Outcome(path, node)


def _delete(table: NodeTable, path: str, version: int) -> None:
    if path == ROOT:
        raise BadRequest(ROOT, "the root stays")
    _expected(table, path, version)
    if table.children(path):
        raise NotEmpty(path)
    table.remove(path)


def _expected(table: NodeTable, path: str, version: int) -> Node:
    node = table.find(path)
    if node is None:
        raise NoNode(path)
    if version not in (ANY, node.version):
        raise BadVersion(path, expected=version, actual=node.version)
    return node


def _check_size(path: str, data: bytes) -> None:
    if len(data) > DATA_BYTES_MAX:
        raise BadRequest(path, f"{len(data)} bytes of data, {DATA_BYTES_MAX} are allowed")
