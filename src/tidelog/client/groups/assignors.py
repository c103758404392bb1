"""Which member reads which partition, decided by the leader of a classic group. Pure.

Names, metadata and rules are those of Kafka's own clients, so that whichever member leads, all get what they expect:

- `range`: for each topic a row of neighbouring partitions to each member, in the order of their ids.
- `roundrobin`: all partitions of all topics dealt out like cards.
- `sticky`: as even as can be, and members keep what they have; they say what that is in the user data.
- `cooperative-sticky`: the same, but a partition goes to another member only after its owner has given it up, in the next round.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from tidelog.client.groups.sticky import Claim, assign_sticky
from tidelog.client.groups.subscription_codec import (
    NO_GENERATION,
    Subscription,
    read_partitions,
    read_subscription,
    write_partitions,
)
from tidelog.model import TopicPartition
from tidelog.wire.errors import MalformedMessage
from tidelog.wire.messages.join_group import JoinGroupResponseMember
from tidelog.wire.primitives import INT32

MemberId: TypeAlias = str
PartitionCounts: TypeAlias = Mapping[str, int]
"""How many partitions each topic has; topics that do not exist are missing."""
Shares: TypeAlias = dict[MemberId, list[TopicPartition]]


class RebalanceProtocol(enum.Enum):
    """What members do with their partitions before they join again."""

    EAGER = "eager"  # give all of them up
    COOPERATIVE = "cooperative"  # keep them, and give up later what is assigned to others


class GroupMember(NamedTuple):
    """A member as the leader sees it."""

    member_id: MemberId
    instance_id: str | None
    subscription: Subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignor:
    """One way to share partitions, by its name on the wire.

    `user_data` is what a member that owns partitions since a generation sends along. `assign` takes members in the order of their ids.
    """

    name: str
    protocols: tuple[RebalanceProtocol, ...]
    assign: Callable[[PartitionCounts, list[GroupMember]], Shares]
    user_data: Callable[[Iterable[TopicPartition], int], bytes | None]


def assign(assignor: Assignor, partition_counts: PartitionCounts, members: Iterable[GroupMember]) -> Shares:
    """Each member's partitions, in order; members that get none are there too."""
    ordered = sorted(members, key=lambda member: member.member_id)
    return {member_id: sorted(share) for member_id, share in assignor.assign(partition_counts, ordered).items()}


def read_members(told: Iterable[JoinGroupResponseMember]) -> list[GroupMember]:
    """Members by what they said of themselves; one that cannot be understood gets nothing, and the others go on."""
    members = []
    for each in told:
        try:
            subscription = read_subscription(each.metadata)
        except MalformedMessage:
            subscription = Subscription(topics=())
        members.append(GroupMember(each.member_id, each.group_instance_id, subscription))
    return members


def common_protocol(assignors: Iterable[Assignor]) -> RebalanceProtocol:
    """Cooperative only if every assignor in the list can: whichever the group chooses, members must behave alike."""
    is_cooperative = all(RebalanceProtocol.COOPERATIVE in assignor.protocols for assignor in assignors)
    return RebalanceProtocol.COOPERATIVE if is_cooperative else RebalanceProtocol.EAGER


def _by_standing(member: GroupMember) -> tuple[bool, str]:
    """Static members first and by their instance ids, so that a restart, which gives a new member id, moves nothing."""
    return (member.instance_id is None, member.instance_id or member.member_id)


def _assign_range(partition_counts: PartitionCounts, members: list[GroupMember]) -> Shares:
    shares: Shares = {member.member_id: [] for member in members}
    for topic in _subscribed(members):
        takers = sorted((m for m in members if topic in m.subscription.topics), key=_by_standing)
        each, extra = divmod(partition_counts.get(topic, 0), len(takers))
        start = 0
        for number, member in enumerate(takers):
            end = start + each + (1 if number < extra else 0)
            shares[member.member_id] += [TopicPartition(topic, index) for index in range(start, end)]
            start = end
    return shares


