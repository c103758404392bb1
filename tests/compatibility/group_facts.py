"""What tests of groups do and wait for, whichever client the members come from: topics, records, who owns and has read what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial
from typing import Final, Protocol

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.broker.conversation import Conversation
from tests.cluster.waiting import eventually
from tidelog.model import ErrorCode
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

PARTITIONS: Final = frozenset(range(4))

SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "6",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.session.timeout.ms": "10000",
    "group.consumer.min.session.timeout.ms": "10000",
}
"""Of brokers that wait for nobody before a group's first generation, hear of everybody often, and miss the silent before a test gives up: a
member that says farewell while its coordinator moves is not heard."""


class Member(Protocol):
    """A member of a group, of any client."""

    group_id: str

    @property
    def owned(self) -> Collection[int]:
        """The partitions it owns at present."""

    @property
    def values(self) -> list[bytes]:
        """All values read so far, in order within each partition."""


def create_topic(bootstrap: str, topic: str) -> None:
    """A topic that all brokers know: some clients do not ask again for minutes."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, len(PARTITIONS))])[topic].result(20)
    for broker in bootstrap.split(","):
        eventually(partial(_knows, broker, topic), f"{broker} knows {topic}")


def _knows(bootstrap: str, topic: str) -> bool:
    asked = (MetadataRequestTopic(name=topic),)
    with Conversation(bootstrap) as conversation:
        (found,) = conversation.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=False), 12).topics
    return len(found.partitions) == len(PARTITIONS) and all(one.leader_id > 0 for one in found.partitions)


def send(bootstrap: str, topic: str, first: int, count: int = 100) -> list[bytes]:
    """Numbers, spread over the partitions; they are delivered when this returns."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    values = [str(number).encode() for number in range(first, first + count)]
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % len(PARTITIONS))
    assert producer.flush(40) == 0
    return values


def has_read(values: list[bytes], *members: Member) -> bool:
    """Whether the members, together, have read all values."""
    return not Counter(values) - Counter(value for member in members for value in member.values)


def is_shared(*members: Member) -> bool:
    """Whether every partition has one owner, and every member something to do."""
    owned = [partition for member in members for partition in member.owned]
    return sorted(owned) == sorted(PARTITIONS) and all(member.owned for member in members)


def coordinator_of(bootstrap: str, group_id: str) -> int:
    """The broker that coordinates a group, once there is one."""
    with Conversation(bootstrap) as conversation:
        found = conversation.ask(FindCoordinatorRequest(coordinator_keys=(group_id,)), 4).coordinators[0]
    return found.node_id if found.error_code is ErrorCode.NONE else 0


def committed(bootstrap: str, topic: str, group_id: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group_id, "log_level": 0})
    try:
        places = consumer.committed([TopicPartition(topic, index) for index in sorted(PARTITIONS)], timeout=60)
        return {place.partition: place.offset for place in places}
    finally:
        consumer.close()


def reset(bootstrap: str, topic: str, *, group_id: str, to: int) -> None:
    """Put the whole group, which has no members, to an offset."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group_id, "log_level": 0})
    try:
        places = [TopicPartition(topic, index, to) for index in sorted(PARTITIONS)]
        eventually(lambda: _is_committed(consumer, places), "the group is empty, and its offsets can be set")
    finally:
        consumer.close()


def _is_committed(consumer: Consumer, places: list[TopicPartition]) -> bool:
    done = consumer.commit(offsets=places, asynchronous=False) or []
    return all(place.error is None for place in done)


def wait_until_shared_and_read(members: Sequence[Member], sent: list[bytes]) -> None:
    group_id = members[0].group_id
    eventually(lambda: has_read(sent, *members), f"{group_id} reads everything")
    eventually(lambda: is_shared(*members), f"the members of {group_id} share the partitions")


def wait_until_committed(bootstrap: str, topic: str, group_id: str, offset: int) -> None:
    """All partitions have been read up to the offset, and the group knows."""

    def is_committed() -> bool:
        return set(committed(bootstrap, topic, group_id).values()) == {offset}

    eventually(is_committed, f"{group_id} has committed {offset}")


def group_coordinated_by(broker_id: int, bootstrap: str, name: str) -> str:
    """A group of that name, but for a number, which the broker coordinates."""
    candidates = (f"{name}-{number}" for number in range(100))
    return next(group_id for group_id in candidates if coordinator_of(bootstrap, group_id) == broker_id)
