"""How fast replicas that are behind may catch up (KIP-73), so that moving partitions leaves room for everybody else. Told the time.

A topic names its throttled replicas, one list for the leaders' side and one for the followers'; a broker gives each side a rate. Only
replicas out of sync are held back: an in-sync replica is what acks=all waits for, and is never throttled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from tidelog.config import BrokerConfig, LogConfig
from tidelog.model import BrokerId

_WINDOW_MS: Final = 1_000
_WINDOWS: Final = 10
_EVERYBODY: Final = ("*",)


class RateQuota:
    """Bytes per second, averaged over the last ten seconds; a burst after silence may use up one second at once."""

    def __init__(self, rate: Callable[[], int]) -> None:
        self._rate = rate
        self._windows: deque[tuple[int, int]] = deque(maxlen=_WINDOWS)  # Number of the second, bytes in it.
        self._since_ms = 0.0

    def record(self, byte_count: int, monotonic_ms: float) -> None:
        """So much went through."""
        self._forget(monotonic_ms)
        number = int(monotonic_ms // _WINDOW_MS)
        if not self._windows:
            self._since_ms = monotonic_ms
        if self._windows and self._windows[-1][0] == number:
            self._windows[-1] = (number, self._windows[-1][1] + byte_count)
        else:
            self._windows.append((number, byte_count))

    def is_exceeded(self, monotonic_ms: float) -> bool:
        """Whether whoever is throttled has to pause."""
        self._forget(monotonic_ms)
        if not self._windows:
            return False
        start_ms = max(self._since_ms, (monotonic_ms // _WINDOW_MS - _WINDOWS + 1) * _WINDOW_MS)
        elapsed_s = max(monotonic_ms - start_ms, _WINDOW_MS) / 1000
        return sum(byte_count for _, byte_count in self._windows) > self._rate() * elapsed_s

    def _forget(self, monotonic_ms: float) -> None:
        oldest = int(monotonic_ms // _WINDOW_MS) - _WINDOWS + 1
        while self._windows and self._windows[0][0] < oldest:
            self._windows.popleft()


class ReplicationQuotas:
    """Both sides of one broker: what it gives as a leader, what it takes as a follower."""

    def __init__(self, broker_id: BrokerId, config: Callable[[], BrokerConfig]) -> None:
        self._broker_id = broker_id
        self.given = RateQuota(lambda: config().leader_throttled_rate)
        self.taken = RateQuota(lambda: config().follower_throttled_rate)

    def is_giving_throttled(self, topic: LogConfig, index: int) -> bool:
        """Whether the followers of a partition we lead are on the list of its topic."""
        return bool(topic.leader_throttled_replicas) and self._is_listed(topic.leader_throttled_replicas, index)

    def is_taking_throttled(self, topic: LogConfig, index: int) -> bool:
        """Whether our replica of a partition we follow is on the list of its topic."""
        return bool(topic.follower_throttled_replicas) and self._is_listed(topic.follower_throttled_replicas, index)

    def _is_listed(self, replicas: tuple[str, ...], index: int) -> bool:
        return replicas == _EVERYBODY or f"{index}:{self._broker_id}" in replicas
