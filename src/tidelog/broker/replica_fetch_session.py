"""A follower's end of its fetch session (KIP-227), without IO: what the leader was told, so that a request says only what changed.

A request or an answer that was lost leaves both ends with different ideas of the session. So after any loss the session is begun anew, and
the first request says everything (F01).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.broker.session_terms import next_epoch
from tidelog.model import ErrorCode
from tidelog.partition import FetchPosition
from tidelog.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)

VERSION: Final = 17
"""What brokers fetch with: topic ids, and the epoch of the follower's registration."""
_SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class FollowedKey(NamedTuple):
    """A partition as requests name it. The id as a number: hashing a UUID takes a call each time."""

    topic_number: int
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody calls on a key


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """What every request of a follower asks for."""

    min_bytes: int
    response_bytes_max: int
    partition_bytes_max: int


class ReplicaFetchSession:
    """One session at one leader. Say and forget as you like; `request` puts it on the wire."""

    def __init__(self, limits: FetchLimits) -> None:
        self._limits = limits
        self._session_id = 0
        self._epoch = 0
        self._told: dict[FollowedKey, FetchPosition] = {}
        self._changed: dict[FollowedKey, FetchPosition] = {}
        self._forgotten: dict[
            FollowedKey, FetchPosition | None
        ] = {}  # With what the leader still believes, if we know.

    def __contains__(self, key: FollowedKey) -> bool:
        return key in self._told

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to fetch."""
        return not self._told

    def position_told(self, key: FollowedKey) -> FetchPosition | None:
        """Where the leader believes us to be; None where it does not know the partition."""
        return self._told.get(key)

    def say(self, key: FollowedKey, position: FetchPosition) -> None:
        """Fetch from here from the next request on."""
        if self._told.get(key) != position:
            self._told[key] = self._changed[key] = position
            self._forgotten.pop(key, None)

    def forget(self, key: FollowedKey) -> None:
        """Fetch no more of it from the next request on."""
        told = self._told.pop(key, None)
        if told is not None:
            self._forgotten[key] = told if self._changed.pop(key, None) is None else None

    def recall(self, key: FollowedKey, position: FetchPosition) -> bool:
        """Take back that it was forgotten, if the leader has not heard of that and believes us to be there."""
        if self._forgotten.get(key) != position:
            return False
        del self._forgotten[key]
        self._told[key] = position
        return True

    def restart(self) -> None:
        """Something was lost: the next request says everything."""
        self._session_id = self._epoch = 0
        self._changed = dict(self._told)
        self._forgotten.clear()

    def request(self, replica: ReplicaState, *, max_wait_ms: int) -> FetchRequest:
        """The next request; what it says counts as told."""
        changed, self._changed = self._changed, {}
        forgotten, self._forgotten = self._forgotten, {}
        limits = self._limits
        return FetchRequest(
            replica_state=replica,
            max_wait_ms=max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.response_bytes_max,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=_by_topic(changed, limits.partition_bytes_max),
            forgotten_topics_data=_forgotten_by_topic(forgotten),
        )

    def on_response(self, response: FetchResponse) -> bool:
        """Go on with the session, or begin it anew; whether the answer is one to our request."""
        if response.error_code is not ErrorCode.NONE:
            self.restart()
            return False
        if response.session_id == 0:
            self.restart()
        else:
            self._session_id = response.session_id
            self._epoch = next_epoch(self._epoch)
        return True


def is_session_error(code: ErrorCode) -> bool:
    """Whether an error of a whole fetch is healed by a session begun anew."""
    return code in _SESSION_ERRORS


def _by_topic(changed: Mapping[FollowedKey, FetchPosition], max_bytes: int) -> tuple[FetchTopic, ...]:
    topics: dict[int, list[FetchPartition]] = {}
    for (number, index), position in changed.items():
        topics.setdefault(number, []).append(
            FetchPartition(
                partition=index,
                current_leader_epoch=position.leader_epoch,
                fetch_offset=position.fetch_offset,
                last_fetched_epoch=position.last_fetched_epoch,
                log_start_offset=position.log_start_offset,
                partition_max_bytes=max_bytes,
            )
        )
    return tuple(
        [FetchTopic(topic_id=UUID(int=number), partitions=tuple(partitions)) for number, partitions in topics.items()]
    )


def _forgotten_by_topic(forgotten: Iterable[FollowedKey]) -> tuple[ForgottenTopic, ...]:
    topics: dict[int, list[int]] = {}
    for number, index in forgotten:
        topics.setdefault(number, []).append(index)
    return tuple(
        ForgottenTopic(topic_id=UUID(int=number), partitions=tuple(indexes)) for number, indexes in topics.items()
    )
