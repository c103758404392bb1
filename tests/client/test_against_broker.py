"""The client and a production broker in one simulated world, with its resets, kills and cuts."""

from __future__ import annotations

import asyncio

import pytest

from tests.client.broker_world import (
    BROKER,
    CLIENT,
    BrokerWorld,
    client_config,
    consumer_config,
    producer_config,
)
from tidelog.client import (
    Admin,
    BrokersUnreachable,
    BufferExhausted,
    ClientClosed,
    Consumer,
    DeliveryTimeout,
    NewTopic,
    NoPosition,
    OffsetOutOfRange,
    ProduceFailed,
    Producer,
    RecordMetadata,
    RecordTooLarge,
    TopicMetadata,
    TopicUnavailable,
)
from tidelog.client.fetched import ConsumedRecord
from tidelog.model import ErrorCode, TopicPartition
from tidelog.runtime import Runtime

T0 = TopicPartition("t", 0)


async def produce(runtime: Runtime, *values: bytes, **settings: str) -> list[RecordMetadata]:
    async with Producer.connect(producer_config(**settings), runtime) as producer:
        futures = [await producer.send("t", value, partition=0) for value in values]
        await producer.flush()
        return [await future for future in futures]


async def consume(runtime: Runtime, count: int, *partitions: TopicPartition, **settings: str) -> list[ConsumedRecord]:
    async with Consumer.connect(consumer_config(**settings), runtime) as consumer:
        consumer.assign(partitions or [T0])
        records: list[ConsumedRecord] = []
        async with asyncio.timeout(30):
            while len(records) < count:
                records += await consumer.poll(timeout_ms=1000)
        return records


def test_topics_are_created_listed_described_and_deleted() -> None:
    async def story(runtime: Runtime) -> None:
        async with Admin.connect(client_config(), runtime) as admin:
            (created,) = await admin.create_topics([NewTopic(name="t", partition_count=3, replication_factor=1)])
            assert created.is_ok
            assert await admin.list_topics() == ["t"]
            described = await admin.describe_topics(["t", "nope"])
            topic = described["t"]
            assert isinstance(topic, TopicMetadata)
            assert (topic.topic_id, len(topic.partitions), topic.has_all_leaders) == (created.topic_id, 3, True)
            assert described["nope"] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            (again,) = await admin.create_topics([NewTopic(name="t", partition_count=3)])
            assert again.code is ErrorCode.TOPIC_ALREADY_EXISTS
            (deleted,) = await admin.delete_topics(["t"])
            assert deleted.is_ok
            assert await admin.list_topics() == []
            cluster = await admin.describe_cluster()
            assert (cluster.controller_id, [broker.broker_id for broker in cluster.brokers]) == (1, [1])

    with BrokerWorld() as world:
        world.tell(story)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_produced_is_consumed_whatever_the_codec(codec: str) -> None:
    async def story(runtime: Runtime) -> None:
        headers = (("h", b"1"), ("empty", b""), ("null", None))
        async with Producer.connect(producer_config(compression_type=codec), runtime) as producer:
            for key, value in ((b"k", b"v"), (None, b"v"), (b"k", None), (None, None)):
                await producer.send("t", value, key=key, timestamp_ms=123_456, headers=headers)
        records = await consume(runtime, 4)
        assert [(record.key, record.value) for record in records] == [
            (b"k", b"v"),
            (None, b"v"),
            (b"k", None),
            (None, None),
        ]
        assert {record.headers for record in records} == {headers}
        assert {record.timestamp_ms for record in records} == {123_456}
        assert [record.offset for record in records] == [0, 1, 2, 3]

    with BrokerWorld() as world:
        world.create_topic()
        world.tell(story)


@pytest.mark.parametrize(("acks", "offsets"), [("all", [0, 1]), ("1", [0, 1]), ("0", [-1, -1])])
def test_acks_decide_what_is_known_of_a_record(acks: str, offsets: list[int]) -> None:
    with BrokerWorld() as world:
        world.create_topic()
        metadata = world.tell(lambda runtime: produce(runtime, b"a", b"b", acks=acks))
        assert [each.offset for each in metadata] == offsets
        assert [record.value for record in world.tell(lambda runtime: consume(runtime, 2))] == [b"a", b"b"]


def test_keys_choose_partitions_and_keyless_records_fill_all_of_them() -> None:
    async def story(runtime: Runtime) -> None:
        async with Producer.connect(producer_config(batch_size="200"), runtime) as producer:
            keyed = [await producer.send_and_wait("t", b"v", key=b"21") for _ in range(3)]
            assert {each.topic_partition.index for each in keyed} == {(-973932308 & 0x7FFFFFFF) % 4}
            futures = [await producer.send("t", b"v" * 50) for _ in range(60)]
            assert {(await future).topic_partition.index for future in futures} == {0, 1, 2, 3}

    with BrokerWorld() as world:
        world.create_topic(partitions=4)
        world.tell(story)


