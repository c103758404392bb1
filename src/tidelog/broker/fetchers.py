"""Who keeps followed replicas going: one fetcher per leader, for all the partitions it leads.

The protocols are what the replica manager asks for, and what fetchers ask of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from tidelog.broker.replica_fetcher import FetcherSurroundings, ReplicaFetcher
from tidelog.model import BrokerId, TopicPartition
from tidelog.partition import IsrProposal, Partition


class Fetchers(Protocol):
    """Copies the logs of leaders into the replicas that follow them."""

    def follow(self, partition: Partition, leader_id: BrokerId) -> None:
        """Fetch from this leader from now on, under the epoch the partition was told; whatever was known of another leader is forgotten.

        Called again for every new epoch, also with the same leader: a partition that had failed starts anew.
        """
        ...

    def unfollow(self, topic_partition: TopicPartition) -> None:
        """Fetch no more for it; an answer that is still under way is not used. Fine where nobody was followed."""
        ...


class IsrChanges(Protocol):
    """Carries a leader's wishes about the ISR to the controller."""

    def propose(self, partition: Partition, proposal: IsrProposal) -> None:
        """Have the controller decide; the partition hears the verdict."""
        ...


class ReplicaFetchers:
    """The fetchers of one broker. A fetcher, once made, stays: with nothing to fetch it hangs up and costs nothing."""

    def __init__(self, surroundings: FetcherSurroundings) -> None:
        self._surroundings = surroundings
        self._fetchers: dict[BrokerId, ReplicaFetcher] = {}
        self._leaders: dict[TopicPartition, BrokerId] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._running: list[asyncio.Task[None]] = []

    def follow(self, partition: Partition, leader_id: BrokerId) -> None:
        """Fetch from this leader from now on."""
        topic_partition = partition.topic_partition
        if self._leaders.get(topic_partition, leader_id) != leader_id:
            self.unfollow(topic_partition)
        self._leaders[topic_partition] = leader_id
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None:
            fetcher = self._fetchers[leader_id] = ReplicaFetcher(leader_id, self._surroundings)
            self._start(fetcher)
        fetcher.follow(partition)

    def unfollow(self, topic_partition: TopicPartition) -> None:
        """Fetch no more for it."""
        leader_id = self._leaders.pop(topic_partition, None)
        if leader_id is not None:
            self._fetchers[leader_id].unfollow(topic_partition)

    @property
    def failed(self) -> Sequence[TopicPartition]:
        """Partitions that wait for a new word of the controller."""
        return [key for fetcher in self._fetchers.values() for key in fetcher.failed]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Fetch until the block is left."""
        async with asyncio.TaskGroup() as self._tasks:
            for fetcher in self._fetchers.values():
                self._start(fetcher)
            try:
                yield
            finally:
                self._tasks = None
                for task in self._running:
                    task.cancel()

    def _start(self, fetcher: ReplicaFetcher) -> None:
        if self._tasks is not None:
            self._running.append(self._tasks.create_task(fetcher.run()))
