"""What assignors are told, and what they answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from tidelog.model import TopicId

Assignment: TypeAlias = Mapping[TopicId, frozenset[int]]
"""Partitions by topic; never an empty set of them."""


class MemberSpec(NamedTuple):
    """A member as assignors see it. `topics` exist; `former` is what it was meant to have until now, and may name anything."""

    instance_id: str | None
    topics: frozenset[TopicId]
    former: Assignment


Assignor: TypeAlias = Callable[[Mapping[str, MemberSpec], Mapping[TopicId, int]], dict[str, Assignment]]
"""Members by id, and how many partitions each topic has. Racks are not looked at, as by those of Kafka 4.1."""