def test_a_thousand_records_of_many_batches_keep_their_order() -> None:
    values = [b"%d" % index for index in range(1000)]
    with BrokerWorld() as world:
        world.create_topic()
        metadata = world.tell(lambda runtime: produce(runtime, *values, batch_size="500"))
        assert [each.offset for each in metadata] == list(range(1000))
        assert [record.value for record in world.tell(lambda runtime: consume(runtime, 1000))] == values


def test_the_broker_creates_a_topic_a_producer_asks_for_where_it_may() -> None:
    with BrokerWorld(auto_create_topics_enable="true") as world:
        assert [each.offset for each in world.tell(lambda runtime: produce(runtime, b"a"))] == [0]


def test_a_topic_that_does_not_exist_is_said_after_max_block_ms() -> None:
    with BrokerWorld() as world, pytest.raises(TopicUnavailable, match="UNKNOWN_TOPIC_OR_PARTITION"):
        world.tell(lambda runtime: produce(runtime, b"a", max_block_ms="2000"))


def test_an_impossible_topic_name_is_said_at_once() -> None:
    async def story(runtime: Runtime) -> None:
        async with Producer.connect(producer_config(), runtime) as producer:
            with pytest.raises(TopicUnavailable, match="INVALID_TOPIC"):
                await producer.send("no/slash", b"v")

    with BrokerWorld(auto_create_topics_enable="true") as world:
        world.tell(story)
        assert world.world.loop.time() < 5


def test_a_batch_too_large_for_the_topic_is_split_until_it_fits() -> None:
    values = [b"x" * 50 for _ in range(20)]
    with BrokerWorld() as world:
        world.create_topic(max_message_bytes="300")
        metadata = world.tell(lambda runtime: produce(runtime, *values))
        assert [each.offset for each in metadata] == list(range(20))


def test_a_record_too_large_for_the_topic_fails_and_the_next_one_is_delivered() -> None:
    async def story(runtime: Runtime) -> None:
        async with Producer.connect(producer_config(), runtime) as producer:
            assert (await producer.send_and_wait("t", b"a", partition=0)).offset == 0
            with pytest.raises(ProduceFailed, match="MESSAGE_TOO_LARGE"):
                await producer.send_and_wait("t", b"x" * 1000, partition=0)
            assert (await producer.send_and_wait("t", b"b", partition=0)).offset == 1

    with BrokerWorld() as world:
        world.create_topic(max_message_bytes="300")
        world.tell(story)


def test_a_record_too_large_for_any_request_is_refused_before_it_is_sent() -> None:
    with BrokerWorld() as world:
        world.create_topic()
        with pytest.raises(RecordTooLarge, match=r"max\.request\.size"):
            world.tell(lambda runtime: produce(runtime, b"x" * 2_000_000))


def test_idempotence_survives_connections_reset_under_load() -> None:
    values = [b"%d" % index for index in range(300)]

    async def story(runtime: Runtime) -> list[RecordMetadata]:
        async with Producer.connect(producer_config(batch_size="200", linger_ms="0"), runtime) as producer:
            futures = []
            for index, value in enumerate(values):
                futures.append(await producer.send("t", value, partition=0))
                if index % 40 == 39:
                    await futures[-30]
                    world.network.reset(CLIENT, BROKER)
            return [await future for future in futures]

    for seed in range(3):
        with BrokerWorld(seed) as world:
            world.create_topic()
            metadata = world.tell(story)
            assert [each.offset for each in metadata] == list(range(300))
            assert [record.value for record in world.tell(lambda runtime: consume(runtime, 300))] == values


def test_nothing_acknowledged_is_lost_or_doubled_when_the_broker_is_killed() -> None:
    values = [b"%d" % index for index in range(200)]

    async def story(runtime: Runtime) -> list[RecordMetadata]:
        async with Producer.connect(producer_config(batch_size="200", linger_ms="0"), runtime) as producer:
            futures = [await producer.send("t", value, partition=0) for value in values]
            await futures[50]
            world.kill_broker()
            world.start_broker()
            return [await future for future in futures]

    for seed in range(3):
        with BrokerWorld(seed) as world:
            world.create_topic(flush_messages="1")
            metadata = world.tell(story)
            assert [each.offset for each in metadata] == list(range(200))
            assert [record.value for record in world.tell(lambda runtime: consume(runtime, 200))] == values


