"""What the registry of a simulation holds, read from outside: no session, no delay, no trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from tidelog.controller import PartitionState, layout
from tidelog.model import TopicPartition
from tidelog.registry import Node


class Peekable(Protocol):
    """A tree that can be looked into without a session."""

    @property
    def zxid(self) -> int:
        """The number of the last transaction."""
        ...

    def peek(self, path: str) -> Node | None:
        """The node at a path."""
        ...

    def peek_children(self, path: str) -> list[str]:
        """Names below a path, sorted."""
        ...


class RegistryView:
    """Leader and ISR of every partition. Nodes are parsed again only if they were written again: looking often is cheap."""

    def __init__(self, tree: Peekable) -> None:
        self._tree = tree
        self._zxid = -1
        self._states: Mapping[TopicPartition, PartitionState] = {}
        self._topics: dict[str, tuple[Node, layout.StoredTopic]] = {}
        self._parsed: dict[TopicPartition, tuple[Node, Node, PartitionState]] = {}

    @property
    def states(self) -> Mapping[TopicPartition, PartitionState]:
        """All that have a state, by topic and partition; the same object as last time if nothing was written to them."""
        if self._zxid != self._tree.zxid:
            self._zxid = self._tree.zxid
            parsed = dict(self._look())
            states = {each: state for each, (_, _, state) in parsed.items()}
            if any(states[each] is not self._states.get(each) for each in states) or len(states) != len(self._states):
                self._states = states
            self._parsed = parsed
        return self._states

    def _look(self) -> Iterator[tuple[TopicPartition, tuple[Node, Node, PartitionState]]]:
        topics: dict[str, tuple[Node, layout.StoredTopic]] = {}
        for topic in self._tree.peek_children(layout.TOPICS):
            node = self._tree.peek(layout.topic_path(topic))
            if node is not None:
                known = self._topics.get(topic)
                topics[topic] = (
                    known if known is not None and known[0] is node else (node, layout.decode_topic(topic, node))
                )
                yield from self._look_at(topic, *topics[topic])
        self._topics = topics

    def _look_at(
        self, topic: str, topic_node: Node, stored: layout.StoredTopic
    ) -> Iterator[tuple[TopicPartition, tuple[Node, Node, PartitionState]]]:
        if stored.topic_id is None:
            return
        for index, assignment in stored.assignments.items():
            topic_partition = TopicPartition(topic, index)
            path = layout.state_path(topic, index)
            node = self._tree.peek(path)
            known = self._parsed.get(topic_partition)
            if known is not None and known[0] is topic_node and known[1] is node:
                yield topic_partition, known
            elif node is not None:
                state = layout.decode_state(path, node)
                found = PartitionState(
                    topic_id=stored.topic_id,
                    assignment=assignment,
                    leader=state.leader,
                    leader_epoch=state.leader_epoch,
                    isr=state.isr,
                    partition_epoch=state.partition_epoch,
                    adding=stored.adding.get(index, ()),
                    removing=stored.removing.get(index, ()),
                    eligible=state.eligible,
                    lost=state.lost,
                    is_recovering=state.is_recovering,
                )
                yield topic_partition, (topic_node, node, found)
