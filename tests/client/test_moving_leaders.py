"""Producers, consumers and admins while leaders and controllers move."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.client.scripted_brokers import AS_USUAL, T0, TOPIC_ID, ScriptedBrokers, View
from tests.tiers import rest_proven
from tidelog.client import (
    Admin,
    BrokersUnreachable,
    ClientConfig,
    Cluster,
    Consumer,
    ConsumerConfig,
    NewTopic,
    Producer,
    ProducerConfig,
)
from tidelog.model import BrokerId, ErrorCode
from tidelog.runtime import Runtime
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from tidelog.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from tidelog.wire.messages.metadata import MetadataRequest
from tidelog.wire.messages.produce import (
    NO_LEADER_HINT,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

RETRIED = [
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
]
OF_MOVED_LEADERS = RETRIED[:4]


def properties(brokers: ScriptedBrokers, **settings: str) -> dict[str, str]:
    return {"bootstrap.servers": brokers.bootstrap} | {
        name.replace("_", "."): value for name, value in settings.items()
    }


def refusal(code: ErrorCode, *, leader: LeaderIdAndEpoch = NO_LEADER_HINT) -> ProduceResponse:
    row = PartitionProduceResponse(index=0, error_code=code, base_offset=-1, current_leader=leader)
    endpoints = (NodeEndpoint(node_id=2, host="broker-2", port=9092),) if leader != NO_LEADER_HINT else ()
    topic = TopicProduceResponse(name="t", topic_id=TOPIC_ID, partition_responses=(row,))
    return ProduceResponse(responses=(topic,), node_endpoints=endpoints)


async def produce(brokers: ScriptedBrokers, runtime: Runtime, *values: bytes, **settings: str) -> list[int]:
    config = ProducerConfig.from_properties(properties(brokers, **settings))
    async with Producer.connect(config, runtime) as producer:
        return [(await producer.send_and_wait("t", value, partition=0)).offset for value in values]


@pytest.mark.parametrize("code", RETRIED)
def test_a_producer_tries_again_what_passes(code: ErrorCode) -> None:
    brokers = ScriptedBrokers()
    refused: list[BrokerId] = []

    def refuse_twice(node: BrokerId, _request: ProduceRequest) -> Any:
        if len(refused) < 2:
            refused.append(node)
            return refusal(code)
        return AS_USUAL

    brokers.scripts[ApiKey.PRODUCE] = refuse_twice
    assert brokers.run(lambda runtime: produce(brokers, runtime, b"v")) == [0]
    assert refused == [1, 1]


@pytest.mark.parametrize("code", OF_MOVED_LEADERS)
def test_a_producer_goes_to_the_new_leader_that_metadata_names(code: ErrorCode) -> None:
    brokers = ScriptedBrokers()

    def move(node: BrokerId, _request: ProduceRequest) -> Any:
        if brokers.truth.leader == 1:
            brokers.elect(2, 1)
            return refusal(code)
        return AS_USUAL

    brokers.scripts[ApiKey.PRODUCE] = move
    assert brokers.run(lambda runtime: produce(brokers, runtime, b"v")) == [0]
    assert [node for node, _ in brokers.requests(ProduceRequest)] == [1, 2]


def test_a_producer_that_is_told_the_new_leader_asks_nobody_else() -> None:
    brokers = ScriptedBrokers()

    def move(node: BrokerId, _request: ProduceRequest) -> Any:
        if brokers.truth.leader == 1:
            brokers.elect(2, 1)
            return refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=1))
        return AS_USUAL

    brokers.scripts[ApiKey.PRODUCE] = move
    brokers.run(lambda runtime: produce(brokers, runtime, b"v"))
    first, second = brokers.times(ProduceRequest)
    assert not [when for when in brokers.times(MetadataRequest) if first < when < second]


def test_a_producer_that_waits_for_no_answer_asks_who_leads_when_it_is_hung_up_on() -> None:
    brokers = ScriptedBrokers()
    asked, taken = asyncio.Event(), asyncio.Event()

    def take(node: BrokerId, _request: ProduceRequest) -> None:
        if node == brokers.truth.leader == 2:
            taken.set()
        elif node != brokers.truth.leader:
            brokers.scripts[ApiKey.METADATA] = tell
            brokers.world.fabric.faults.reset("client", f"broker-{node}")

    def tell(_node: BrokerId, _request: MetadataRequest) -> Any:
        asked.set()
        return AS_USUAL

    async def story(runtime: Runtime) -> None:
        config = ProducerConfig.from_properties(properties(brokers, acks="0"))
        async with Producer.connect(config, runtime) as producer:
            await producer.send_and_wait("t", b"taken", partition=0)
            brokers.elect(2, 1)
            await producer.send_and_wait("t", b"thrown away", partition=0)
            async with asyncio.timeout(5):
                await asked.wait()
                await producer.send_and_wait("t", b"taken by the new leader", partition=0)
                await taken.wait()

    brokers.scripts[ApiKey.PRODUCE] = take
    brokers.run(story)
    assert [node for node, _ in brokers.requests(ProduceRequest)] == [1, 1, 2]


@pytest.mark.parametrize("outage_ms", [300, 1000, 1300, 1700])
def test_a_producer_finds_the_new_leader_promptly_when_the_old_one_is_dead(outage_ms: float) -> None:
    brokers = ScriptedBrokers()
    took_ms: list[float] = []

    async def story(runtime: Runtime) -> None:
        config = ProducerConfig.from_properties(properties(brokers))
        async with Producer.connect(config, runtime) as producer:
            await producer.send_and_wait("t", b"before", partition=0)
            brokers.kill(1)
            sending = await producer.send("t", b"after", partition=0)
            elected_ms = runtime.clock.monotonic_ms() + outage_ms
            asyncio.get_running_loop().call_later(outage_ms / 1000, brokers.elect, 2, 1)
            await sending
            took_ms.append(runtime.clock.monotonic_ms() - elected_ms)

    brokers.run(story)
    assert 0 < took_ms[0] < 350, took_ms
    assert [entry.value for entry in brokers.logs[2]] == [b"before", b"after"]


def test_nobody_is_asked_for_metadata_in_a_tight_loop_while_there_is_no_leader() -> None:
    brokers = ScriptedBrokers()

    async def story(runtime: Runtime) -> None:
        config = ProducerConfig.from_properties(properties(brokers, delivery_timeout_ms="40000"))
        async with Producer.connect(config, runtime) as producer:
            await producer.send_and_wait("t", b"v", partition=0)
            brokers.elect(-1, 1)
            sending = await producer.send("t", b"v", partition=0)
            asyncio.get_running_loop().call_later(30, brokers.elect, 2, 2)
            await sending

    brokers.run(story)
    assert 30 <= len(brokers.times(MetadataRequest)) <= 80


@pytest.mark.parametrize("seed", rest_proven(range(5)))
def test_who_leaves_requests_unanswered_is_asked_last(seed: int) -> None:
    brokers = ScriptedBrokers(seed=seed)
    silent: set[BrokerId] = set()

    def maybe_silent(node: BrokerId, _request: object) -> Any:
        return None if node in silent else AS_USUAL

    brokers.scripts = dict.fromkeys((ApiKey.PRODUCE, ApiKey.METADATA), maybe_silent)

    async def story(runtime: Runtime) -> None:
        config = ProducerConfig.from_properties(properties(brokers, request_timeout_ms="2000"))
        async with Producer.connect(config, runtime) as producer:
            await producer.send_and_wait("t", b"v", partition=0)
            silent.add(1)
            brokers.views = {2: View(2, 1), 3: View(2, 1)}
            started_ms = runtime.clock.monotonic_ms()
            await producer.send_and_wait("t", b"w", partition=0)
            assert runtime.clock.monotonic_ms() - started_ms < 2500

    brokers.run(story)


def let_the_leader_fall_silent(brokers: ScriptedBrokers, *, expelled_after_s: float) -> None:
    """A stopped process: its connections stay, nothing is answered, and after a while another leads."""

    def expel() -> None:
        brokers.expelled.add(1)
        brokers.elect(2, 1)

    brokers.scripts = dict.fromkeys(
        (ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.FETCH, ApiKey.API_VERSIONS),
        lambda node, _request: None if node == 1 else AS_USUAL,
    )
    asyncio.get_running_loop().call_later(expelled_after_s, expel)


@pytest.mark.parametrize("seed", rest_proven(range(4)))
def test_a_producer_leaves_a_silent_leader_soon_after_the_cluster_has(seed: int) -> None:
    brokers = ScriptedBrokers(seed=seed)

    async def story(runtime: Runtime) -> None:
        async with Producer.connect(ProducerConfig.from_properties(properties(brokers)), runtime) as producer:
            await producer.send_and_wait("t", b"a", partition=0)
            let_the_leader_fall_silent(brokers, expelled_after_s=9)
            started_ms = runtime.clock.monotonic_ms()
            await producer.send_and_wait("t", b"b", partition=0)
            assert 9_000 < runtime.clock.monotonic_ms() - started_ms < 16_000

    brokers.run(story)


@pytest.mark.parametrize("seed", rest_proven(range(4)))
def test_a_consumer_leaves_a_silent_leader_soon_after_the_cluster_has(seed: int) -> None:
    brokers = ScriptedBrokers(seed=seed)
    brokers.append(b"a")

    async def story(runtime: Runtime) -> None:
        async with Consumer.connect(consumer_config(brokers), runtime) as consumer:
            consumer.assign([T0])
            await read(consumer, 1)
            let_the_leader_fall_silent(brokers, expelled_after_s=9)
            started_ms = runtime.clock.monotonic_ms()
            asyncio.get_running_loop().call_later(9.1, brokers.append, b"b")
            assert await read(consumer, 1) == [b"b"]
            assert 9_000 < runtime.clock.monotonic_ms() - started_ms < 16_000

    brokers.run(story)


def test_old_news_does_not_send_a_client_back_to_the_old_leader() -> None:
    brokers = ScriptedBrokers()
    brokers.elect(2, 5)

    async def story(runtime: Runtime) -> None:
        async with Cluster(ClientConfig.from_properties(properties(brokers)), runtime) as cluster:
            assert (await cluster.leader_of(T0)).leader_epoch == 5
            brokers.views = dict.fromkeys(brokers.broker_ids, View(1, 4))
            await cluster.refresh("t")
            assert cluster.metadata.leader_of(T0) == (2, 5)

    brokers.run(story)


def consumer_config(brokers: ScriptedBrokers, **settings: str) -> ConsumerConfig:
    return ConsumerConfig.from_properties({"auto.offset.reset": "earliest"} | properties(brokers, **settings))


async def read(consumer: Consumer, count: int) -> list[bytes | None]:
    records: list[bytes | None] = []
    async with asyncio.timeout(20):
        while len(records) < count:
            records += [record.value for record in await consumer.poll(timeout_ms=1000)]
    return records


@pytest.mark.parametrize("code", [*OF_MOVED_LEADERS, ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.REPLICA_NOT_AVAILABLE])
def test_a_consumer_goes_on_at_the_new_leader(code: ErrorCode) -> None:
    brokers = ScriptedBrokers()
    brokers.append(b"a", b"b")
    refused: list[BrokerId] = []

    async def move(node: BrokerId, request: FetchRequest) -> Any:
        if refused or request.topics[0].partitions[0].fetch_offset < 2:
            return AS_USUAL
        refused.append(node)
        brokers.elect(3, 1)
        brokers.append(b"c")
        return failed_fetch(code)

    brokers.scripts[ApiKey.FETCH] = move

    async def story(runtime: Runtime) -> None:
        async with Consumer.connect(consumer_config(brokers), runtime) as consumer:
            consumer.assign([T0])
            assert await read(consumer, 3) == [b"a", b"b", b"c"]

    brokers.run(story)
    assert refused == [1]
    assert {request.topics[0].partitions[0].current_leader_epoch for _, request in brokers.requests(FetchRequest)} == {
        0,
        1,
    }


def failed_fetch(code: ErrorCode) -> FetchResponse:
    partition = PartitionData(
        partition_index=0, error_code=code, high_watermark=-1, aborted_transactions=None, records=b""
    )
    topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=(partition,))
    return FetchResponse(throttle_time_ms=0, responses=(topic,))


@pytest.mark.parametrize("outage_ms", [300, 1000, 1300, 1700])
def test_a_consumer_finds_the_new_leader_promptly_when_the_old_one_is_dead(outage_ms: float) -> None:
    brokers = ScriptedBrokers()
    brokers.append(b"a")
    took_ms: list[float] = []

    async def story(runtime: Runtime) -> None:
        async with Consumer.connect(consumer_config(brokers), runtime) as consumer:
            consumer.assign([T0])
            await read(consumer, 1)
            brokers.kill(1)
            elected_ms = runtime.clock.monotonic_ms() + outage_ms
            loop = asyncio.get_running_loop()
            loop.call_later(outage_ms / 1000, brokers.elect, 2, 1)
            loop.call_later(outage_ms / 1000, brokers.append, b"b")
            assert await read(consumer, 1) == [b"b"]
            took_ms.append(runtime.clock.monotonic_ms() - elected_ms)

    brokers.run(story)
    assert 0 < took_ms[0] < 350, took_ms


def created(code: ErrorCode) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=(CreatableTopicResult(name="t", error_code=code, error_message=None),))


def test_an_admin_follows_the_controller() -> None:
    brokers = ScriptedBrokers()

    def create(node: BrokerId, _request: CreateTopicsRequest) -> Any:
        if node == 1:
            brokers.controller = 3
            return created(ErrorCode.NOT_CONTROLLER)
        return created(ErrorCode.NONE)

    brokers.scripts[ApiKey.CREATE_TOPICS] = create

    async def story(runtime: Runtime) -> None:
        async with Admin.connect(ClientConfig.from_properties(properties(brokers)), runtime) as admin:
            (result,) = await admin.create_topics([NewTopic(name="t")])
            assert result.is_ok

    brokers.run(story)
    assert [node for node, _ in brokers.requests(CreateTopicsRequest)] == [1, 3]


def test_an_admin_finds_another_controller_when_the_old_one_is_dead() -> None:
    brokers = ScriptedBrokers()
    brokers.scripts[ApiKey.CREATE_TOPICS] = lambda _node, _request: created(ErrorCode.NONE)

    async def story(runtime: Runtime) -> None:
        async with Admin.connect(ClientConfig.from_properties(properties(brokers)), runtime) as admin:
            await admin.list_topics()
            brokers.kill(1)
            brokers.elect(2, 1)
            asyncio.get_running_loop().call_later(1, setattr, brokers, "controller", 2)
            (result,) = await admin.create_topics([NewTopic(name="t")])
            assert result.is_ok

    brokers.run(story)
    assert [node for node, _ in brokers.requests(CreateTopicsRequest)] == [2]


def test_an_admin_gives_up_in_time_where_nobody_is_the_controller() -> None:
    brokers = ScriptedBrokers()
    brokers.scripts[ApiKey.CREATE_TOPICS] = lambda _node, _request: created(ErrorCode.NOT_CONTROLLER)

    async def story(runtime: Runtime) -> None:
        config = ClientConfig.from_properties(properties(brokers, default_api_timeout_ms="5000"))
        async with Admin.connect(config, runtime) as admin:
            with pytest.raises(BrokersUnreachable, match="broker 1 is not the controller"):
                await admin.create_topics([NewTopic(name="t")])

    brokers.run(story)
    assert 5 <= len(brokers.requests(CreateTopicsRequest)) <= 20
