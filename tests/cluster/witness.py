"""Somebody who asks the brokers what they are: who leads, who is in sync, who is controller, who is there at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Final, TypeVar

from tidelog.client import Admin, ClientConfig, NewTopic, ReplicaDescription
from tidelog.client.errors import ClientError
from tidelog.model import ApiError, BrokerId, ErrorCode, TopicPartition
from tidelog.runtime.real import real_runtime

T = TypeVar("T")
Replicas = dict[int, tuple[ReplicaDescription, ...]]

_SETTINGS: Final = {
    "request.timeout.ms": "2000",
    "default.api.timeout.ms": "5000",  # who asks again and again asks somebody else soon
    "socket.connection.setup.timeout.ms": "1000",
}
_NOTHING_ELSE: Final[Mapping[str, str]] = {}


class Witness:
    """Asks brokers through connections of its own, each time anew: nothing it knows is old."""

    def __init__(self, addresses: dict[int, str], topic: str) -> None:
        self._addresses = addresses
        self._topic = topic

    def create_topic(self, partition_count: int, configs: dict[str, str] | None = None) -> None:
        """Make the topic, with three replicas of each partition."""
        topic = NewTopic(name=self._topic, partition_count=partition_count, replication_factor=3, configs=configs or {})

        async def create(admin: Admin) -> None:
            (result,) = await admin.create_topics([topic])
            assert result.is_ok, result

        asyncio.run(self._asked(create, self._addresses, {"default.api.timeout.ms": "40000"}))

    def controller(self, among: Iterable[int] | None = None) -> int | None:
        """Who is controller, as one of these brokers (or of all) says; None if nobody says, or nobody is."""

        async def describe(admin: Admin) -> int | None:
            found = (await admin.describe_cluster()).controller_id
            return found if found >= 0 else None

        return self._ask(describe, among)

    def registered(self, among: Iterable[int] | None = None) -> set[int]:
        """The brokers that one of these (or of all) says are there; none if nobody answers."""

        async def describe(admin: Admin) -> set[int]:
            return {broker.broker_id for broker in (await admin.describe_cluster()).brokers}

        return self._ask(describe, among) or set()

    def replicas(self, among: Iterable[int] | None = None) -> Replicas:
        """What each of these brokers, or of all, says of its replicas of the topic; who does not answer is left out."""
        asked = sorted(self._addresses if among is None else among)

        async def describe(admin: Admin) -> Replicas:
            told = await admin.describe_replicas(brokers=[BrokerId(each) for each in asked])
            return {
                node: tuple(each for each in found if each.topic_partition.topic == self._topic)
                for node, found in told.items()
            }

        return self._ask(describe, among) or {}

    def leaders(self, among: Iterable[int] | None = None) -> dict[TopicPartition, ReplicaDescription]:
        """The replica of each partition that says it leads; of two, the one in the greater epoch."""
        found: dict[TopicPartition, ReplicaDescription] = {}
        for rows in self.replicas(among).values():
            for row in rows:
                known = found.get(row.topic_partition)
                if row.is_leader and (known is None or row.leader_epoch > known.leader_epoch):
                    found[row.topic_partition] = row
        return found

    def appointed(self, among: Iterable[int] | None = None) -> dict[int, int]:
        """Who leads each partition as these brokers (or all) tell clients, whether it knows it or not."""

        async def describe(admin: Admin) -> dict[int, int]:
            topic = (await admin.describe_topics([self._topic]))[self._topic]
            if isinstance(topic, ErrorCode):
                return {}
            return {each.index: each.leader.broker_id for each in topic.partitions}

        return self._ask(describe, among) or {}

    def _ask(self, question: Callable[[Admin], Coroutine[None, None, T]], among: Iterable[int] | None) -> T | None:
        asked = self._addresses if among is None else {each: self._addresses[each] for each in among}
        try:
            return asyncio.run(self._asked(question, asked))
        except (ClientError, ApiError):
            return None

    @staticmethod
    async def _asked(
        question: Callable[[Admin], Coroutine[None, None, T]],
        asked: dict[int, str],
        settings: Mapping[str, str] = _NOTHING_ELSE,
    ) -> T:
        properties = {"bootstrap.servers": ",".join(asked.values()), **_SETTINGS, **settings}
        runtime = real_runtime()
        try:
            async with Admin.connect(ClientConfig.from_properties(properties), runtime) as admin:
                return await question(admin)
        finally:
            runtime.disk.close()
