"""Looking after a production broker in a simulated world."""

from __future__ import annotations

import asyncio

import pytest

from tests.client.broker_world import BROKER, BrokerWorld, client_config, consumer_config, producer_config
from tidelog.client import (
    TO_HIGH_WATERMARK,
    Admin,
    BrokersUnreachable,
    ClientError,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    Consumer,
    MorePartitions,
    NewTopic,
    OffsetOutOfRange,
    ProduceFailed,
    Producer,
    ResourceKind,
    TopicMetadata,
)
from tidelog.model import ErrorCode, TopicPartition
from tidelog.runtime import Runtime

T0 = TopicPartition("t", 0)
TOPIC = ConfigResource(ResourceKind.TOPIC, "t")
THIS_BROKER = ConfigResource(ResourceKind.BROKER, "1")
ALL_BROKERS = ConfigResource(ResourceKind.BROKER, "")


async def produce(runtime: Runtime, *values: bytes) -> None:
    async with Producer.connect(producer_config(), runtime) as producer:
        for value in values:
            await producer.send_and_wait("t", value, partition=0)


async def read(admin: Admin, resource: ConfigResource, name: str) -> tuple[str | None, int]:
    (found,) = await admin.describe_configs([resource], names=[name])
    return found.configs[name].value, found.configs[name].source


def test_partitions_are_added_and_led_when_the_admin_returns() -> None:
    async def story(runtime: Runtime) -> None:
        async with Admin.connect(client_config(), runtime) as admin:
            await admin.create_topics([NewTopic(name="t", partition_count=2)])
            (checked,) = await admin.create_partitions([MorePartitions(name="t", total_count=4)], validate_only=True)
            assert checked.is_ok
            (grown,) = await admin.create_partitions(
                [MorePartitions(name="t", total_count=3, assignments=[[1]])], validate_only=False
            )
            assert grown.is_ok
            topic = (await admin.describe_topics(["t"]))["t"]
            assert isinstance(topic, TopicMetadata)
            assert (len(topic.partitions), topic.has_all_leaders) == (3, True)
            refused = await admin.create_partitions(
                [MorePartitions(name="t", total_count=1), MorePartitions(name="no", total_count=9)]
            )
            assert [result.code for result in refused] == [
                ErrorCode.INVALID_PARTITIONS,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ]

    with BrokerWorld() as world:
        world.tell(story)


def test_deleted_records_are_gone_for_consumers_also_after_a_kill() -> None:
    async def delete(runtime: Runtime) -> None:
        await produce(runtime, b"a", b"b", b"c", b"d")
        async with Admin.connect(client_config(), runtime) as admin:
            nowhere, beyond = TopicPartition("no", 0), TopicPartition("t", 8)
            deleted = await admin.delete_records({T0: 3, nowhere: 0, beyond: TO_HIGH_WATERMARK})
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert deleted == {T0: 3, nowhere: unknown, beyond: unknown}
            assert await admin.delete_records({T0: 9}) == {T0: ErrorCode.OFFSET_OUT_OF_RANGE}

    async def consume(runtime: Runtime) -> None:
        async with Consumer.connect(consumer_config(), runtime) as consumer:
            consumer.assign([T0])
            assert [record.value for record in await consumer.poll(timeout_ms=5000)] == [b"d"]
        async with Consumer.connect(consumer_config(auto_offset_reset="none"), runtime) as consumer:
            consumer.assign([T0])
            consumer.seek(T0, 1)
            with pytest.raises(OffsetOutOfRange):
                await consumer.poll(timeout_ms=5000)

    with BrokerWorld() as world:
        world.create_topic()
        world.tell(delete)
        world.tell(consume)
        world.kill_broker()
        world.start_broker()
        world.tell(consume)


def test_settings_are_altered_and_hold_at_once_and_after_a_restart() -> None:
    async def alter(runtime: Runtime) -> None:
        async with Admin.connect(client_config(), runtime) as admin:
            assert await read(admin, TOPIC, "max.message.bytes") == ("1048588", 5)
            results = await admin.alter_configs(
                {
                    TOPIC: [
                        ConfigChange(name="max.message.bytes", value="500"),
                        ConfigChange(name="cleanup.policy", value="compact", operation=ConfigOperation.APPEND),
                    ],
                    THIS_BROKER: [ConfigChange(name="log.retention.ms", value="7000")],
                    ALL_BROKERS: [
                        ConfigChange(name="log.retention.ms", value="9000"),
                        ConfigChange(name="log.segment.bytes", value="100000"),
                    ],
                }
            )
            assert [(result.resource, result.code, result.message) for result in results] == [
                (resource, ErrorCode.NONE, None) for resource in (TOPIC, THIS_BROKER, ALL_BROKERS)
            ]

    async def look(runtime: Runtime) -> None:
        async with Admin.connect(client_config(), runtime) as admin:
            assert await admin.delete_records({T0: 0}) == {T0: 0}  # changes nothing, but waits for the broker
            assert await read(admin, TOPIC, "max.message.bytes") == ("500", 1)
            assert await read(admin, TOPIC, "cleanup.policy") == ("delete,compact", 1)
            assert await read(admin, TOPIC, "retention.ms") == ("7000", 2)
            assert await read(admin, TOPIC, "segment.bytes") == ("100000", 3)
            assert await read(admin, THIS_BROKER, "log.retention.ms") == ("7000", 2)
            (shared,) = await admin.describe_configs([ALL_BROKERS])
            assert {name: entry.value for name, entry in shared.configs.items()} == {
                "log.retention.ms": "9000",
                "log.segment.bytes": "100000",
            }
        with pytest.raises(ProduceFailed, match="MESSAGE_TOO_LARGE"):
            await produce(runtime, b"v" * 600)

    async def take_back(runtime: Runtime) -> None:
        async with Admin.connect(client_config(), runtime) as admin:
            gone = [ConfigChange(name="max.message.bytes", value=None, operation=ConfigOperation.DELETE)]
            (deleted,) = await admin.alter_configs({TOPIC: gone})
            assert deleted.is_ok
            assert await read(admin, TOPIC, "max.message.bytes") == ("1048588", 5)
            (topic,) = await admin.describe_configs([TOPIC], names=["retention.ms"])
            assert [(one.name, one.value, one.source) for one in topic.configs["retention.ms"].synonyms] == [
                ("log.retention.ms", "7000", 2),
                ("log.retention.ms", "9000", 3),
                ("log.retention.ms", "604800000", 5),
            ]
            assert topic.configs["retention.ms"].documentation

    with BrokerWorld() as world:
        world.create_topic()
        world.tell(alter)
        world.tell(look)
        world.kill_broker()
        world.start_broker()
        world.tell(look)
        world.tell(take_back)