def test_delivery_timeout_tells_the_fate_when_the_broker_does_not_come_back() -> None:
    async def story(runtime: Runtime) -> None:
        settings = {"delivery_timeout_ms": "5000", "request_timeout_ms": "2000"}
        async with Producer.connect(producer_config(**settings), runtime) as producer:
            await producer.send_and_wait("t", b"a", partition=0)
            world.network.isolate(BROKER)
            future = await producer.send("t", b"b", partition=0)
            before_ms = runtime.clock.monotonic_ms()
            with pytest.raises(DeliveryTimeout, match=r"t-0 .* in 1 attempt\(s\): .*no answer"):
                await future
            assert 4900 < runtime.clock.monotonic_ms() - before_ms < 5200

    with BrokerWorld() as world:
        world.create_topic()
        world.tell(story)
        world.network.heal()


def test_a_producer_goes_on_after_records_expired_in_a_cut() -> None:
    async def story(runtime: Runtime) -> None:
        settings = {"delivery_timeout_ms": "5000", "request_timeout_ms": "2000"}
        async with Producer.connect(producer_config(**settings), runtime) as producer:
            await producer.send_and_wait("t", b"a", partition=0)
            world.network.isolate(BROKER)
            expired = await producer.send("t", b"lost", partition=0)
            with pytest.raises(DeliveryTimeout):
                await expired
            world.network.heal()
            await producer.send_and_wait("t", b"b", partition=0)
        values = [record.value for record in await consume(runtime, 2)]
        assert values in ([b"a", b"b"], [b"a", b"lost", b"b"])

    with BrokerWorld() as world:
        world.create_topic()
        world.tell(story)


def test_a_full_buffer_blocks_sends_and_then_says_so() -> None:
    async def story(runtime: Runtime) -> None:
        settings = {"buffer_memory": "2000", "max_block_ms": "1000"}
        async with Producer.connect(producer_config(**settings), runtime) as producer:
            await producer.send_and_wait("t", b"a", partition=0)
            world.network.isolate(BROKER)
            await producer.send("t", b"x" * 1500, partition=0)
            with pytest.raises(BufferExhausted, match=r"max\.block\.ms=1000"):
                await producer.send("t", b"x" * 1500, partition=0)
            waiting = asyncio.ensure_future(producer.send("t", b"y" * 1500, partition=0))
            world.network.heal()
            assert (await (await waiting)).offset == 2

    with BrokerWorld() as world:
        world.create_topic()
        world.tell(story)


def test_a_line_that_is_full_is_used_again_as_soon_as_it_is_free() -> None:
    values = [b"x" * 200_000 for _ in range(20)]
    with BrokerWorld() as world:
        world.create_topic()
        world.network.slow(CLIENT, BROKER, latency_ms=(1, 2), bytes_per_ms=10_000)
        before_s = world.world.loop.time()
        world.tell(lambda runtime: produce(runtime, *values, acks="0"))
        assert world.world.loop.time() - before_s < 0.6
        assert len(world.tell(lambda runtime: consume(runtime, 20))) == 20


def test_a_closed_producer_refuses_records_and_fails_what_it_still_held() -> None:
    async def story(runtime: Runtime) -> None:
        async with Producer.connect(producer_config(), runtime) as producer:
            await producer.send_and_wait("t", b"a", partition=0)
            world.network.isolate(BROKER)
            future = await producer.send("t", b"b", partition=0)
            await producer.close(timeout_ms=100)
            with pytest.raises(ClientClosed):
                await future
            with pytest.raises(ClientClosed):
                await producer.send("t", b"c", partition=0)

    with BrokerWorld() as world:
        world.create_topic()
        world.tell(story)
        world.network.heal()


def test_nobody_at_the_bootstrap_address_is_said_in_time() -> None:
    with BrokerWorld() as world:
        world.kill_broker()
        with pytest.raises(BrokersUnreachable, match=BROKER):
            world.tell(lambda runtime: produce(runtime, b"a", max_block_ms="3000"))
        assert world.world.loop.time() < 5


def test_seeks_and_positions() -> None:
    async def story(runtime: Runtime) -> None:
        await produce(runtime, *[b"%d" % index for index in range(10)])
        async with Consumer.connect(consumer_config(auto_offset_reset="latest"), runtime) as consumer:
            consumer.assign([T0])
            assert await consumer.position(T0) == 10
            consumer.seek(T0, 4)
            records = await consumer.poll(max_records=2, timeout_ms=1000)
            assert [record.offset for record in records] == [4, 5]
            assert await consumer.position(T0) == 6
            consumer.seek_to_beginning()
            assert await consumer.position(T0) == 0
            assert (await anext(consumer)).offset == 0
            assert await consumer.position(T0) == 1
            consumer.seek_to_end(T0)
            assert await consumer.poll(timeout_ms=1000) == []
            assert consumer.watermarks(T0).high_watermark == 10
            with pytest.raises(NoPosition):
                consumer.seek(TopicPartition("t", 7), 0)

    with BrokerWorld() as world:
        world.create_topic()
        world.tell(story)


