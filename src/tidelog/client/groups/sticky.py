"""As even as can be, and whoever has a partition keeps it where that is possible. Pure.

Members that want the same topics end within one partition of each other, and no more moves than evenness asks for. Where they want
different topics, nobody could be given a partition of somebody who has two more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from tidelog.model import TopicPartition

MemberId: TypeAlias = str
Shares: TypeAlias = dict[MemberId, list[TopicPartition]]


class Claim(NamedTuple):
    """What a member wants, what it says it has, and since which generation of the group."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...]
    generation: int


def assign_sticky(partition_counts: Mapping[str, int], claims: Mapping[MemberId, Claim]) -> Shares:
    """Each member's partitions; the order of `claims` settles ties."""
    if not claims:
        return {}
    topics = sorted({topic for claim in claims.values() for topic in claim.topics})
    partitions = [TopicPartition(topic, i) for topic in topics for i in range(partition_counts.get(topic, 0))]
    kept = _kept(partitions, claims)
    wishes = {frozenset(topic for topic in claim.topics if topic in partition_counts) for claim in claims.values()}
    return _share_alike(partitions, kept) if len(wishes) == 1 else _share_unlike(partitions, kept, claims)


def _kept(partitions: Iterable[TopicPartition], claims: Mapping[MemberId, Claim]) -> Shares:
    """What each member rightly says it has: of several claims to a partition the youngest counts, and none if two are as young."""
    youngest: dict[TopicPartition, int] = {}
    owners: dict[TopicPartition, list[MemberId]] = {}
    for member_id, claim in claims.items():
        for partition in dict.fromkeys(claim.owned):
            if partition not in owners or claim.generation > youngest[partition]:
                youngest[partition], owners[partition] = claim.generation, [member_id]
            elif claim.generation == youngest[partition]:
                owners[partition].append(member_id)
    kept: Shares = {member_id: [] for member_id in claims}
    for partition in partitions:
        match owners.get(partition):
            case [owner] if partition.topic in claims[owner].topics:
                kept[owner].append(partition)
    return kept


def _share_alike(partitions: list[TopicPartition], kept: Shares) -> Shares:
    """Everybody may have everything: `least` each, and one more for as many as it takes."""
    least, extra = divmod(len(partitions), len(kept))
    richest_first = sorted(kept, key=lambda member_id: -len(kept[member_id]))  # sorted() keeps the order of equals
    sizes = {member_id: least + (1 if number < extra else 0) for number, member_id in enumerate(richest_first)}
    shares = {member_id: owned[: sizes[member_id]] for member_id, owned in kept.items()}
    taken = {partition for share in shares.values() for partition in share}
    free = iter([partition for partition in partitions if partition not in taken])
    for member_id, share in shares.items():
        share += [next(free) for _ in range(sizes[member_id] - len(share))]
    return shares


def _share_unlike(partitions: list[TopicPartition], kept: Shares, claims: Mapping[MemberId, Claim]) -> Shares:
    """Free partitions to whoever has least and may have them; then moves, each of which makes shares more even, until none does."""
    shares = {member_id: list(owned) for member_id, owned in kept.items()}
    takers = {
        topic: [member_id for member_id, claim in claims.items() if topic in claim.topics]
        for topic in dict.fromkeys(partition.topic for partition in partitions)
    }

    def poorest(topic: str) -> MemberId:
        return min(takers[topic], key=lambda member_id: len(shares[member_id]))

    taken = {partition for share in shares.values() for partition in share}
    free = [partition for partition in partitions if partition not in taken]
    for partition in sorted(free, key=lambda partition: len(takers[partition.topic])):
        shares[poorest(partition.topic)].append(partition)
    while any(_give_away(giver, shares, poorest(topic), topic) for topic in takers for giver in takers[topic]):
        pass
    return shares


def _give_away(giver: MemberId, shares: Shares, receiver: MemberId, topic: str) -> bool:
    """One partition of the topic, if the giver has two more than the receiver."""
    share = shares[giver]
    if len(share) - len(shares[receiver]) < 2:
        return False
    for position in range(len(share) - 1, -1, -1):
        if share[position].topic == topic:
            shares[receiver].append(share.pop(position))
            return True
    return False
