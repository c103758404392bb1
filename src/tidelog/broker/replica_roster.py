"""The partitions that follow one leader, without IO: which are fetched, from where, and which rest or have failed.

Only those that may have moved are looked at before a request, so that thousands of idle partitions cost nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from tidelog.broker.replica_fetch_session import FetchLimits, FollowedKey, ReplicaFetchSession
from tidelog.broker.replication_quota import ReplicationQuotas
from tidelog.client.backoff import Backoff
from tidelog.config import BrokerConfig
from tidelog.model import LeaderEpoch, TopicId, TopicPartition
from tidelog.partition import FetchPosition, Partition
from tidelog.runtime import Randomness

FIRST_PAUSE_MS: Final = 50.0


def replica_backoff(config: BrokerConfig) -> Backoff:
    """How long to leave alone what failed: briefly at first, since a leader often just has not heard yet that it leads."""
    return Backoff(initial_ms=FIRST_PAUSE_MS, max_ms=max(config.replica_fetch_backoff_ms, FIRST_PAUSE_MS))


@dataclass(slots=True, eq=False)
class Followed:
    """One replica that follows the leader. Hashed by identity, which is free."""

    partition: Partition
    key: FollowedKey
    leader_epoch: LeaderEpoch
    is_failed: bool = False
    failures: int = 0
    rests_until_ms: float = 0.0
    leader_high_watermark: int = 0

    def is_at(self, asked: FetchPosition) -> bool:
        """Whether an answer to what was asked still has a meaning."""
        partition = self.partition
        return (
            partition.log.log_end_offset == asked.fetch_offset
            and partition.leader_epoch == asked.leader_epoch
            and partition.is_follower
        )


class Roster:
    """Who follows one leader, and the session that says so."""

    def __init__(self, config: BrokerConfig, quotas: ReplicationQuotas, randomness: Randomness) -> None:
        self._quotas = quotas
        self._randomness = randomness
        self._backoff = replica_backoff(config)
        self.session = ReplicaFetchSession(
            FetchLimits(
                min_bytes=config.replica_fetch_min_bytes,
                response_bytes_max=config.replica_fetch_response_max_bytes,
                partition_bytes_max=config.replica_fetch_max_bytes,
            )
        )
        self._followed: dict[TopicPartition, Followed] = {}
        self._by_key: dict[FollowedKey, Followed] = {}
        self._left: dict[FollowedKey, Followed] = {}  # Followed no more since the last request.
        self._due: dict[Followed, None] = {}  # May have moved since the last request.
        self._resting: dict[Followed, None] = {}
        self.rest_end_ms = math.inf
        """The earliest end of a rest, or before that."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is fetched, and nothing will be by itself."""
        return not self._due and not self._resting and self.session.is_empty

    @property
    def has_resting(self) -> bool:
        """Whether something will be fetched later."""
        return bool(self._resting)

    @property
    def failed(self) -> list[TopicPartition]:
        """Those that are not fetched until the controller speaks."""
        return [key for key, followed in self._followed.items() if followed.is_failed]

    def get(self, key: FollowedKey) -> Followed | None:
        """The replica of this name, if it still follows."""
        return self._by_key.get(key)

    def due(self) -> list[Followed]:
        """Those that may have moved."""
        return list(self._due)

    # Coming and going.

    def add(self, partition: Partition, topic_id: TopicId) -> bool:
        """Fetch for it from now on; whether the leader has to hear of that.

        It has not where only the ISR has changed since it was followed the last time: then a request under way is still right.
        """
        self.remove(partition.topic_partition)
        key = FollowedKey(topic_id.int, partition.topic_partition.index)
        followed = Followed(partition, key, partition.leader_epoch)
        self._followed[partition.topic_partition] = self._by_key[key] = followed
        self._due[followed] = None
        left = self._left.pop(key, None)
        if left is None or left.partition is not partition or left.leader_epoch != followed.leader_epoch:
            return True
        followed.leader_high_watermark = left.leader_high_watermark
        position = partition.fetch_position()
        return position is None or not self.session.recall(key, position)

    def remove(self, topic_partition: TopicPartition) -> None:
        """Fetch no more for it."""
        followed = self._followed.pop(topic_partition, None)
        if followed is not None:
            self._left[followed.key] = followed
            del self._by_key[followed.key]
            self._due.pop(followed, None)
            self._resting.pop(followed, None)
            self.session.forget(followed.key)

    # Moving, resting, failing.

    def moved(self, followed: Followed) -> None:
        """Look at it before the next request."""
        self._due[followed] = None

    def rest_after_failure(self, followed: Followed, now_ms: float) -> None:
        """Leave it alone for a while, longer each time."""
        followed.failures += 1
        self._rest(followed, now_ms + self._backoff.delay_ms(followed.failures, self._randomness))

    def fail(self, followed: Followed) -> None:
        """Fetch no more for it until the controller speaks."""
        followed.is_failed = True
        self._due.pop(followed, None)
        self.session.forget(followed.key)

    def settle(self, now_ms: float) -> None:
        """Say where we are in every partition that may have moved; leave out those that cannot be fetched now."""
        if self._resting and self.rest_end_ms <= now_ms:
            self._end_rests(now_ms)
        self._left.clear()
        due, self._due = self._due, {}
        for followed in due:
            if followed in self._resting or followed.is_failed:
                continue
            position = followed.partition.fetch_position()
            if position is None or self._is_throttled(followed, now_ms):
                self._rest(followed, now_ms + FIRST_PAUSE_MS)
            else:
                self.session.say(followed.key, position)

    def _rest(self, followed: Followed, until_ms: float) -> None:
        followed.rests_until_ms = until_ms
        self.rest_end_ms = min(self.rest_end_ms, until_ms)
        self._resting[followed] = None
        self._due.pop(followed, None)
        self.session.forget(followed.key)

    def _end_rests(self, now_ms: float) -> None:
        self.rest_end_ms = math.inf
        for followed in list(self._resting):
            if followed.rests_until_ms <= now_ms:
                del self._resting[followed]
                self._due[followed] = None
            else:
                self.rest_end_ms = min(self.rest_end_ms, followed.rests_until_ms)

    def _is_throttled(self, followed: Followed, now_ms: float) -> bool:
        """Whether it must wait for the quota: only if it is on the list, and behind."""
        log = followed.partition.log
        return (
            self._quotas.is_taking_throttled(log.config, followed.key.index)
            and log.log_end_offset < followed.leader_high_watermark
            and self._quotas.taken.is_exceeded(now_ms)
        )
