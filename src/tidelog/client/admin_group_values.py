"""What an admin says of groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from tidelog.model import BrokerId, TopicPartition

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"


class GroupListing(NamedTuple):
    """A group as its coordinator lists it; what old brokers do not tell is empty."""

    group_id: str
    kind: str  # classic or consumer
    state: str
    protocol_type: str  # "consumer" for consumers of either kind
    coordinator: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """A member of a group, what it has and what it shall have."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    rack: str | None = None
    # Of members of consumer groups only.
    epoch: int | None = None
    target: tuple[TopicPartition, ...] | None = None
    kind: str | None = None  # which protocol it speaks
    subscribed_topics: tuple[str, ...] = ()
    subscribed_regex: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group with its members."""

    group_id: str
    kind: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: BrokerId
    members: tuple[MemberDescription, ...]
    # Of consumer groups only.
    epoch: int | None = None
    assignment_epoch: int | None = None
