"""What brokers are told, cut into requests."""

from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.broker.internal_topics import GROUPS_TOPIC
from tidelog.broker.tellings import PARTITIONS_PER_REQUEST, Telling
from tidelog.controller import BrokerImage, ClusterImage, PartitionState, TopicImage
from tidelog.controller.difference import difference
from tidelog.wire.messages.update_metadata import FULL, UpdateMetadataRequest


def topic(name: str, number: int, partition_count: int) -> TopicImage:
    state = PartitionState(
        topic_id=UUID(int=number), assignment=(2,), leader=2, leader_epoch=0, isr=(2,), partition_epoch=0
    )
    return TopicImage(name=name, topic_id=UUID(int=number), partitions=dict.fromkeys(range(partition_count), state))


def told(*topics: TopicImage) -> list[UpdateMetadataRequest]:
    """What a broker hears of these that knew nothing."""
    broker = BrokerImage(broker_id=1, broker_epoch=1, endpoints={})
    image = ClusterImage(brokers={1: broker}).with_topics(topics)
    requests = Telling(broker, image, "PLAINTEXT").requests(difference(None, image, 1))
    return [request for request in requests if isinstance(request, UpdateMetadataRequest)]


def counts(requests: list[UpdateMetadataRequest]) -> list[dict[str, int]]:
    return [{state.topic_name: len(state.partition_states) for state in request.topic_states} for request in requests]


def test_no_request_names_too_many_partitions_and_the_last_says_that_it_is_the_last() -> None:
    requests = told(topic("t", 1, PARTITIONS_PER_REQUEST + 1), topic("u", 2, 3))
    assert counts(requests) == [{"t": PARTITIONS_PER_REQUEST}, {"t": 1, "u": 3}]
    assert [request.type == FULL for request in requests] == [False, True]


@pytest.mark.parametrize("before", [0, 1, PARTITIONS_PER_REQUEST - 1, PARTITIONS_PER_REQUEST])
def test_nobody_hears_of_half_of_the_partitions_among_which_groups_are_distributed(before: int) -> None:
    whole = PARTITIONS_PER_REQUEST + 20
    requests = told(topic("t", 1, before), topic(GROUPS_TOPIC, 2, whole), topic("u", 3, 5))
    heard = [of_request[GROUPS_TOPIC] for of_request in counts(requests) if GROUPS_TOPIC in of_request]
    assert heard == [whole]
    assert sum(sum(of_request.values()) for of_request in counts(requests)) == before + whole + 5
    assert [request.type == FULL for request in requests][-1]
