"""Reading from the replica that is near (KIP-392)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.client.scripted_brokers import AS_USUAL, T0, TOPIC_ID, ScriptedBrokers
from tests.client.test_moving_leaders import consumer_config, failed_fetch, read
from tidelog.client import Consumer
from tidelog.client.preferred_replicas import PreferredReplicas
from tidelog.model import BrokerId, ErrorCode, TopicPartition
from tidelog.runtime import Runtime
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

LEADER, NEAR = 1, 3
T1 = TopicPartition("t", 1)


def told() -> PreferredReplicas:
    preferred = PreferredReplicas(lifetime_ms=100)
    preferred.on_told(T0, NEAR, now_ms=0)
    return preferred


def source(
    preferred: PreferredReplicas, now_ms: float = 0, *, alive: tuple[BrokerId, ...] = (LEADER, NEAR)
) -> BrokerId:
    return preferred.source_of(T0, LEADER, now_ms=now_ms, alive=alive)


def test_the_leader_is_read_until_it_says_otherwise() -> None:
    assert source(PreferredReplicas(lifetime_ms=100)) == LEADER
    assert source(told()) == NEAR
    assert told().source_of(T1, LEADER, now_ms=0, alive=(LEADER, NEAR)) == LEADER


def test_what_the_leader_said_holds_for_a_while() -> None:
    preferred = told()
    assert source(preferred, 99) == NEAR
    assert source(preferred, 100) == LEADER
    assert source(preferred, 0) == LEADER


def test_a_replica_that_is_gone_is_forgotten() -> None:
    preferred = told()
    assert source(preferred, alive=(LEADER,)) == LEADER
    assert source(preferred) == LEADER


def test_only_the_replica_that_failed_is_forgotten() -> None:
    preferred = told()
    assert not preferred.forget(T0, LEADER)
    assert not preferred.forget(T1, NEAR)
    assert preferred.forget(T0, NEAR)
    assert not preferred.forget(T0, NEAR)
    assert source(preferred) == LEADER


def sends_away(brokers: ScriptedBrokers) -> None:
    """The leader sends consumers of rack `east` to the near replica."""

    def leader(node: BrokerId, request: FetchRequest) -> Any:
        if node != LEADER or request.rack_id != "east":
            return AS_USUAL
        partition = PartitionData(
            partition_index=0,
            error_code=ErrorCode.NONE,
            high_watermark=2,
            aborted_transactions=None,
            preferred_read_replica=NEAR,
            records=b"",
        )
        topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=(partition,))
        return FetchResponse(throttle_time_ms=0, responses=(topic,))

    brokers.readable = {NEAR}
    brokers.scripts[ApiKey.FETCH] = leader


def fetched_from(brokers: ScriptedBrokers) -> list[BrokerId]:
    return [node for node, _ in brokers.requests(FetchRequest)]


def test_a_consumer_reads_where_the_leader_sends_it() -> None:
    brokers = ScriptedBrokers()
    brokers.append(b"a", b"b")
    sends_away(brokers)

    async def story(runtime: Runtime) -> None:
        async with Consumer.connect(consumer_config(brokers, client_rack="east"), runtime) as consumer:
            consumer.assign([T0])
            assert await read(consumer, 2) == [b"a", b"b"]
            asyncio.get_running_loop().call_later(3, brokers.append, b"c")
            assert await read(consumer, 1) == [b"c"]

    brokers.run(story)
    assert fetched_from(brokers)[0] == LEADER
    assert set(fetched_from(brokers)[1:]) == {NEAR}


def test_a_consumer_without_a_rack_stays_with_the_leader() -> None:
    brokers = ScriptedBrokers()
    brokers.append(b"a", b"b")
    sends_away(brokers)

    async def story(runtime: Runtime) -> None:
        async with Consumer.connect(consumer_config(brokers), runtime) as consumer:
            consumer.assign([T0])
            await read(consumer, 2)

    brokers.run(story)
    assert set(fetched_from(brokers)) == {LEADER}


def test_the_leader_is_asked_again_after_the_age_of_metadata() -> None:
    brokers = ScriptedBrokers()
    brokers.append(b"a")
    sends_away(brokers)

    async def story(runtime: Runtime) -> None:
        config = consumer_config(brokers, client_rack="east", metadata_max_age_ms="2000")
        async with Consumer.connect(config, runtime) as consumer:
            consumer.assign([T0])
            await read(consumer, 1)
            asyncio.get_running_loop().call_later(7, brokers.append, b"b")
            await read(consumer, 1)

    brokers.run(story)
    assert 3 <= fetched_from(brokers).count(LEADER) <= 5
    assert fetched_from(brokers).count(NEAR) > 10


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REPLICA_NOT_AVAILABLE,
    ],
)
def test_a_replica_that_cannot_serve_is_left_for_the_leader_and_no_position_is_reset(code: ErrorCode) -> None:
    brokers = ScriptedBrokers()
    brokers.append(b"a", b"b")
    sends_away(brokers)
    leader = brokers.scripts[ApiKey.FETCH]
    refused: list[BrokerId] = []

    def refuse(node: BrokerId, request: FetchRequest) -> Any:
        if node == NEAR:
            refused.append(node)
            return failed_fetch(code)
        return AS_USUAL if refused else leader(node, request)

    brokers.scripts[ApiKey.FETCH] = refuse

    async def story(runtime: Runtime) -> None:
        config = consumer_config(brokers, client_rack="east", auto_offset_reset="latest")
        async with Consumer.connect(config, runtime) as consumer:
            consumer.assign([T0])
            consumer.seek(T0, 1)
            assert await read(consumer, 1) == [b"b"]

    brokers.run(story)
    assert fetched_from(brokers)[:3] == [LEADER, NEAR, LEADER]


def test_a_replica_that_dies_is_left_for_the_leader() -> None:
    brokers = ScriptedBrokers()
    brokers.append(b"a", b"b")
    sends_away(brokers)

    async def story(runtime: Runtime) -> None:
        async with Consumer.connect(consumer_config(brokers, client_rack="east"), runtime) as consumer:
            consumer.assign([T0])
            await read(consumer, 2)
            del brokers.scripts[ApiKey.FETCH]
            brokers.kill(NEAR)
            brokers.append(b"c")
            assert await read(consumer, 1) == [b"c"]

    brokers.run(story)
    assert fetched_from(brokers)[-1] == LEADER


def test_a_replica_that_metadata_does_not_know_yet_is_asked_about_and_the_leader_not_asked_in_a_tight_loop() -> None:
    """It was away when the consumer asked who is there: for minutes the leader was asked as fast as it could answer."""
    brokers = ScriptedBrokers()
    brokers.append(b"a", b"b")
    sends_away(brokers)

    brokers.expelled = {NEAR}

    async def story(runtime: Runtime) -> None:
        async with Consumer.connect(consumer_config(brokers, client_rack="east"), runtime) as consumer:
            consumer.assign([T0])
            asyncio.get_running_loop().call_later(1, brokers.expelled.clear)
            assert await read(consumer, 2) == [b"a", b"b"]

    brokers.run(story)
    assert 2 <= fetched_from(brokers).count(LEADER) <= 30
