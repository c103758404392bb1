"""Incremental fetch sessions (KIP-227), without IO: what a client asked for last time, and what it was last told.

A session lets a client that follows a thousand partitions send only what changed and receive only what moved. The pair (id, epoch) names
the next request of a session; any other epoch means an answer was lost, and the client starts over with a full fetch. Every answer is
legal without a session (id 0), so a full cache costs bytes, never correctness.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidelog.broker.follower_sessions import FollowerSessions
from tidelog.broker.session_terms import PartitionKey, next_epoch
from tidelog.model import NO_OFFSET, ApiError, ErrorCode, LeaderEpoch, Offset

_EVICTION_MS: Final = 120_000
PARTITIONS_MAX: Final = 200_000
"""Most partitions that all sessions of a broker remember together, some 80 MB of them; small sessions always fit."""
_SMALL_SESSION: Final = 100


@dataclass(slots=True, kw_only=True)
class FetchPartition:
    """One partition a client wants, and what its session last told it."""

    key: PartitionKey
    fetch_offset: Offset
    max_bytes: int
    current_leader_epoch: LeaderEpoch
    last_fetched_epoch: LeaderEpoch
    log_start_offset: Offset
    told_high_watermark: Offset = NO_OFFSET
    told_log_start_offset: Offset = NO_OFFSET
    # A partition answered with an error is answered again next time, whatever moved: the client must not miss that it healed.
    must_tell: bool = True


class PartitionNews(NamedTuple):
    """What an answer would say about a partition, as far as sessions care."""

    partition: FetchPartition
    has_records: bool
    has_error: bool
    high_watermark: Offset
    log_start_offset: Offset


@dataclass(slots=True, kw_only=True)
class FetchSession:
    """One client's subscription at one broker."""

    session_id: int
    uses_topic_ids: bool
    created_ms: float
    used_ms: float
    epoch: int = 1  # What the next request must carry.
    partitions: dict[PartitionKey, FetchPartition] = field(default_factory=dict)

    def merge(self, changed: Iterable[FetchPartition], forgotten: Iterable[PartitionKey]) -> None:
        """Apply what an incremental request adds, changes and drops."""
        for partition in changed:
            known = self.partitions.get(partition.key)
            if known is None:
                self.partitions[partition.key] = partition
            else:
                known.fetch_offset = partition.fetch_offset
                known.max_bytes = partition.max_bytes
                known.current_leader_epoch = partition.current_leader_epoch
                known.last_fetched_epoch = partition.last_fetched_epoch
                known.log_start_offset = partition.log_start_offset
        for key in forgotten:
            self.partitions.pop(key, None)

    def select(self, news: Iterable[PartitionNews]) -> list[bool]:
        """Which of the news an incremental answer carries; they count as told.

        A partition that had records moves to the end, so that one busy partition cannot starve those behind it of the response's bytes.
        """
        return [self._tell(item) for item in news]

    def _tell(self, news: PartitionNews) -> bool:
        partition = news.partition
        is_news = (
            partition.must_tell
            or news.has_records
            or news.has_error
            or partition.told_high_watermark != news.high_watermark
            or partition.told_log_start_offset != news.log_start_offset
        )
        partition.told_high_watermark = news.high_watermark
        partition.told_log_start_offset = news.log_start_offset
        partition.must_tell = news.has_error
        if news.has_records and partition.key in self.partitions:
            self.partitions[partition.key] = self.partitions.pop(partition.key)
        return is_news


class FetchSessionCache:
    """A bounded number of sessions. When full, a newcomer takes the place of an idle session, or of a smaller one that had its time."""

    def __init__(self, *, slots_max: int) -> None:
        self.followers = FollowerSessions()
        """Those of followers, which no crowd of consumers can push out."""
        self._slots_max = slots_max
        self._sessions: dict[int, FetchSession] = {}  # Least recently used first.

    def __len__(self) -> int:
        return len(self._sessions)

    def resume(self, session_id: int, epoch: int, *, uses_topic_ids: bool, now_ms: float) -> FetchSession:
        """The session an incremental request continues. Raises ApiError; the client then starts over."""
        session = self._sessions.get(session_id)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = next_epoch(epoch)
        session.used_ms = now_ms
        self._sessions[session_id] = self._sessions.pop(session_id)
        return session

    def create(
        self, session_id: int, partitions: Iterable[FetchPartition], *, uses_topic_ids: bool, now_ms: float
    ) -> FetchSession | None:
        """Remember a full fetch under a fresh random id; None where the cache has no place for it."""
        wanted = {partition.key: partition for partition in partitions}
        if not wanted or session_id in self._sessions or not self._make_room(len(wanted), now_ms):
            return None
        if len(wanted) > _SMALL_SESSION and self._partition_count() + len(wanted) > PARTITIONS_MAX:
            return None
        session = FetchSession(
            session_id=session_id,
            uses_topic_ids=uses_topic_ids,
            created_ms=now_ms,
            used_ms=now_ms,
            partitions=wanted,
        )
        self._sessions[session_id] = session
        return session

    def check_room(self, session: FetchSession) -> None:
        """Forget a session that has grown until all together are too large. Raises ApiError; the client then starts over."""
        if len(session.partitions) > _SMALL_SESSION and self._partition_count() > PARTITIONS_MAX:
            self.close(session.session_id)
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def close(self, session_id: int) -> None:
        """Forget a session; one that is gone already is fine."""
        self._sessions.pop(session_id, None)

    def _partition_count(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def _make_room(self, partition_count: int, now_ms: float) -> bool:
        if len(self._sessions) < self._slots_max:
            return True
        if self._slots_max == 0:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.used_ms > _EVICTION_MS:
            self.close(oldest.session_id)
            return True
        smallest = min(self._sessions.values(), key=lambda session: len(session.partitions))
        if len(smallest.partitions) < partition_count and now_ms - smallest.created_ms > _EVICTION_MS:
            self.close(smallest.session_id)
            return True
        return False