def _assign_round_robin(partition_counts: PartitionCounts, members: list[GroupMember]) -> Shares:
    shares: Shares = {member.member_id: [] for member in members}
    circle = sorted(members, key=_by_standing)
    turn = 0
    for topic in _subscribed(members):
        for index in range(partition_counts.get(topic, 0)):
            while topic not in circle[turn % len(circle)].subscription.topics:
                turn += 1
            shares[circle[turn % len(circle)].member_id].append(TopicPartition(topic, index))
            turn += 1
    return shares


def _assign_sticky(partition_counts: PartitionCounts, members: list[GroupMember]) -> Shares:
    return assign_sticky(partition_counts, {m.member_id: _sticky_claim(m.subscription) for m in members})


def _assign_cooperative_sticky(partition_counts: PartitionCounts, members: list[GroupMember]) -> Shares:
    claims = {m.member_id: _cooperative_claim(m.subscription) for m in members}
    shares = assign_sticky(partition_counts, claims)
    # Whoever still owns a partition must let go of it first; it is nobody's for this round.
    owners: dict[TopicPartition, list[MemberId]] = {}
    for member in members:
        for partition in member.subscription.owned:
            owners.setdefault(partition, []).append(member.member_id)
    return {
        member_id: [p for p in share if p not in owners or member_id in owners[p]]
        for member_id, share in shares.items()
    }


def _sticky_claim(subscription: Subscription) -> Claim:
    """`sticky` members say in the user data what they had: they have given it up by then."""
    claim = Claim(subscription.topics, subscription.owned, subscription.generation)
    if not subscription.user_data:
        return claim
    data = memoryview(subscription.user_data)
    try:
        owned, position = read_partitions(data, 0)
        generation = INT32.unpack_from(data, position)[0] if position + 4 <= len(data) else NO_GENERATION
    except (MalformedMessage, struct.error, UnicodeDecodeError):
        return claim  # As Java's: what cannot be read was not owned.
    return claim._replace(owned=owned, generation=generation)


def _cooperative_claim(subscription: Subscription) -> Claim:
    generation = subscription.generation
    if generation == NO_GENERATION and subscription.user_data is not None and len(subscription.user_data) >= INT32.size:
        (generation,) = INT32.unpack_from(subscription.user_data, 0)  # of clients that write version 1
    return Claim(subscription.topics, subscription.owned, generation)


def _sticky_user_data(owned: Iterable[TopicPartition], generation: int) -> bytes | None:
    partitions = list(owned)
    if not partitions and generation == NO_GENERATION:
        return None
    out = bytearray()
    write_partitions(out, partitions)
    return bytes(out + INT32.pack(generation))


def _cooperative_user_data(owned: Iterable[TopicPartition], generation: int) -> bytes | None:
    return INT32.pack(generation)


def _no_user_data(owned: Iterable[TopicPartition], generation: int) -> bytes | None:
    return None


def _subscribed(members: Iterable[GroupMember]) -> list[str]:
    return sorted({topic for member in members for topic in member.subscription.topics})


RANGE: Final = Assignor(
    name="range", protocols=(RebalanceProtocol.EAGER,), assign=_assign_range, user_data=_no_user_data
)
ROUND_ROBIN: Final = Assignor(
    name="roundrobin", protocols=(RebalanceProtocol.EAGER,), assign=_assign_round_robin, user_data=_no_user_data
)
STICKY: Final = Assignor(
    name="sticky", protocols=(RebalanceProtocol.EAGER,), assign=_assign_sticky, user_data=_sticky_user_data
)
COOPERATIVE_STICKY: Final = Assignor(
    name="cooperative-sticky",
    protocols=(RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER),
    assign=_assign_cooperative_sticky,
    user_data=_cooperative_user_data,
)
ASSIGNORS: Final = {assignor.name: assignor for assignor in (RANGE, ROUND_ROBIN, STICKY, COOPERATIVE_STICKY)}
