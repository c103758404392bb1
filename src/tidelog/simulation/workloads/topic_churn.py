"""Topic churn: a topic is made, written, read back and deleted, and sometimes made again under the same name.

What was acknowledged must be read back; and a new topic holds nothing of an older one of its name (KIP-516).
"""

from __future__ import annotations

import asyncio
from typing import Final

from tidelog.client import Admin, ClientError, Consumer, ConsumerConfig, NewTopic, Producer, ProducerConfig
from tidelog.model import ErrorCode, Offset, TopicPartition
from tidelog.runtime import Runtime
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.workloads.administering import Administering
from tidelog.simulation.workloads.history import CHURNED, History
from tidelog.simulation.workloads.topics import REPLICAS, SAFE_CONFIGS
from tidelog.simulation.workloads.workload import PATIENCE

_RECORDS: Final = 5
_READ_WITHIN_S: Final = 6
_DELETIONS_MAX: Final = 4
_SAME_NAME_ONE_IN: Final = 2
_GONE: Final = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class TopicChurn(Administering):
    """One topic at a time. A topic whose deletion nobody confirmed is left alone: its name is never used again."""

    def __init__(self, name: str, bootstrap: str, history: History, randomness: SimulatedRandomness) -> None:
        super().__init__(name, bootstrap, randomness, pause_ms=(300, 1200))
        self._history = history
        servers = {"bootstrap.servers": bootstrap, **PATIENCE}
        # No retries: an acknowledged value was sent once, so that no late copy of it can reach a later topic of the same name.
        sending = {"enable.idempotence": "false", "retries": "0", "delivery.timeout.ms": "4000", "max.block.ms": "3000"}
        self._producer_config = ProducerConfig.from_properties({**servers, **sending})
        self._consumer_config = ConsumerConfig.from_properties(
            {**servers, "auto.offset.reset": "earliest", "allow.auto.create.topics": "false"}
        )
        self._number = 0
        self._cycle = 0
        self._former: dict[bytes, int] = {}  # acknowledged values, and in which cycle

    async def step(self, admin: Admin, runtime: Runtime) -> bool:
        """One topic's life."""
        self._cycle += 1
        topic_partition = TopicPartition(f"{CHURNED}{self._number}", 0)
        try:
            is_done = await self._live(admin, topic_partition, runtime)
            is_gone = await self._delete(admin, topic_partition.topic)
        except ClientError:
            self._history.forget(topic_partition.topic)
            self._number += 1
            raise
        if not is_gone or self.randomness.below(_SAME_NAME_ONE_IN):
            self._number += 1
        return is_done and is_gone

    async def _live(self, admin: Admin, topic_partition: TopicPartition, runtime: Runtime) -> bool:
        replicas = REPLICAS - self.randomness.below(2)
        topic = NewTopic(
            name=topic_partition.topic, partition_count=1, replication_factor=replicas, configs=SAFE_CONFIGS
        )
        (created,) = await admin.create_topics([topic])
        if not created.is_ok:
            return False
        acknowledged = await self._write(topic_partition, runtime)
        await self.pause()
        return bool(acknowledged) and await self._read_back(topic_partition, acknowledged, runtime)

    async def _write(self, topic_partition: TopicPartition, runtime: Runtime) -> dict[Offset, bytes]:
        acknowledged: dict[Offset, bytes] = {}
        writer = f"churn.{self._cycle}"
        async with Producer.connect(self._producer_config, runtime) as producer:
            for number in range(_RECORDS):
                value = b"%s/%d" % (writer.encode(), number)
                try:
                    sent = await producer.send_and_wait(topic_partition.topic, value, partition=topic_partition.index)
                except ClientError:
                    self.failures += 1
                    continue
                acknowledged[sent.offset] = value
                self._former[value] = self._cycle
                self._history.acknowledge(topic_partition, sent.offset, value, producer=writer, is_promised=True)
        return acknowledged

    async def _read_back(
        self, topic_partition: TopicPartition, acknowledged: dict[Offset, bytes], runtime: Runtime
    ) -> bool:
        """Whether all was read in time; what was read must be what was acknowledged."""
        end = max(acknowledged) + 1
        try:
            async with Consumer.connect(self._consumer_config, runtime) as consumer, asyncio.timeout(_READ_WITHIN_S):
                consumer.assign([topic_partition])
                while await consumer.position(topic_partition) < end:
                    for record in await consumer.poll(timeout_ms=1000):
                        self._compare(topic_partition, record.offset, record.value or b"", acknowledged)
        except TimeoutError:
            return False
        return True

    def _compare(
        self, topic_partition: TopicPartition, offset: Offset, value: bytes, acknowledged: dict[Offset, bytes]
    ) -> None:
        reader = f"churn reader {self._cycle}"
        self._history.read(reader, topic_partition, offset, value)
        if offset in acknowledged and acknowledged[offset] != value:
            self._history.protest(
                reader,
                f"{acknowledged[offset]!r} was acknowledged at offset {offset} of {topic_partition}, {value!r} is there",
            )
        if self._former.get(value, self._cycle) != self._cycle:
            self._history.protest(reader, f"{value!r} in {topic_partition} is of an older topic of that name")

    async def _delete(self, admin: Admin, topic: str) -> bool:
        self._history.forget(topic)
        for _ in range(_DELETIONS_MAX):
            (result,) = await admin.delete_topics([topic])
            if result.code in _GONE:
                return True
            await self.pause()
        return False
