"""What a client asks before it knows the cluster, and at names that are not the brokers' own."""

from __future__ import annotations

import asyncio

import pytest

from tests.client.scripted_brokers import AS_USUAL, PORT, NotImplementedType, ScriptedBrokers
from tidelog.client import Admin, BrokersUnreachable, ClientConfig, TopicUnavailable
from tidelog.client.cluster import Cluster
from tidelog.model import BrokerId, ErrorCode, TopicPartition
from tidelog.runtime import Runtime
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from tidelog.wire.messages.metadata import MetadataRequest, MetadataResponse


def test_a_broker_can_be_asked_before_the_first_metadata_has_come() -> None:
    brokers = ScriptedBrokers(1)
    brokers.scripts[ApiKey.DESCRIBE_LOG_DIRS] = lambda node, request: DescribeLogDirsResponse(results=())

    def nobody_at_first(node: BrokerId, request: MetadataRequest) -> MetadataResponse | NotImplementedType:
        if len(brokers.requests(MetadataRequest)) > 2:
            return AS_USUAL
        return MetadataResponse(brokers=(), cluster_id="scripted", controller_id=-1, topics=())

    brokers.scripts[ApiKey.METADATA] = nobody_at_first

    async def story(runtime: Runtime) -> ErrorCode:
        config = ClientConfig.from_properties({"bootstrap.servers": brokers.bootstrap})
        async with Cluster(config, runtime) as cluster:
            return (await cluster.request(1, DescribeLogDirsRequest())).error_code

    assert brokers.run(story) is ErrorCode.NONE
    assert len(brokers.requests(MetadataRequest)) == 3


def test_what_was_asked_of_a_bootstrap_server_is_answered_though_metadata_knows_it_by_another_name() -> None:
    brokers = ScriptedBrokers(1, 2)
    brokers.expelled = {1}  # its address is in nobody's metadata, and the client is told so before it has its answer

    is_asked, is_known = asyncio.Event(), asyncio.Event()

    def metadata(node: BrokerId, request: MetadataRequest) -> NotImplementedType:
        is_asked.set()
        return AS_USUAL

    async def described(node: BrokerId, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
        await is_known.wait()
        return DescribeLogDirsResponse(results=())

    brokers.scripts |= {ApiKey.METADATA: metadata, ApiKey.DESCRIBE_LOG_DIRS: described}

    async def story(runtime: Runtime) -> ErrorCode:
        config = ClientConfig.from_properties({"bootstrap.servers": f"broker-1:{PORT}"})
        async with Cluster(config, runtime) as cluster, asyncio.TaskGroup() as tasks:
            await is_asked.wait()
            asking = tasks.create_task(cluster.request(None, DescribeLogDirsRequest()))
            await cluster.refresh()
            is_known.set()
            return (await asking).error_code

    assert brokers.run(story) is ErrorCode.NONE
    assert [node for node, _ in brokers.requests(DescribeLogDirsRequest)] == [1]


def test_who_asks_once_is_told_in_time_why_nobody_answers() -> None:
    brokers = ScriptedBrokers(1)

    async def story(runtime: Runtime) -> None:
        settings = {"bootstrap.servers": brokers.bootstrap, "default.api.timeout.ms": "5000"}
        async with Admin.connect(ClientConfig.from_properties(settings), runtime) as admin:
            brokers.kill(1)
            began_ms = runtime.clock.monotonic_ms()
            for ask in (admin.describe_replicas, admin.groups.list_groups, admin.describe_log_dirs):
                with pytest.raises(BrokersUnreachable, match="lost: "):
                    await ask()
            assert 15_000 <= runtime.clock.monotonic_ms() - began_ms < 16_000

    brokers.run(story)


def test_a_partition_that_a_topic_does_not_have_is_named() -> None:
    brokers = ScriptedBrokers(1)

    async def story(runtime: Runtime) -> None:
        config = ClientConfig.from_properties({"bootstrap.servers": brokers.bootstrap})
        async with Cluster(config, runtime) as cluster:
            with pytest.raises(
                TopicUnavailable, match="UNKNOWN_TOPIC_OR_PARTITION: it has 1 partitions, and none is 5"
            ):
                await cluster.leader_of(TopicPartition("t", 5), timeout_ms=1_000)

    brokers.run(story)
