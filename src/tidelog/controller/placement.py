"""Where the replicas of new partitions go: Kafka's round robin, with and without racks (AdminUtils.assignReplicasToBrokers).

Leaders go round the brokers; followers follow at a shift that grows with every round, so that the load of a failed broker spreads over all
others instead of falling on its neighbour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import TypeAlias

from tidelog.model import ApiError, BrokerId, ErrorCode

Assignment: TypeAlias = tuple[BrokerId, ...]


def place_replicas(
    racks: Mapping[BrokerId, str | None],
    *,
    partition_count: int,
    replication_factor: int,
    start: int,
    shift: int,
    first_partition: int = 0,
) -> list[Assignment]:
    """Assign replicas to `partition_count` partitions from `first_partition` on; `racks` tells the brokers with their racks.

    Racks are heeded if every broker has one; some with and some without is refused. Raises ApiError.
    """
    if replication_factor > len(racks):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: {len(racks)}.",
        )
    named = {broker: rack for broker, rack in racks.items() if rack is not None}
    if named and len(named) < len(racks):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Not all brokers have rack information for replica rack aware assignment.",
        )
    brokers = alternate_racks(named) if named else sorted(racks)
    assignments = []
    for partition in range(first_partition, first_partition + partition_count):
        # One more for every round that is complete, counted from the first partition of this call.
        rounds = partition // len(brokers) - max(0, first_partition - 1) // len(brokers)
        order = _replica_order(
            brokers, leader=(partition + start) % len(brokers), shift=(shift + rounds) * (_rack_count(named) or 1)
        )
        assignments.append(_spread(order, named, replication_factor))
    return assignments


def alternate_racks(racks: Mapping[BrokerId, str]) -> list[BrokerId]:
    """The brokers in an order that visits the racks in turn: one of each, then the second of each, ..."""
    by_rack = [sorted(broker for broker in racks if racks[broker] == rack) for rack in sorted(set(racks.values()))]
    return [broker for turn in zip_longest(*by_rack) for broker in turn if broker is not None]


def _rack_count(racks: Mapping[BrokerId, str]) -> int:
    return len(set(racks.values()))


def _replica_order(brokers: Sequence[BrokerId], *, leader: int, shift: int) -> list[BrokerId]:
    """The leader, then all others in the order in which they are asked to follow."""
    others = len(brokers) - 1
    return [
        brokers[leader],
        *(brokers[(leader + 1 + (shift + step) % others) % len(brokers)] for step in range(others)),
    ]


def _spread(order: Sequence[BrokerId], racks: Mapping[BrokerId, str], replication_factor: int) -> Assignment:
    """The first brokers of the order, passing over a rack that has a replica while there are racks without one."""
    if not racks:
        return tuple(order[:replication_factor])
    chosen: list[BrokerId] = []
    passed: list[BrokerId] = []
    used: set[str] = set()
    for broker in order:
        if len(chosen) == replication_factor:
            break
        if racks[broker] in used and len(used) < _rack_count(racks):
            passed.append(broker)
        else:
            chosen.append(broker)
            used.add(racks[broker])
    # Kafka goes on round the same circle, so those passed over come next, in their order.
    return tuple((chosen + passed)[:replication_factor])