def test_offsets_are_found_by_end_and_by_time() -> None:
    async def story(runtime: Runtime) -> None:
        async with Producer.connect(producer_config(), runtime) as producer:
            for timestamp_ms in (1000, 2000, 3000):
                await producer.send("t", b"v", partition=0, timestamp_ms=timestamp_ms)
        async with Consumer.connect(consumer_config(), runtime) as consumer:
            assert await consumer.beginning_offsets([T0]) == {T0: 0}
            assert await consumer.end_offsets([T0]) == {T0: 3}
            found = (await consumer.offsets_for_times({T0: 1500}))[T0]
            assert found is not None
            assert (found.offset, found.timestamp_ms) == (1, 2000)
            assert await consumer.offsets_for_times({T0: 9999}) == {T0: None}

    with BrokerWorld() as world:
        world.create_topic()
        world.tell(story)


def test_a_position_outside_the_log_follows_the_reset_policy() -> None:
    async def story(runtime: Runtime) -> None:
        await produce(runtime, b"a", b"b")
        async with Consumer.connect(consumer_config(), runtime) as consumer:
            consumer.assign([T0])
            consumer.seek(T0, 99)
            assert [record.offset for record in await consumer.poll(timeout_ms=2000)] == [0, 1]
        async with Consumer.connect(consumer_config(auto_offset_reset="none"), runtime) as consumer:
            consumer.assign([T0])
            consumer.seek(T0, 99)
            with pytest.raises(OffsetOutOfRange):
                await consumer.poll(timeout_ms=2000)

    with BrokerWorld() as world:
        world.create_topic()
        world.tell(story)


def test_a_waiting_poll_gets_a_record_as_soon_as_it_is_produced() -> None:
    async def story(runtime: Runtime) -> None:
        async with (
            Consumer.connect(consumer_config(), runtime) as consumer,
            Producer.connect(producer_config(linger_ms="0"), runtime) as producer,
        ):
            consumer.assign([T0])
            assert await consumer.poll(timeout_ms=200) == []
            waiting = asyncio.ensure_future(consumer.poll(timeout_ms=5000))
            before_ms = runtime.clock.monotonic_ms()
            await producer.send_and_wait("t", b"a", partition=0)
            assert [record.value for record in await waiting] == [b"a"]
            assert runtime.clock.monotonic_ms() - before_ms < 100

    with BrokerWorld() as world:
        world.create_topic()
        world.tell(story)


def test_a_consumer_reads_on_when_its_broker_comes_back() -> None:
    async def story(runtime: Runtime) -> None:
        async with Consumer.connect(consumer_config(), runtime) as consumer:
            consumer.assign([T0])
            await produce(runtime, b"a")
            assert [record.value for record in await consumer.poll(timeout_ms=5000)] == [b"a"]
            world.kill_broker()
            world.start_broker()
            await produce(runtime, b"b")
            assert [record.value for record in await consumer.poll(timeout_ms=30_000)] == [b"b"]

    with BrokerWorld() as world:
        world.create_topic(flush_messages="1")
        world.tell(story)


def test_a_missing_topic_does_not_keep_a_consumer_from_the_others() -> None:
    with BrokerWorld() as world:
        world.create_topic()
        world.tell(lambda runtime: produce(runtime, b"a"))
        missing = TopicPartition("missing", 0)
        records = world.tell(lambda runtime: consume(runtime, 1, missing, T0))
        assert [record.value for record in records] == [b"a"]


def test_many_partitions_are_all_read_within_small_fetches() -> None:
    partitions = [TopicPartition("t", index) for index in range(20)]

    async def story(runtime: Runtime) -> None:
        async with Producer.connect(producer_config(), runtime) as producer:
            for partition in partitions * 5:
                await producer.send("t", b"x" * 100, partition=partition.index)
        settings = {"fetch_max_bytes": "1000", "max_partition_fetch_bytes": "300"}
        records = await consume(runtime, 100, *partitions, **settings)
        counts = dict.fromkeys(partitions, 0)
        for record in records:
            assert record.offset == counts[record.topic_partition]
            counts[record.topic_partition] += 1
        assert set(counts.values()) == {5}

    with BrokerWorld() as world:
        world.create_topic(partitions=20)
        world.tell(story)


def test_the_same_seed_tells_the_same_story_twice() -> None:
    def digest() -> str:
        with BrokerWorld(seed=5) as world:
            world.create_topic(partitions=3)
            world.tell(lambda runtime: produce(runtime, *[b"v"] * 20))
            world.tell(lambda runtime: consume(runtime, 20))
            world.stop_broker()
            return world.world.digest()

    assert digest() == digest()
