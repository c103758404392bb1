"""The registry as people and programs read it: nodes with their data, versions and owners."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from tidelog.cli.output import Cell, Row, paint
from tidelog.registry import Node, NoNode

_NODES_AT_ONCE: Final = 500
_LINE_WIDTH: Final = 100


class Nodes(Protocol):
    """What is read of a registry."""

    async def get(self, path: str) -> Node:
        """The node at `path`. Raises NoNode."""
        ...

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """The nodes at several paths, None where there is none."""
        ...

    async def children(self, path: str) -> list[str]:
        """The names of the node's children, sorted. Raises NoNode."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownNode:
    """A node, where it is, and the names of what is below it."""

    path: str
    node: Node
    children: tuple[str, ...]

    def as_row(self) -> Row:
        """For programs: data that is JSON as such, other data as text."""
        return {
            "path": self.path,
            "version": self.node.version,
            "czxid": self.node.czxid,
            "ephemeral_owner": self.node.owner,
            "data": _content(self.node.data),
            "children": self.children,
        }

    def as_text(self, *, in_colour: bool, has_children_below: bool) -> str:
        """For people: a heading, the data, and where nothing else shows them the children."""
        facts = [f"version {self.node.version}", f"created by {self.node.czxid}"]
        facts += [] if self.node.owner is None else [f"ephemeral, session {self.node.owner}"]
        lines = [f"{paint(self.path, 'bold', wanted=in_colour)}  ({', '.join(facts)})"]
        lines += [f"  {line}" for line in _shown_data(self.node.data)]
        if self.children and not has_children_below:
            below = "/" if self.path == "/" else f"{self.path}/"
            lines += [f"  {below}{name}" for name in self.children]
        return "\n".join(lines) + "\n"


def _content(data: bytes) -> Cell:
    """What the bytes mean, as JSON has it."""
    try:
        content: Cell = json.loads(data) if data else None
    except ValueError:
        return data.decode("utf-8", errors="backslashreplace")
    return content


def _shown_data(data: bytes) -> list[str]:
    content = _content(data)
    if content is None:
        return []
    if isinstance(content, str):
        return content.splitlines()
    return pretty(content).splitlines()


def pretty(content: Cell) -> str:
    """JSON for people: what fits into a line is in one, what does not has its members below each other."""
    line = json.dumps(content, ensure_ascii=False)
    if len(line) <= _LINE_WIDTH or not content or not isinstance(content, dict | list):
        return line
    names = [f"{json.dumps(name, ensure_ascii=False)}: " for name in content] if isinstance(content, dict) else None
    members = list(content.values()) if isinstance(content, dict) else content
    lines = [f"{names[index] if names else ''}{pretty(each)}" for index, each in enumerate(members)]
    inner = ",\n".join(lines).replace("\n", "\n  ")
    return f"{{\n  {inner}\n}}" if names else f"[\n  {inner}\n]"


async def read_tree(nodes: Nodes, path: str, *, is_recursive: bool) -> list[ShownNode]:
    """A node and, if wanted, all below it, each before its children. Raises NoNode for the first; what goes meanwhile is left out."""
    first = ShownNode(path=path, node=await nodes.get(path), children=tuple(await nodes.children(path)))
    return [first, *(await _read_below(nodes, first) if is_recursive else [])]


async def _read_below(nodes: Nodes, parent: ShownNode) -> list[ShownNode]:
    found: list[ShownNode] = []
    base = "" if parent.path == "/" else parent.path
    for start in range(0, len(parent.children), _NODES_AT_ONCE):
        paths = [f"{base}/{name}" for name in parent.children[start : start + _NODES_AT_ONCE]]
        for path, node in zip(paths, await nodes.get_many(paths), strict=True):
            if node is not None:
                shown = ShownNode(path=path, node=node, children=await _children(nodes, path, node))
                found += [shown, *await _read_below(nodes, shown)]
    return found


async def _children(nodes: Nodes, path: str, node: Node) -> tuple[str, ...]:
    if node.is_ephemeral:
        return ()
    try:
        return tuple(await nodes.children(path))
    except NoNode:
        return ()


def as_text(nodes: Sequence[ShownNode], *, in_colour: bool) -> str:
    """All nodes for people."""
    is_whole = len(nodes) > 1
    return "".join(node.as_text(in_colour=in_colour, has_children_below=is_whole) for node in nodes)
