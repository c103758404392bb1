"""What a leader remembers of one follower. It learns all of it from that follower's fetches, and nothing from anywhere else."""

from __future__ import annotations

from typing import Final

from tidelog.model import NO_BROKER_EPOCH, NO_OFFSET, ApiError, BrokerEpoch, BrokerId, ErrorCode, Offset

NEVER: Final = float("-inf")


class RemoteReplica:
    """One follower. Times are monotonic; a log end offset of -1 is unknown, and holds the high watermark where it is."""

    __slots__ = (
        "_last_fetch_leader_end",
        "_last_fetch_ms",
        "broker_epoch",
        "broker_id",
        "last_caught_up_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: BrokerId) -> None:
        self.broker_id: Final = broker_id
        self.log_end_offset: Offset = NO_OFFSET
        self.log_start_offset: Offset = NO_OFFSET
        self.broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
        """The incarnation that fetched last."""
        self.last_caught_up_ms: float = NEVER
        """When it last held all that the leader held."""
        self._last_fetch_ms: float = NEVER
        self._last_fetch_leader_end: Offset = NO_OFFSET

    def restart(self, *, is_in_sync: bool, epoch_start_offset: Offset, is_still_led: bool, monotonic_ms: float) -> None:
        """A leader epoch begins. What is known of the follower survives only if the same leader goes on without a gap.

        Members of the ISR get their time anew; the others must earn it, so that they do not hold the high watermark back.
        """
        if is_still_led:
            self._last_fetch_leader_end = epoch_start_offset
        else:
            self.log_end_offset = self.log_start_offset = self._last_fetch_leader_end = NO_OFFSET
            self.broker_epoch = NO_BROKER_EPOCH
            self._last_fetch_ms = NEVER
        self.last_caught_up_ms = monotonic_ms if is_in_sync else NEVER

    def check_incarnation(self, broker_epoch: BrokerEpoch) -> None:
        """Refuse the late fetch of an earlier life of that broker. Raises ApiError."""
        if broker_epoch < self.broker_epoch and broker_epoch != NO_BROKER_EPOCH:
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker epoch {broker_epoch} of broker {self.broker_id} is older than {self.broker_epoch}",
            )

    def on_fetch(
        self,
        *,
        fetch_offset: Offset,
        log_start_offset: Offset,
        broker_epoch: BrokerEpoch,
        leader_end_offset: Offset,
        monotonic_ms: float,
    ) -> None:
        """It holds everything below `fetch_offset`.

        It was caught up now if that is all, or when it last fetched if it now holds all that there was then.
        """
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = max(self.broker_epoch, broker_epoch)
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, monotonic_ms)
        elif fetch_offset >= self._last_fetch_leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self._last_fetch_ms)
        self._last_fetch_leader_end = leader_end_offset
        self._last_fetch_ms = monotonic_ms

    def is_caught_up(self, leader_end_offset: Offset, monotonic_ms: float, lag_time_max_ms: int) -> bool:
        """Whether it holds all there is, or did so recently: silence alone does not make a follower late."""
        return self.log_end_offset == leader_end_offset or monotonic_ms - self.last_caught_up_ms <= lag_time_max_ms
