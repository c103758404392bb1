"""Our group consumer against Apache Kafka's coordinator, and in one group with other people's clients."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tests.cluster.stock_clients import close_unconnected
from tests.cluster.waiting import eventually
from tests.compatibility.apache_kafka import KafkaProcess
from tests.compatibility.group_members import (
    AiokafkaMember,
    ConfluentMember,
    ConsumerProtocolMember,
    CooperativeConfluentMember,
    CooperativeKafkaPythonMember,
    GroupMember,
    KafkaPythonMember,
)
from tidelog.client import CommitFailed, Consumer, ConsumerConfig
from tidelog.runtime.real import real_runtime

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(180)]
PARTITIONS = frozenset(range(4))


class OurMember(GroupMember):
    """Our consumer, on a loop of its own."""

    settings: ClassVar[Mapping[str, str]] = {"session.timeout.ms": "10000", "heartbeat.interval.ms": "500"}
    pattern: ClassVar[str | None] = None

    def _serve(self) -> None:
        runtime = real_runtime()
        try:
            asyncio.run(self._serve_on_loop(runtime))
        finally:
            runtime.disk.close()

    async def _serve_on_loop(self, runtime: Any) -> None:
        properties = {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            **self.settings,
        }
        if self.instance_id is not None:
            properties["group.instance.id"] = self.instance_id
        async with Consumer.connect(ConsumerConfig.from_properties(properties), runtime) as consumer:
            if self.pattern is None:
                consumer.group.subscribe([self.topic])
            else:
                consumer.group.subscribe(pattern=self.topic[:-1] + self.pattern)
            while not self._is_leaving.is_set():
                await self._read(consumer)

    async def _read(self, consumer: Consumer) -> None:
        found = await consumer.poll(timeout_ms=100)
        for record in found:
            self.read[record.topic_partition.index].append(record.value or b"")
        self._note(frozenset(place.index for place in consumer.assignment))
        if found:
            try:
                await consumer.group.commit()
            except CommitFailed:
                return  # The group settles anew: whoever owns it next reads it again.


class OurRoundRobin(OurMember):
    """Deals partitions out."""

    settings: ClassVar[Mapping[str, str]] = {
        **OurMember.settings,
        "partition.assignment.strategy": "roundrobin",
    }


class OurSticky(OurMember):
    """Says in its metadata what it had."""

    settings: ClassVar[Mapping[str, str]] = {**OurMember.settings, "partition.assignment.strategy": "sticky"}


class OurCooperative(OurMember):
    """Gives up only what others are given."""

    settings: ClassVar[Mapping[str, str]] = {
        **OurMember.settings,
        "partition.assignment.strategy": "cooperative-sticky",
    }


class OurConsumerProtocol(OurMember):
    """Is told by the coordinator what to read (KIP-848)."""

    settings: ClassVar[Mapping[str, str]] = {"group.protocol": "consumer"}


class OurPattern(OurConsumerProtocol):
    """Leaves it to the coordinator which topics match, and learns their names from their ids."""

    pattern: ClassVar[str | None] = "."


class KafkaPythonSticky(KafkaPythonMember):
    """kafka-python that says in its metadata what it had."""

    settings: ClassVar[Mapping[str, Any]] = {"partition_assignment_strategy": [StickyPartitionAssignor]}


EACH = pytest.mark.parametrize(
    "member_type", [OurMember, OurRoundRobin, OurSticky, OurCooperative, OurConsumerProtocol, OurPattern]
)
TOGETHER = pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (OurMember, ConfluentMember),
        (OurMember, KafkaPythonMember),
        (OurRoundRobin, AiokafkaMember),
        (OurSticky, KafkaPythonSticky),
        (OurCooperative, CooperativeConfluentMember),
        (OurCooperative, CooperativeKafkaPythonMember),
        (OurConsumerProtocol, ConsumerProtocolMember),
    ],
)


def create_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, len(PARTITIONS))])[topic].result(20)


def send(bootstrap: str, topic: str, numbers: range) -> set[bytes]:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    values = {b"%d" % number for number in numbers}
    for number in numbers:
        producer.produce(topic, b"%d" % number, partition=number % len(PARTITIONS))
    assert producer.flush(20) == 0
    return values


def share(*members: GroupMember) -> bool:
    owned = [index for member in members for index in member.owned]
    return sorted(owned) == sorted(PARTITIONS) and all(member.owned for member in members)


def have_read(values: set[bytes], *members: GroupMember) -> bool:
    return {value for member in members for value in member.values} == values


@EACH
def test_two_of_ours_share_a_topic_on_kafka_and_one_goes_on_where_the_other_stopped(
    kafka: KafkaProcess, member_type: type[OurMember]
) -> None:
    topic = group = f"ours-{member_type.__name__}"
    create_topic(kafka.bootstrap, topic)
    with member_type(kafka.bootstrap, topic, group) as first:
        with member_type(kafka.bootstrap, topic, group) as second:
            eventually(partial(share, first, second), "both have some", timeout_s=60)
            sent = send(kafka.bootstrap, topic, range(100))
            eventually(partial(have_read, sent, first, second), "everything is read", timeout_s=60)
        eventually(partial(share, first), "the first has all", timeout_s=60)
        sent |= send(kafka.bootstrap, topic, range(100, 120))
        eventually(partial(have_read, sent, first, second), "everything is read", timeout_s=60)
    assert len(first.values) + len(second.values) == 120


@TOGETHER
def test_ours_and_theirs_share_a_group_on_kafka_whoever_leads(
    kafka: KafkaProcess, ours: type[OurMember], theirs: type[GroupMember]
) -> None:
    for number, (one, other) in enumerate([(ours, theirs), (theirs, ours)]):
        topic = group = f"mixed-{ours.__name__}-{theirs.__name__}-{number}"
        create_topic(kafka.bootstrap, topic)
        with one(kafka.bootstrap, topic, group) as first:
            eventually(partial(share, first), "the first, who leads, has all", timeout_s=60)
            with other(kafka.bootstrap, topic, group) as second:
                eventually(partial(share, first, second), "both have some", timeout_s=60)
                sent = send(kafka.bootstrap, topic, range(100))
                eventually(partial(have_read, sent, first, second), "everything is read", timeout_s=60)
            eventually(partial(share, first), "the first has all", timeout_s=60)
    close_unconnected()


@pytest.mark.parametrize("member_type", [OurMember, OurConsumerProtocol])
def test_static_member_finds_its_partitions_again_on_kafka(kafka: KafkaProcess, member_type: type[OurMember]) -> None:
    topic = group = f"static-{member_type.__name__}"
    create_topic(kafka.bootstrap, topic)
    with member_type(kafka.bootstrap, topic, group, "a") as stays:
        with member_type(kafka.bootstrap, topic, group, "b") as leaves:
            eventually(partial(share, stays, leaves), "both have some", timeout_s=60)
            had, told = leaves.owned, stays.assignments
        with member_type(kafka.bootstrap, topic, group, "b") as back:
            eventually(partial(share, stays, back), "both have some", timeout_s=60)
            assert back.owned == had
        assert stays.assignments == told
