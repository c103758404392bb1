"""What an administrator asks of the controller in a scenario, through the client's own Admin."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from tidelog.client import Admin, ClientConfig
from tidelog.client.admin_values import ConfigChange, ConfigResource, ElectionKind, NewTopic, ResourceKind
from tidelog.model import BrokerId, ErrorCode, TopicPartition
from tidelog.runtime import Runtime
from tidelog.simulation.cluster import SimulatedCluster

T = TypeVar("T")


def create_topic(
    cluster: SimulatedCluster, name: str, replicas: Sequence[BrokerId], configs: Mapping[str, str]
) -> str | None:
    """Make a topic of one partition; what was refused, if anything."""

    async def ask(admin: Admin) -> str | None:
        topic = NewTopic(name=name, assignment={0: tuple(replicas)}, configs=dict(configs))
        (result,) = await admin.create_topics([topic])
        return None if result.is_ok else str(result)

    return _asked(cluster, ask)


def alter_topic(cluster: SimulatedCluster, name: str, configs: Mapping[str, str]) -> str | None:
    """Change settings of a topic; what was refused, if anything."""

    async def ask(admin: Admin) -> str | None:
        changes = [ConfigChange(name=key, value=value) for key, value in configs.items()]
        (result,) = await admin.alter_configs({ConfigResource(ResourceKind.TOPIC, name): changes})
        return None if result.is_ok else str(result)

    return _asked(cluster, ask)


def elect(cluster: SimulatedCluster, kind: str, topic_partition: TopicPartition) -> str:
    """Have a leader elected; the code of the answer, or `done`."""

    async def ask(admin: Admin) -> str:
        results = await admin.elect_leaders(ElectionKind[kind.upper()], [topic_partition])
        return _told(results[topic_partition].code, "done")

    return _asked(cluster, ask)


def reassign(cluster: SimulatedCluster, topic_partition: TopicPartition, replicas: Sequence[BrokerId]) -> str:
    """Have replicas moved; the code of the answer, or `begun`."""

    async def ask(admin: Admin) -> str:
        results = await admin.alter_reassignments({topic_partition: replicas})
        return _told(results[topic_partition].code, "begun")

    return _asked(cluster, ask)


def _told(code: ErrorCode, success: str) -> str:
    return success if code is ErrorCode.NONE else code.name


def _asked(cluster: SimulatedCluster, ask: Callable[[Admin], Awaitable[T]]) -> T:
    async def story(runtime: Runtime) -> T:
        config = ClientConfig.from_properties({"bootstrap.servers": cluster.bootstrap})
        async with Admin.connect(config, runtime) as admin:
            return await ask(admin)

    return cluster.tell(story)
