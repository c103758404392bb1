"""The fetch sessions of followers at their leader: what each fetches, and what stirred since it was last told.

A follower has one session for all partitions it follows here, of which few move at a time. So the session watches its partitions: an append
or a new high watermark marks the one it happened to, and a fetch looks at the marked ones and at those it names itself. All of them are
looked at now and then, because a fetch also says that the follower is alive and still where it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tidelog.broker.session_terms import FINAL_EPOCH, NO_SESSION, PartitionKey, next_epoch
from tidelog.broker.waiters import Waiter, Waiters
from tidelog.model import NO_OFFSET, ApiError, BrokerId, ErrorCode, Offset, TopicPartition
from tidelog.partition import FollowerFetch

_SESSIONS_MAX: Final = 1_000


@dataclass(slots=True, kw_only=True, eq=False)
class FollowedPartition:
    """One partition a follower fetches, and what it was last told of it. Hashed by identity, which is free."""

    key: PartitionKey
    fetch: FollowerFetch
    max_bytes: int
    topic_partition: TopicPartition | None = None  # None until we know the topic.
    told_high_watermark: Offset = NO_OFFSET
    told_log_start_offset: Offset = NO_OFFSET
    must_tell: bool = True  # Whatever moved: after an error, that it healed.

    def is_news(self, high_watermark: Offset, log_start_offset: Offset) -> bool:
        """Whether the follower does not know these."""
        return (
            self.must_tell
            or self.told_high_watermark != high_watermark
            or self.told_log_start_offset != log_start_offset
        )


class FollowerSession:
    """What one follower fetches. `close` it, or its watches stay."""

    def __init__(
        self,
        session_id: int,
        replica_id: BrokerId,
        ends: Waiters[TopicPartition],
        watermarks: Waiters[TopicPartition],
    ) -> None:
        self.session_id = session_id
        self.replica_id = replica_id
        self.epoch = 1  # What the next request must carry.
        self.partitions: dict[PartitionKey, FollowedPartition] = {}
        self.stirred: dict[FollowedPartition, None] = {}
        """Those that may have something to tell; the first in here has waited longest."""
        self.waiter = Waiter()
        """Woken when there may be records or an error to tell; a high watermark alone waits for the next answer."""
        self.looked_ms = float("-inf")
        """When all partitions were last looked at."""
        self._ends = ends
        self._watermarks = watermarks
        self._watched: dict[TopicPartition, FollowedPartition] = {}

    def merge(self, changed: Iterable[FollowedPartition], forgotten: Iterable[PartitionKey]) -> None:
        """Apply what a request adds, changes and drops."""
        for partition in changed:
            known = self.partitions.setdefault(partition.key, partition)
            known.fetch, known.max_bytes = partition.fetch, partition.max_bytes
            self.stirred[known] = None
        for key in forgotten:
            gone = self.partitions.pop(key, None)
            if gone is not None:
                self.stirred.pop(gone, None)
                self._unwatch(gone)

    def watch(self, partition: FollowedPartition, topic_partition: TopicPartition) -> None:
        """From now on, know when something happens to it."""
        partition.topic_partition = topic_partition
        self._watched[topic_partition] = partition
        self._ends.watch(topic_partition, self._on_end)
        self._watermarks.watch(topic_partition, self._on_watermark)

    def close(self) -> None:
        """Know no more of anything; a fetch that is parked looks a last time."""
        for partition in list(self._watched.values()):
            self._unwatch(partition)
        self.waiter.wake()

    def _unwatch(self, partition: FollowedPartition) -> None:
        topic_partition = partition.topic_partition
        # Another topic of that name may be watched by now.
        if topic_partition is not None and self._watched.get(topic_partition) is partition:
            del self._watched[topic_partition]
            self._ends.unwatch(topic_partition, self._on_end)
            self._watermarks.unwatch(topic_partition, self._on_watermark)

    def _on_end(self, topic_partition: TopicPartition) -> None:
        self.stirred[self._watched[topic_partition]] = None
        self.waiter.wake()

    def _on_watermark(self, topic_partition: TopicPartition) -> None:
        self.stirred[self._watched[topic_partition]] = None


class FollowerSessions:
    """The sessions by follower, one each: a broker that fetches anew has forgotten the one it had."""

    def __init__(self) -> None:
        self._sessions: dict[BrokerId, FollowerSession] = {}  # Least recently begun first.

    def __len__(self) -> int:
        return len(self._sessions)

    def has(self, replica_id: BrokerId) -> bool:
        """Whether this follower has a session here."""
        return replica_id in self._sessions

    def resume(self, session_id: int, epoch: int, replica_id: BrokerId) -> FollowerSession:
        """The session that an incremental request continues. Raises ApiError; the follower then starts over."""
        session = self._sessions.get(replica_id)
        if session is None or session.session_id != session_id:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        session.epoch = next_epoch(epoch)
        return session

    def begin(self, session: FollowerSession, epoch: int) -> None:
        """Keep a session in place of the one its follower had; none for a follower that says it wants none."""
        self.end(session.replica_id)
        if epoch == FINAL_EPOCH:
            session.session_id = NO_SESSION
            return
        if len(self._sessions) >= _SESSIONS_MAX:
            self.end(next(iter(self._sessions)))
        self._sessions[session.replica_id] = session

    def end(self, replica_id: BrokerId) -> None:
        """Forget a follower's session; one that is gone already is fine."""
        session = self._sessions.pop(replica_id, None)
        if session is not None:
            session.close()
