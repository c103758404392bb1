"""DescribeProducers: however much is asked for, the answer stays small, and what an operator looks for is in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from tests.client.broker_world import BrokerWorld, client_config
from tests.raw_transactions import RawTransactions
from tidelog.broker.handlers import describe_producers
from tidelog.client import Cluster
from tidelog.model import ErrorCode, ProducerIdentity, TopicPartition
from tidelog.runtime import Runtime
from tidelog.wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse, TopicRequest

pytestmark = pytest.mark.slow

T = TypeVar("T")
HANGING_ALLOWED = {"transaction.partition.verification.enable": "false"}
BROKER = 1


def told(story: Callable[[Cluster, RawTransactions], Awaitable[T]]) -> T:
    """Tell a story to a broker with a topic of three partitions."""
    with BrokerWorld(1, **HANGING_ALLOWED) as world:
        world.create_topic("t", partitions=3)

        async def play(runtime: Runtime) -> T:
            async with Cluster(client_config(), runtime) as cluster:
                return await story(cluster, RawTransactions(cluster, client_config(), runtime))

        return world.tell(play)


def asking(*indexes: int, topic: str = "t") -> TopicRequest:
    return TopicRequest(name=topic, partition_indexes=indexes)


async def ask(cluster: Cluster, *topics: TopicRequest) -> DescribeProducersResponse:
    return await cluster.request(BROKER, DescribeProducersRequest(topics=topics))


def seen(answer: DescribeProducersResponse) -> dict[int, list[int] | ErrorCode]:
    """The producers of each partition, or why there are none."""
    return {
        row.partition_index: [one.producer_id for one in row.active_producers]
        if row.error_code is ErrorCode.NONE
        else row.error_code
        for topic in answer.topics
        for row in topic.partitions
    }


async def write(raw: RawTransactions, index: int, *producer_ids: int, is_ended: bool = False) -> None:
    """Producers that have a transaction open, or had one."""
    for producer_id in producer_ids:
        key, producer = TopicPartition("t", index), ProducerIdentity(producer_id, 0)
        await raw.write(producer, key, b"x")
        if is_ended:
            await raw.mark(producer, key)


def test_what_is_named_again_and_again_is_told_once() -> None:
    async def story(cluster: Cluster, raw: RawTransactions) -> None:
        await write(raw, 0, 7)
        answer = await ask(cluster, asking(*[0] * 50_000), asking(9), asking(0, 1))
        assert [[row.partition_index for row in topic.partitions] for topic in answer.topics] == [[0, 9, 1]]
        assert seen(answer) == {0: [7], 1: [], 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    told(story)


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_open_transactions_come_first_and_then_as_many_others_as_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(describe_producers, "PRODUCERS_MAX", 5)
    monkeypatch.setattr(describe_producers, "PRODUCERS_AT_ONCE", at_once)

    async def story(cluster: Cluster, raw: RawTransactions) -> None:
        await write(raw, 0, 1, 2, 3, 4, is_ended=True)
        await write(raw, 0, 5)
        await write(raw, 1, 6, 7)
        assert seen(await ask(cluster, asking(0, 1))) == {0: [5, 1, 2], 1: [6, 7]}
        assert seen(await ask(cluster, asking(0))) == {0: [5, 1, 2, 3, 4]}

    told(story)


def test_a_partition_whose_open_transactions_do_not_fit_is_refused_and_told_of_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(describe_producers, "PRODUCERS_MAX", 3)

    async def story(cluster: Cluster, raw: RawTransactions) -> None:
        await write(raw, 0, 1, 2)
        await write(raw, 1, 3, 4, 5, 6)
        assert seen(await ask(cluster, asking(0, 1, 2))) == {0: [1, 2], 1: ErrorCode.INVALID_REQUEST, 2: []}
        assert seen(await ask(cluster, asking(1))) == {1: [3, 4, 5]}

    told(story)
