"""Who waits for what to happen to a replica."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.waiters import Waiters
from tidelog.model import TopicPartition


class ReplicaWaiters:
    """Everybody who waits on the replicas of a broker, by what wakes them."""

    def __init__(self) -> None:
        self.produce_waiters: Waiters[TopicPartition] = Waiters()
        """Woken by flushes and the high watermark: producers."""
        self.fetch_waiters: Waiters[TopicPartition] = Waiters()
        """Woken by the high watermark: consumers."""
        self.follower_waiters: Waiters[TopicPartition] = Waiters()
        """Woken by the log end: the fetches of followers."""
        self.deletion_waiters: Waiters[TopicPartition] = Waiters()
        """Woken by the low watermark: those who delete records."""
        self.flushes: Waiters[TopicPartition] = Waiters()
        """Woken by flushes: our own fetchers, which fetch on from what is settled."""
        self._coordinators: dict[str, Callable[[TopicPartition], None]] = {}

    def tell_changes(self, topic: str, tell: Callable[[TopicPartition], None]) -> None:
        """Call `tell` whenever a replica of the topic got another role, failed or went, after it did. One per topic."""
        self._coordinators[topic] = tell

    def wake_all(self, topic_partition: TopicPartition) -> None:
        """The replica is not what it was: whoever waits on it looks again."""
        for waiters in (
            self.produce_waiters,
            self.fetch_waiters,
            self.follower_waiters,
            self.deletion_waiters,
            self.flushes,
        ):
            waiters.wake(topic_partition)
        tell = self._coordinators.get(topic_partition.topic)
        if tell is not None:
            tell(topic_partition)

    def dismiss(self) -> None:
        """The broker is leaving: nobody is to wait for news any longer."""
        self.fetch_waiters.dismiss()
        self.follower_waiters.dismiss()
