"""Who waits for what to happen to a replica."""

from __future__ import annotations

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

    def dismiss(self) -> None:
        """The broker is leaving: nobody is to wait for news any longer."""
        self.fetch_waiters.dismiss()
        self.follower_waiters.dismiss()
