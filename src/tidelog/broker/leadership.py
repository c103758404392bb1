"""Whether this broker still leads what it believes to lead, as the registry has it.

A leader that was cut off or stood still may have been deposed without having heard of it. What it has is still true as far as it goes, so
it may be read; but that something does not exist, it cannot say: a consumer whose offset lies beyond the end of such a log would begin from
the start again. So before an answer like that the registry is asked. It is rare, and one read.

Nor can it commit anything: its followers have gone. A producer that only hears of a time-out tries again where it is, and some of them
(librdkafka) do not ask who leads until minutes later. So before an answer like that, too, the registry is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from tidelog.controller import MalformedNode, layout
from tidelog.model import BrokerId, TopicPartition
from tidelog.partition import Partition
from tidelog.registry import Node, Registry, RegistryError, RegistryUnavailable

_PATIENCE_S: Final = 2.0


class Leaderships:
    """Asks the registry."""

    def __init__(self, registry: Registry, broker_id: BrokerId) -> None:
        self._registry = registry
        self._broker_id = broker_id

    async def is_certain(self, partition: Partition) -> bool:
        """Whether nobody else leads the partition. Not certain either where the registry does not answer in time."""
        return not await self.doubted([partition], patience_s=_PATIENCE_S)

    async def doubted(self, partitions: Sequence[Partition], *, patience_s: float) -> set[TopicPartition]:
        """Those that somebody else may lead: the registry says so, or does not answer in time."""
        epochs = {partition.topic_partition: partition.leader_epoch for partition in partitions}
        paths = [layout.state_path(*key) for key in epochs]
        try:
            async with asyncio.timeout(patience_s):
                nodes = await self._registry.get_many(paths)
        except (TimeoutError, RegistryError, RegistryUnavailable):
            return set(epochs)
        found = zip(epochs.items(), paths, nodes, strict=True)
        return {key for (key, leader_epoch), path, node in found if not self._is_ours(path, node, leader_epoch)}

    def _is_ours(self, path: str, node: Node | None, leader_epoch: int) -> bool:
        if node is None:
            return False
        try:
            state = layout.decode_state(path, node)
        except MalformedNode:
            return False
        return (state.leader, state.leader_epoch) == (self._broker_id, leader_epoch)
