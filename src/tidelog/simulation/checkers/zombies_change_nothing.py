"""I11: whoever has been replaced changes nothing in the registry any more.

- The controller epoch never goes back, and a partition's state that was written after a look carries at least the controller epoch that
  was in force then: a controller that does not know it was deposed writes nothing.
- A broker's epoch never goes back, and no older registration of it than its last one is in force.
- Producer ids are given out once: the next free block never begins lower.

Not claimed: topics, settings and wishes of administrators, which carry no epoch. What zombie leaders may not do, the checkers of leader
epochs and of committed records see.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from tidelog.controller import layout
from tidelog.registry import Node
from tidelog.simulation.observer import Snapshot
from tidelog.simulation.registry_view import Peekable


class NumberedTree(Peekable, Protocol):
    """A tree that counts its changes."""

    @property
    def zxid(self) -> int:
        """The number of the last change."""
        ...


class ZombiesChangeNothing:
    """Compares the registry with what it was at the last look."""

    name = "I11 zombies change nothing"

    def __init__(self, tree: NumberedTree) -> None:
        self._tree = tree
        self._zxid = -1
        self._numbers: dict[str, int] = {}  # what only goes up, by the path it is kept at
        self._states: dict[str, Node] = {}

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """Epochs that went back, and states that a deposed controller wrote."""
        if self._tree.zxid == self._zxid:
            return
        self._zxid = self._tree.zxid
        yield from self._look_at_states(snapshot)
        yield from self._look_at_brokers()
        node = self._tree.peek(layout.PRODUCER_ID_BLOCK)
        if node is not None and node.data:
            yield from self._only_up(layout.PRODUCER_ID_BLOCK, layout.next_producer_id(node))
        node = self._tree.peek(layout.CONTROLLER_EPOCH)
        if node is not None:
            yield from self._only_up(layout.CONTROLLER_EPOCH, layout.decode_controller_epoch(node))

    def _look_at_states(self, snapshot: Snapshot) -> Iterator[str]:
        in_force = self._numbers.get(layout.CONTROLLER_EPOCH, 0)
        states: dict[str, Node] = {}
        for topic_partition in snapshot.states:
            path = layout.state_path(topic_partition.topic, topic_partition.index)
            node = self._tree.peek(path)
            if node is None:
                continue
            states[path] = node
            if node is self._states.get(path):
                continue
            state = layout.decode_state(path, node)
            if state.controller_epoch < in_force:
                yield (
                    f"{topic_partition}: version {node.version} of its state was written under controller epoch "
                    f"{state.controller_epoch}, when {in_force} was in force: {state}"
                )
        self._states = states

    def _look_at_brokers(self) -> Iterator[str]:
        for name in self._tree.peek_children(layout.INCARNATIONS):
            path = layout.incarnation_path(int(name))
            node = self._tree.peek(path)
            if node is None or not node.data:
                continue
            last = layout.decode_incarnation(int(name), node)
            yield from self._only_up(path, last.broker_epoch)
            registered = self._tree.peek(layout.broker_path(int(name)))
            if registered is not None and last.broker_epoch > registered.czxid:
                yield (
                    f"broker {name} is registered under epoch {registered.czxid}, "
                    f"but epoch {last.broker_epoch} was registered already"
                )

    def _only_up(self, path: str, number: int) -> Iterator[str]:
        before = self._numbers.get(path, number)
        if number < before:
            yield f"{path} went back from {before} to {number}"
        self._numbers[path] = number
