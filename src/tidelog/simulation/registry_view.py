"""What the registry of a simulation holds, read from outside: no session, no delay, no trace."""

from __future__ import annotations

from typing import Protocol

from tidelog.controller import PartitionState, layout
from tidelog.model import TopicPartition
from tidelog.registry import Node


class Peekable(Protocol):
    """A tree that can be looked into without a session."""

    def peek(self, path: str) -> Node | None:
        """The node at a path."""
        ...

    def peek_children(self, path: str) -> list[str]:
        """Names below a path, sorted."""
        ...


def partition_states(tree: Peekable) -> dict[TopicPartition, PartitionState]:
    """Leader and ISR of every partition that has a state."""
    found: dict[TopicPartition, PartitionState] = {}
    for topic in tree.peek_children(layout.TOPICS):
        node = tree.peek(layout.topic_path(topic))
        if node is None:
            continue
        stored = layout.decode_topic(topic, node)
        if stored.topic_id is None:
            continue
        for index, assignment in stored.assignments.items():
            path = layout.state_path(topic, index)
            state_node = tree.peek(path)
            if state_node is not None:
                state = layout.decode_state(path, state_node)
                found[TopicPartition(topic, index)] = PartitionState(
                    topic_id=stored.topic_id,
                    assignment=assignment,
                    leader=state.leader,
                    leader_epoch=state.leader_epoch,
                    isr=state.isr,
                    partition_epoch=state.partition_epoch,
                )
    return found
