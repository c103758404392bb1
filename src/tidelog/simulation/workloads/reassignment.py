"""Reassignment: partitions of `safe` and of the ledger, and coordinators, move about under load; now and then a move is called off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelog.client import Admin
from tidelog.model import BrokerId, TopicPartition
from tidelog.runtime import Runtime
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.workloads.administering import Administering
from tidelog.simulation.workloads.topics import (
    LEDGER_PARTITIONS,
    OFFSETS_PARTITION,
    REPLICAS,
    SAFE_PARTITIONS,
    TRANSACTIONS_PARTITION,
)

_MOVED: Final = (*SAFE_PARTITIONS, *LEDGER_PARTITIONS, OFFSETS_PARTITION, TRANSACTIONS_PARTITION)
_LOOKS_MAX: Final = 10
_BETWEEN_LOOKS_MS: Final = 400
_CANCELS_ONE_IN: Final = 4


class Reassignments(Administering):
    """Where there are only as many brokers as replicas, their order changes, and with it the preferred leader."""

    def __init__(
        self, name: str, bootstrap: str, randomness: SimulatedRandomness, *, broker_ids: Sequence[BrokerId]
    ) -> None:
        super().__init__(name, bootstrap, randomness, pause_ms=(1500, 4000))
        self._broker_ids = tuple(broker_ids)

    async def step(self, admin: Admin, runtime: Runtime) -> bool:
        """Move a partition somewhere else, and wait a while until it is there."""
        del runtime
        topic_partition = _MOVED[self.randomness.below(len(_MOVED))]
        results = await admin.alter_reassignments({topic_partition: self._draw()})
        if not results[topic_partition].is_ok:
            return False
        if self.randomness.below(_CANCELS_ONE_IN) == 0:
            await self.wait_ms(self.randomness.between(0, _BETWEEN_LOOKS_MS))
            await admin.alter_reassignments({topic_partition: None})
        return await self._has_arrived(admin, topic_partition)

    def _draw(self) -> list[BrokerId]:
        left = list(self._broker_ids)
        return [left.pop(self.randomness.below(len(left))) for _ in range(min(REPLICAS, len(left)))]

    async def _has_arrived(self, admin: Admin, topic_partition: TopicPartition) -> bool:
        for _ in range(_LOOKS_MAX):
            if not await admin.list_reassignments([topic_partition]):
                return True
            await self.wait_ms(_BETWEEN_LOOKS_MS)
            if self.is_stopping:
                break
        return False
