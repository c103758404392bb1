"""The auditor: reads what is committed of the ledger and of its copies, for ever; what it is given is judged by the checkers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tidelog.client import Consumer, ConsumerConfig, CorruptRecords, LogTruncated, OffsetOutOfRange
from tidelog.model import Offset, TopicPartition
from tidelog.runtime import Runtime
from tidelog.simulation.observer import Snapshot
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.workloads.history import History
from tidelog.simulation.workloads.workload import PATIENCE, Repeating

_POLL_MS: Final = 1_200
_SESSION_POLLS_MAX: Final = 12


class Auditor(Repeating):
    """Is replaced by a new process now and then, which goes on where it was."""

    is_reading = True

    def __init__(
        self,
        name: str,
        bootstrap: str,
        history: History,
        randomness: SimulatedRandomness,
        partitions: Sequence[TopicPartition],
    ) -> None:
        super().__init__(name, randomness, pause_ms=(10, 50))
        self._history = history
        self._positions: dict[TopicPartition, Offset] = dict.fromkeys(partitions, 0)
        self._config = ConsumerConfig.from_properties(
            {
                **PATIENCE,
                "bootstrap.servers": bootstrap,
                "client.id": name,
                "isolation.level": "read_committed",
                "auto.offset.reset": "none",
                "fetch.min.bytes": "1500",
                "fetch.max.wait.ms": "1000",
                "metadata.max.age.ms": "20000",
            }
        )

    async def session(self, runtime: Runtime) -> None:
        """One consumer."""
        async with Consumer.connect(self._config, runtime) as consumer:
            consumer.assign(self._positions)
            for topic_partition, offset in self._positions.items():
                consumer.seek(topic_partition, offset)
            for _ in range(_SESSION_POLLS_MAX):
                if self.is_stopping:
                    return
                await self._poll(consumer)

    def lag(self, snapshot: Snapshot) -> Iterator[str]:
        """Partitions that it has not read to their end, though all transactions there are decided."""
        for leader in snapshot.leaders():
            offset = self._positions.get(leader.topic_partition)
            if offset is not None and offset < leader.last_stable_offset:
                yield f"{self.name} is at {offset} of {leader.topic_partition}, which is stable up to {leader.last_stable_offset}"

    async def _poll(self, consumer: Consumer) -> None:
        try:
            records = await consumer.poll(timeout_ms=_POLL_MS)
        except (OffsetOutOfRange, LogTruncated) as error:
            self._history.protest(self.name, str(error))
            await self.pause()
            return
        except CorruptRecords as error:  # A flipped bit. Another replica has the records as they were.
            consumer.seek(error.topic_partition, self._positions[error.topic_partition])
            self.failures += 1
            await self.pause()
            return
        for record in records:
            self.steps += 1
            self._history.transactions.read(self.name, record.topic_partition, record.offset, record.value or b"")
        for topic_partition in self._positions:
            self._positions[topic_partition] = await consumer.position(topic_partition)
