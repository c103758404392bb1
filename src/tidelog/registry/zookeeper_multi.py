"""A multi as ZooKeeper's protocol writes it, and what its answers mean.

Kazoo's own transactions create nodes without being told what became of them. Ours ask for the new node's status (`create2`, which servers
know since 3.5), so that a creation id is the one the servers gave and no later reader's guess. Kazoo cannot read many nodes in one request
either; servers know how since 3.6.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from kazoo.exceptions import (
    EXCEPTIONS,
    BadVersionError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
    ZookeeperError,
)
from kazoo.protocol import serialization as wire
from kazoo.protocol.states import ZnodeStat
from kazoo.security import OPEN_ACL_UNSAFE

from tidelog.registry import tree
from tidelog.registry.errors import BadRequest, BadVersion, NodeExists, NoNode, NotEmpty, RegistryError
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
    Set,
)

_EPHEMERAL: Final = 1
_SEQUENTIAL: Final = 2
_HEADER_BYTES: Final = 8  # number and type of the request
_ERROR: Final = -1
_HEADER: Final = struct.Struct(">i?i")  # kind of the operation, whether it is the end, error
_INT: Final = struct.Struct(">i")
_END: Final = _HEADER.pack(-1, True, -1)


@dataclass(frozen=True, slots=True)
class Status:
    """What a server says of a node that an operation created or set."""

    stat: ZnodeStat
    path: str | None = None  # of a created one, as the servers know it


#: None where there is nothing to tell.
Result: TypeAlias = Status | ZookeeperError | None


class MultiRequest:
    """A request that kazoo can send. Its length is known before, because a server hangs up on one that is too long."""

    type = wire.Transaction.type

    def __init__(self, operations: Sequence[Operation], outside: Callable[[str], str]) -> None:
        self._bytes = b"".join([*(_written(each, outside) for each in operations), _END])

    def __len__(self) -> int:
        return len(self._bytes) + _HEADER_BYTES

    def serialize(self) -> bytes:
        """Asked by kazoo."""
        return self._bytes

    @staticmethod
    def deserialize(data: bytes, offset: int) -> list[Result]:
        """Asked by kazoo: one result for each operation."""
        results: list[Result] = []
        header, offset = wire.MultiHeader.deserialize(data, offset)
        while not header.done:
            result, offset = _result(header.type, data, offset)
            results.append(result)
            header, offset = wire.MultiHeader.deserialize(data, offset)
        return results


class ReadRequest:
    """Reads several nodes in one request."""

    type = 22

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def serialize(self) -> bytes:
        """Asked by kazoo."""
        return bytes(wire.Transaction([wire.GetData(path, None) for path in self._paths]).serialize())

    @staticmethod
    def deserialize(data: bytes, offset: int) -> list[Node | ZookeeperError]:
        """Asked by kazoo: the nodes, or what keeps them from us, in order."""
        answers: list[Node | ZookeeperError] = []
        header, offset = wire.MultiHeader.deserialize(data, offset)
        while not header.done:
            if header.type == _ERROR:
                answers.append(EXCEPTIONS[wire.int_struct.unpack_from(data, offset)[0]]())
                offset += wire.int_struct.size
            else:
                held, offset = wire.read_buffer(data, offset)
                answers.append(node_of(held, _stat(data, offset)))
                offset += wire.stat_struct.size
            header, offset = wire.MultiHeader.deserialize(data, offset)
        return answers


def check_operations(operations: Sequence[Operation]) -> None:
    """Raise the errors that no server has to be asked about."""
    if len(operations) > OPERATIONS_MAX:
        raise BadRequest(operations[0].path, f"{len(operations)} operations in one multi, {OPERATIONS_MAX} are allowed")
    for operation in operations:
        tree.check_path(operation.path)
        if isinstance(operation, Create | Set) and len(operation.data) > DATA_BYTES_MAX:
            size = len(operation.data)
            raise BadRequest(operation.path, f"{size} bytes of data, {DATA_BYTES_MAX} are allowed")
        if isinstance(operation, Delete) and operation.path == tree.ROOT:
            raise BadRequest(tree.ROOT, "the root stays")
        if isinstance(operation, Create) and operation.path == tree.ROOT:
            raise NodeExists(tree.ROOT)


def node_of(data: bytes | None, stat: ZnodeStat) -> Node:
    """A node as its status tells it."""
    return Node(
        data=data or b"",
        version=stat.version,
        czxid=stat.czxid,
        owner=stat.ephemeralOwner or None,
        # What a server shows counts creations and deletions; of the children ever created, those gone were counted twice.
        children_created=(stat.cversion + stat.numChildren) // 2,
    )


def failure_of(results: Sequence[Result]) -> tuple[int, ZookeeperError] | None:
    """The operation that spoilt a multi, and its error."""
    errors = [(index, result) for index, result in enumerate(results) if isinstance(result, ZookeeperError)]
    bystanders = (RolledBackError, RuntimeInconsistency)
    return next((each for each in errors if not isinstance(each[1], bystanders)), errors[0] if errors else None)


def refusal(operation: Operation, error: ZookeeperError, *, actual_version: int) -> RegistryError | None:
    """What a server's error means for the operation; None if it is not about a node."""
    path = operation.path
    match error:
        case NoNodeError():
            return NoNode(tree.parent_of(path) if isinstance(operation, Create) else path)
        case NodeExistsError():
            return NodeExists(path)
        case NotEmptyError():
            return NotEmpty(path)
        case NoChildrenForEphemeralsError():
            return BadRequest(path, "an ephemeral node has no children")
        case BadVersionError():
            expected = ANY if isinstance(operation, Create) else operation.version
            return BadVersion(path, expected=expected, actual=actual_version)
    return None


