"""Stock Python clients as members of a group, behind one face: each reads in a thread of its own, and commits what it has read.

A member is told as little as its users tell it; what is said besides makes a test shorter (how often it says that it is alive).
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self

import aiokafka
import kafka
from confluent_kafka import Consumer, KafkaException
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

_POLL_S: Final = 0.1
_LONG_POLL_MS: Final = 400
_IDLE_POLLS: Final = 10
_JOIN_S: Final = 90
_SESSION_MS: Final = 30_000
_HEARTBEAT_MS: Final = 500


class GroupMember:
    """A member of a group: what it owns at present, and what it has read. Use it as a context manager: leaving it leaves the group."""

    def __init__(self, bootstrap: str, topic: str, group_id: str, instance_id: str | None = None) -> None:
        self.bootstrap, self.topic, self.group_id, self.instance_id = bootstrap, topic, group_id, instance_id
        self.owned: frozenset[int] = frozenset()
        self.assignments = 0  # how often it was told what it owns
        self.read: defaultdict[int, list[bytes]] = defaultdict(list)  # by partition
        self.failure: BaseException | None = None
        self._is_leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Close the client; a static member's place stays free for it."""
        self._is_leaving.set()
        self._thread.join(_JOIN_S)
        assert not self._thread.is_alive(), "the client does not close"
        if self.failure is not None:
            raise self.failure

    @property
    def values(self) -> list[bytes]:
        """All values read so far, in order within each partition."""
        if self.failure is not None:
            raise self.failure
        return [value for partition in sorted(self.read) for value in list(self.read[partition])]

    def _run(self) -> None:
        try:
            self._serve()
        except BaseException as failure:  # noqa: BLE001 the test raises it
            self.failure = failure

    def _serve(self) -> None:
        raise NotImplementedError

    def _note(self, owned: frozenset[int]) -> None:
        if owned != self.owned:
            self.assignments += 1
            self.owned = owned


class ConfluentMember(GroupMember):
    """confluent-kafka, on librdkafka, with the classic protocol."""

    settings: ClassVar[Mapping[str, Any]] = {"session.timeout.ms": _SESSION_MS, "heartbeat.interval.ms": _HEARTBEAT_MS}

    def _serve(self) -> None:
        settings = {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 1_000,
            "log_level": 0,
            **self.settings,
        }
        if self.instance_id is not None:
            settings["group.instance.id"] = self.instance_id
        consumer = Consumer(settings)
        try:
            consumer.subscribe([self.topic])
            while not self._is_leaving.is_set():
                self._read(consumer)
        finally:
            consumer.close()

    def _read(self, consumer: Consumer) -> None:
        messages = [message for message in consumer.consume(100, timeout=_POLL_S) if message.error() is None]
        for message in messages:
            self.read[message.partition() or 0].append(message.value() or b"")
        self._note(frozenset(place.partition for place in consumer.assignment()))
        if messages:
            try:
                consumer.commit(asynchronous=False)
            except KafkaException:
                return  # The group settles anew, or has another coordinator: whoever owns it next reads it again.


class CooperativeConfluentMember(ConfluentMember):
    """confluent-kafka that gives up only what others are given."""

    settings: ClassVar[Mapping[str, Any]] = {
        **ConfluentMember.settings,
        "partition.assignment.strategy": "cooperative-sticky",
    }


class ConsumerProtocolMember(ConfluentMember):
    """confluent-kafka with the consumer protocol (KIP-848)."""

    settings: ClassVar[Mapping[str, Any]] = {"group.protocol": "consumer"}


class KafkaPythonMember(GroupMember):
    """kafka-python. When a poll ends between a JoinGroup and its SyncGroup, it forgets what it was given (3.0.12); then we start anew."""

    settings: ClassVar[Mapping[str, Any]] = {}

    def _serve(self) -> None:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=self.bootstrap.split(","),
            group_id=self.group_id,
            group_instance_id=self.instance_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=_SESSION_MS,
            heartbeat_interval_ms=_HEARTBEAT_MS,
            **self.settings,
        )
        consumer.subscribe([self.topic])
        idle_polls = 0
        try:
            while not self._is_leaving.is_set():
                self._read(consumer)
                idle_polls = 0 if self.owned else idle_polls + 1
                if idle_polls == _IDLE_POLLS:
                    consumer.unsubscribe()
                    consumer.subscribe([self.topic])
        finally:
            consumer.close(autocommit=False)

    def _read(self, consumer: kafka.KafkaConsumer) -> None:
        found = consumer.poll(timeout_ms=_LONG_POLL_MS)
        for place, records in found.items():
            self.read[place.partition] += [record.value for record in records]
        self._note(frozenset(place.partition for place in consumer.assignment()))
        if found:
            try:
                consumer.commit()
            except kafka.errors.KafkaError:
                return  # As above.


class CooperativeKafkaPythonMember(KafkaPythonMember):
    """kafka-python that gives up only what others are given."""

    settings: ClassVar[Mapping[str, Any]] = {"partition_assignment_strategy": [CooperativeStickyAssignor]}


class AiokafkaMember(GroupMember):
    """aiokafka, on a loop of its own."""

    def _serve(self) -> None:
        asyncio.run(self._serve_on_loop())

    async def _serve_on_loop(self) -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.group_id,
            group_instance_id=self.instance_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=_SESSION_MS,
            heartbeat_interval_ms=_HEARTBEAT_MS,
        )
        await consumer.start()
        try:
            while not self._is_leaving.is_set():
                await self._read(consumer)
        finally:
            await consumer.stop()

    async def _read(self, consumer: aiokafka.AIOKafkaConsumer) -> None:
        found = await consumer.getmany(timeout_ms=int(1000 * _POLL_S))
        for place, records in found.items():
            self.read[place.partition] += [record.value for record in records]
        self._note(frozenset(place.partition for place in consumer.assignment()))
        if found:
            try:
                await consumer.commit()
            except aiokafka.errors.KafkaError:
                return  # As above.


MEMBERS: Final[Mapping[str, type[GroupMember]]] = {
    "confluent": ConfluentMember,
    "confluent-cooperative": CooperativeConfluentMember,
    "confluent-consumer-protocol": ConsumerProtocolMember,
    "kafka-python": KafkaPythonMember,
    "kafka-python-cooperative": CooperativeKafkaPythonMember,
    "aiokafka": AiokafkaMember,
}
