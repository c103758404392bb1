"""Replicas lie where Kafka would lay them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.controller.placement import alternate_racks, place_replicas
from tidelog.model import ApiError, ErrorCode

FIVE_BROKERS: dict[int, str | None] = dict.fromkeys(range(5))
RACKS = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}


def test_places_as_kafka_does_without_racks() -> None:
    # AdminZkClientTest.testReplicaAssignment
    assert place_replicas(FIVE_BROKERS, partition_count=10, replication_factor=3, start=0, shift=0) == [
        (0, 1, 2),
        (1, 2, 3),
        (2, 3, 4),
        (3, 4, 0),
        (4, 0, 1),
        (0, 2, 3),
        (1, 3, 4),
        (2, 4, 0),
        (3, 0, 1),
        (4, 1, 2),
    ]


def test_racks_take_turns_as_in_kafka() -> None:
    # AdminRackAwareTest.testGetRackAlternatedBrokerListAndAssignReplicasToBrokers
    assert alternate_racks(RACKS) == [0, 3, 1, 5, 4, 2]
    assert alternate_racks({broker: rack for broker, rack in RACKS.items() if broker != 5}) == [0, 3, 1, 4, 2]


def test_places_as_kafka_does_with_racks() -> None:
    # AdminRackAwareTest.testGetRackAlternatedBrokerListAndAssignReplicasToBrokers
    assert place_replicas(dict(RACKS), partition_count=7, replication_factor=3, start=0, shift=0) == [
        (0, 3, 1),
        (3, 1, 5),
        (1, 5, 4),
        (5, 4, 2),
        (4, 2, 0),
        (2, 0, 3),
        (0, 4, 2),
    ]


def test_added_partitions_go_on_where_the_topic_ended() -> None:
    whole = place_replicas(FIVE_BROKERS, partition_count=10, replication_factor=3, start=0, shift=0)
    added = place_replicas(FIVE_BROKERS, partition_count=4, replication_factor=3, start=0, shift=0, first_partition=6)
    assert [replicas[0] for replicas in added] == [replicas[0] for replicas in whole[6:]]


def test_single_broker_holds_everything() -> None:
    assert place_replicas({7: None}, partition_count=3, replication_factor=1, start=0, shift=0) == [(7,)] * 3
    assert place_replicas({7: "r"}, partition_count=2, replication_factor=1, start=0, shift=0) == [(7,)] * 2


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(ApiError) as refused:
        place_replicas({1: None}, partition_count=1, replication_factor=2, start=0, shift=0)
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert refused.value.message == "Replication factor: 2 larger than available brokers: 1."


def test_racks_for_some_brokers_only_are_refused() -> None:
    with pytest.raises(ApiError) as refused:
        place_replicas({1: "a", 2: None}, partition_count=1, replication_factor=1, start=0, shift=0)
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


def kafka(racks: dict[int, str], partitions: int, factor: int, start: int, shift: int) -> list[tuple[int, ...]]:
    """AdminUtils.assignReplicasToBrokersRackAware, transcribed line by line."""
    arranged, rack_count, placed = alternate_racks(racks), len(set(racks.values())), []
    for partition in range(partitions):
        if partition > 0 and partition % len(arranged) == 0:
            shift += 1
        first = (partition + start) % len(arranged)
        replicas, step = [arranged[first]], 0
        while len(replicas) < factor:
            index = (first + 1 + (shift * rack_count + step) % (len(arranged) - 1)) % len(arranged)
            broker, used = arranged[index], {racks[replica] for replica in replicas}
            if (racks[broker] not in used or len(used) == rack_count) and broker not in replicas:
                replicas.append(broker)
            step += 1
        placed.append(tuple(replicas))
    return placed


racked_brokers = st.dictionaries(st.integers(0, 30), st.sampled_from("abcd"), min_size=1, max_size=9)


@given(racked_brokers, st.integers(1, 40), st.integers(1, 9), st.integers(0, 20), st.integers(0, 20))
def test_rack_aware_placement_equals_kafkas(
    racks: dict[int, str], partitions: int, factor: int, start: int, shift: int
) -> None:
    factor = min(factor, len(racks))
    placed = place_replicas(
        dict(racks), partition_count=partitions, replication_factor=factor, start=start, shift=shift
    )
    assert placed == kafka(racks, partitions, factor, start, shift)


@given(racked_brokers, st.integers(1, 40), st.integers(1, 9), st.integers(0, 20), st.integers(0, 20))
def test_replicas_are_different_and_cover_as_many_racks_as_they_can(
    racks: dict[int, str], partitions: int, factor: int, start: int, shift: int
) -> None:
    factor = min(factor, len(racks))
    for replicas in place_replicas(
        dict(racks), partition_count=partitions, replication_factor=factor, start=start, shift=shift
    ):
        assert len(set(replicas)) == factor
        assert len({racks[replica] for replica in replicas}) == min(factor, len(set(racks.values())))


@given(st.integers(1, 9), st.integers(1, 6), st.integers(1, 9), st.integers(0, 20), st.integers(0, 20))
def test_leaders_and_replicas_are_spread_evenly(brokers: int, rounds: int, factor: int, start: int, shift: int) -> None:
    factor = min(factor, brokers)
    placed = place_replicas(
        dict.fromkeys(range(brokers)),
        partition_count=brokers * rounds,
        replication_factor=factor,
        start=start,
        shift=shift,
    )
    assert set(Counter(replicas[0] for replicas in placed).values()) == {rounds}
    assert set(Counter(broker for replicas in placed for broker in replicas).values()) == {rounds * factor}
