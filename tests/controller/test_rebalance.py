"""Which leadership is given back, and which is not."""

from __future__ import annotations

import dataclasses

from tests.controller.clusters import controller, state, topic
from tidelog.controller import ClusterImage, PartitionState
from tidelog.controller.rebalance import imbalanced
from tidelog.model import TopicPartition


def image(*states: PartitionState, brokers: int = 2) -> ClusterImage:
    return controller(topic("t", *states), brokers=brokers).image


def indexes(partitions: list[TopicPartition]) -> list[int]:
    return [partition.index for partition in partitions]


def test_balanced_cluster_is_left_alone() -> None:
    assert imbalanced(image(state((1, 2)), state((2, 1))), 10) == []


def test_share_above_the_percentage_is_given_back() -> None:
    nine = [state((1, 2)) for _ in range(9)]
    assert indexes(imbalanced(image(*nine, state((1, 2), leader=2)), 10)) == []
    assert indexes(imbalanced(image(*nine[1:], state((1, 2), leader=2)), 10)) == [8]


def test_each_broker_is_looked_at_for_itself() -> None:
    states = [state((1, 2)), state((2, 1), leader=1), *(state((1, 2)) for _ in range(20))]
    assert indexes(imbalanced(image(*states), 10)) == [1]


def test_only_what_the_preferred_leader_could_lead_is_given_back() -> None:
    out_of_sync = state((1, 2), leader=2, isr=(2,))
    moving = dataclasses.replace(state((1, 2), leader=2), adding=(1,))
    assert indexes(imbalanced(image(out_of_sync, moving, state((1, 2), leader=2)), 10)) == [2]


def test_dead_or_leaving_broker_is_given_nothing() -> None:
    assert imbalanced(image(state((9, 1), leader=1)), 10) == []
    leaving = dataclasses.replace(image(state((1, 2), leader=2)), shutting_down=frozenset({1}))
    assert imbalanced(leaving, 10) == []