def only_checked(operations: Sequence[Operation]) -> dict[int, str]:
    """The checks (index -> path) of nodes that the multi has not touched before: its results will not tell what is there."""
    touched: set[str] = set()
    found: dict[int, str] = {}
    for index, operation in enumerate(operations):
        if not isinstance(operation, Check):
            touched.add(operation.path)
        elif operation.path not in touched:
            found[index] = operation.path
    return found


def outcomes_of(
    operations: Sequence[Operation],
    results: Sequence[Result],
    inside: Callable[[str], str],
    read: Mapping[int, Node | None],
) -> list[Outcome]:
    """What each operation left behind; `read` has the nodes that were only checked."""
    known: dict[str, Node | None] = {}
    outcomes: list[Outcome] = []
    for index, (operation, result) in enumerate(zip(operations, results, strict=True)):
        path = operation.path
        if isinstance(result, Status):
            path = path if result.path is None else inside(result.path)
            known[path] = node_of(operation.data if isinstance(operation, Create | Set) else b"", result.stat)
        elif isinstance(operation, Delete):
            known[path] = None
        elif index in read:
            known[path] = read[index]
        outcomes.append(Outcome(path, known.get(path)))
    return outcomes


def _written(operation: Operation, outside: Callable[[str], str]) -> bytes:
    """An operation behind its header. Written here and not by kazoo, whose way takes several times as long on the loop."""
    path = outside(operation.path).encode()
    match operation:
        case Create(_, data, ephemeral, sequential):
            flags = (_EPHEMERAL if ephemeral else 0) | (_SEQUENTIAL if sequential else 0)
            body = b"".join((_INT.pack(len(data)), data, _OPEN_ACL, _INT.pack(flags)))
            kind = wire.Create2.type
        case Set(_, data, version):
            body = b"".join((_INT.pack(len(data)), data, _INT.pack(version)))
            kind = wire.SetData.type
        case Delete(_, version):
            body, kind = _INT.pack(version), wire.Delete.type
        case Check(_, version):
            body, kind = _INT.pack(version), wire.CheckVersion.type
        case _:
            assert_never(operation)
    return b"".join((_HEADER.pack(kind, False, _ERROR), _INT.pack(len(path)), path, body))


def _text(text: str) -> bytes:
    return _INT.pack(len(text)) + text.encode()


_OPEN_ACL: Final = b"".join(
    [
        _INT.pack(len(OPEN_ACL_UNSAFE)),
        *(_INT.pack(acl.perms) + _text(acl.id.scheme) + _text(acl.id.id) for acl in OPEN_ACL_UNSAFE),
    ]
)


def _result(kind: int, data: bytes, offset: int) -> tuple[Result, int]:
    if kind == wire.Create2.type:
        path, offset = wire.read_string(data, offset)
        return Status(_stat(data, offset), path), offset + wire.stat_struct.size
    if kind == wire.SetData.type:
        return Status(_stat(data, offset)), offset + wire.stat_struct.size
    if kind == _ERROR:
        code = wire.int_struct.unpack_from(data, offset)[0]
        return EXCEPTIONS[code](), offset + wire.int_struct.size
    return None, offset


def _stat(data: bytes, offset: int) -> ZnodeStat:
    return ZnodeStat._make(wire.stat_struct.unpack_from(data, offset))
