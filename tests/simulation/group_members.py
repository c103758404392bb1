"""Consumers of a group, each on a machine of its own that can be killed or paused, and what they saw."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.story import passed
from tests.simulation.workload import properties
from tidelog.client import Admin, ClientConfig, Consumer, ConsumerConfig, NewTopic, Producer, ProducerConfig
from tidelog.client.groups.offset_commits import Committed
from tidelog.model import BrokerId, TopicPartition
from tidelog.runtime import Runtime
from tidelog.simulation.cluster import SimulatedCluster

GROUP = "g"
FAST = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
}
CLASSIC = {"group.protocol": "classic", "session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}
COOPERATIVE = {**CLASSIC, "partition.assignment.strategy": "cooperative-sticky"}
CONSUMER = {"group.protocol": "consumer"}


class Member:
    """Polls for as long as its machine runs, commits now and then, and writes down what happened, in order."""

    def __init__(self, cluster: SimulatedCluster, name: str, settings: dict[str, str], topic: str = "t") -> None:
        self.node = cluster.world.node(name)
        self.name = name
        self.seen: list[tuple[TopicPartition, int, bytes]] = []
        self.events: list[tuple[str, tuple[TopicPartition, ...]]] = []
        self.owned: set[TopicPartition] = set()
        self.consumer: Consumer | None = None
        self.works_for_s = 0.0  # between two polls
        self._topic = topic
        self._is_over = False
        self._config = ConsumerConfig.from_properties(
            {
                **properties(cluster, group_id=GROUP, auto_offset_reset="earliest", auto_commit_interval_ms="200"),
                "max.poll.interval.ms": "20000",
                **settings,
            }
        )
        self._task = self.node.start(self._main)

    async def _main(self, runtime: Runtime) -> None:
        async with Consumer.connect(self._config, runtime) as consumer:
            self.consumer = consumer
            consumer.group.subscribe(
                [self._topic],
                on_assigned=lambda partitions: self._note("assigned", partitions),
                on_revoked=lambda partitions: self._note("revoked", partitions),
                on_lost=lambda partitions: self._note("lost", partitions),
            )
            while not self._is_over:
                for record in await consumer.poll(timeout_ms=100):
                    assert record.topic_partition in self.owned, "a record of a partition that was given up"
                    self.seen.append((record.topic_partition, record.offset, record.value or b""))
                if self.works_for_s:
                    await passed(self.works_for_s)

    def _note(self, what: str, partitions: list[TopicPartition]) -> None:
        self.events.append((what, tuple(sorted(partitions))))
        if what == "assigned":
            self.owned |= set(partitions)
        else:
            self.owned -= set(partitions)

    @property
    def values(self) -> set[bytes]:
        """What was handed out, of whatever offset."""
        return {value for _, _, value in self.seen}

    def stop(self, cluster: SimulatedCluster) -> None:
        """Close in good order."""
        self._is_over = True

        async def ended() -> None:
            await self._task

        cluster.world.run(ended())
        self.owned.clear()

    def kill(self) -> None:
        """SIGKILL: nobody is told."""
        self.node.kill()
        self.owned.clear()


def partitions(count: int, topic: str = "t") -> set[TopicPartition]:
    return {TopicPartition(topic, index) for index in range(count)}


def share_all(count: int, *members: Member) -> Callable[[], bool]:
    """Whether these members own all partitions, each of them once and nobody much more than another."""

    def is_so() -> bool:
        owned = [partition for member in members for partition in member.owned]
        sizes = [len(member.owned) for member in members]
        return sorted(owned) == sorted(partitions(count)) and max(sizes) - min(sizes) <= 1

    return is_so


def make_topic(cluster: SimulatedCluster, *, count: int, replicas: int = 1, name: str = "t") -> None:
    async def story(runtime: Runtime) -> None:
        async with Admin.connect(ClientConfig.from_properties(properties(cluster)), runtime) as admin:
            topic = NewTopic(name=name, partition_count=count, replication_factor=replicas)
            (result,) = await admin.create_topics([topic])
            assert result.is_ok, result

    cluster.until_ready()
    cluster.tell(story)


def produce(cluster: SimulatedCluster, values: range, *, count: int, topic: str = "t") -> None:
    """Acknowledged by all, dealt out over the partitions."""

    async def story(runtime: Runtime) -> None:
        async with Producer.connect(ProducerConfig.from_properties(properties(cluster)), runtime) as producer:
            for sent in [await producer.send(topic, b"%d" % value, partition=value % count) for value in values]:
                await sent

    cluster.tell(story)


def committed(cluster: SimulatedCluster, *, count: int, group: str = GROUP) -> dict[int, Committed | None]:
    """What the group has committed, by partition."""

    async def story(runtime: Runtime) -> dict[int, Committed | None]:
        config = ConsumerConfig.from_properties(properties(cluster, group_id=group))
        async with Consumer.connect(config, runtime) as consumer:
            found = await consumer.group.committed(sorted(partitions(count)))
            return {partition.index: each for partition, each in found.items()}

    return cluster.tell(story)


def coordinator(cluster: SimulatedCluster, group: str = GROUP) -> BrokerId:
    """The broker that leads the group's partition of the internal topic."""
    from tidelog.coordinator.placement import partition_of

    index = partition_of(group, int(FAST["offsets.topic.num.partitions"]))
    return cluster.state(TopicPartition("__consumer_offsets", index)).leader
