"""Deletion of records: now and then the beginning of a partition of `safe` is given up. Nothing above it may go with it."""

from __future__ import annotations

from typing import Final

from tidelog.client import Admin, Consumer, ConsumerConfig
from tidelog.model import ErrorCode
from tidelog.runtime import Runtime
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.workloads.administering import Administering
from tidelog.simulation.workloads.history import History
from tidelog.simulation.workloads.topics import SAFE_PARTITIONS
from tidelog.simulation.workloads.workload import PATIENCE

_SHARE: Final = 0.25  # of a log goes at once, at most: what is deleted can no longer be checked


class RecordDeletions(Administering):
    """What was asked for is noted before it is asked for: an answer that is lost has still been obeyed."""

    def __init__(self, name: str, bootstrap: str, history: History, randomness: SimulatedRandomness) -> None:
        super().__init__(name, bootstrap, randomness, pause_ms=(3000, 6000))
        self._history = history
        self._consumer_config = ConsumerConfig.from_properties({"bootstrap.servers": bootstrap, **PATIENCE})

    async def step(self, admin: Admin, runtime: Runtime) -> bool:
        """Delete the first records of one partition."""
        topic_partition = SAFE_PARTITIONS[self.randomness.below(len(SAFE_PARTITIONS))]
        async with Consumer.connect(self._consumer_config, runtime) as consumer:
            start = (await consumer.beginning_offsets([topic_partition]))[topic_partition]
            end = (await consumer.end_offsets([topic_partition]))[topic_partition]
        before = start + int((end - start) * _SHARE * self.randomness.fraction())
        self._history.ask_deletion(topic_partition, before)
        result = (await admin.delete_records({topic_partition: before}))[topic_partition]
        return not isinstance(result, ErrorCode)