def test_what_cannot_be_altered_is_said_and_nothing_of_it_is_done() -> None:
    async def story(runtime: Runtime) -> None:
        async with Admin.connect(client_config(), runtime) as admin:
            good = ConfigChange(name="retention.ms", value="1")
            (refused,) = await admin.alter_configs({TOPIC: [good, ConfigChange(name="segment.bytes", value="many")]})
            assert (refused.code, refused.is_ok) == (ErrorCode.INVALID_CONFIG, False)
            assert await read(admin, TOPIC, "retention.ms") == ("604800000", 5)
            (checked,) = await admin.alter_configs({TOPIC: [good]}, validate_only=True)
            assert checked.is_ok
            assert await read(admin, TOPIC, "retention.ms") == ("604800000", 5)
            nobody = ConfigResource(ResourceKind.TOPIC, "nobody")
            (unknown,) = await admin.describe_configs([nobody])
            assert (unknown.code, unknown.configs) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, {})
            with pytest.raises(BrokersUnreachable):
                await admin.describe_configs([ConfigResource(ResourceKind.BROKER, "7")])

    with BrokerWorld() as world:
        world.create_topic()
        world.tell(story)


def test_directories_producers_and_the_cluster_are_described() -> None:
    async def story(runtime: Runtime) -> None:
        await produce(runtime, b"a", b"b")
        async with Admin.connect(client_config(), runtime) as admin:
            ((directory,),) = (await admin.describe_log_dirs()).values()
            assert (directory.path, directory.code) == ("/data", ErrorCode.NONE)
            assert directory.sizes[T0] > 100
            assert directory.total_bytes > directory.usable_bytes > 0
            nowhere = TopicPartition("no", 0)
            producers = await admin.describe_producers([T0, nowhere])
            found = producers[T0]
            assert isinstance(found, tuple)
            assert [(one.last_sequence, one.transaction_first_offset) for one in found] == [(1, -1)]
            assert producers[nowhere] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            cluster = await admin.describe_cluster()
            assert (cluster.controller_id, [broker.host for broker in cluster.brokers]) == (1, [BROKER])

    with BrokerWorld() as world:
        world.create_topic()
        world.tell(story)


def test_leaders_are_asked_again_until_the_broker_is_back() -> None:
    async def story(runtime: Runtime) -> None:
        async with Admin.connect(client_config(), runtime) as admin:
            await admin.list_topics()
            world.kill_broker()
            asking = asyncio.ensure_future(admin.delete_records({T0: TO_HIGH_WATERMARK}))
            asyncio.get_running_loop().call_later(3, world.start_broker)
            assert await asking == {T0: 0}

    with BrokerWorld() as world:
        world.create_topic()
        world.tell(story)


def test_a_log_directory_that_failed_is_told_as_such_and_the_other_goes_on() -> None:
    async def story(runtime: Runtime) -> None:
        async with Admin.connect(client_config(), runtime) as admin:
            (directories,) = (await admin.describe_log_dirs()).values()
            assert [(one.path, one.code, len(one.sizes)) for one in directories] == [
                ("/a", ErrorCode.NONE, 1),
                ("/b", ErrorCode.NONE, 1),
            ]
            world.world.node(BROKER).disk.faults.fail("write", path="/b/*", times=None)
            (offline,) = [key.index for one in directories if one.path == "/b" for key in one.sizes]
            async with Producer.connect(
                producer_config(delivery_timeout_ms="2000", request_timeout_ms="500"), runtime
            ) as producer:
                with pytest.raises(ClientError):
                    await producer.send_and_wait("t", b"v", partition=offline)
            (directories,) = (await admin.describe_log_dirs()).values()
            assert [(one.path, one.code, len(one.sizes)) for one in directories] == [
                ("/a", ErrorCode.NONE, 1),
                ("/b", ErrorCode.KAFKA_STORAGE_ERROR, 0),
            ]

    with BrokerWorld(log_dirs="/a,/b") as world:
        world.create_topic(partitions=2)
        world.tell(story)
