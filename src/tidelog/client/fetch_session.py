"""The client's half of incremental fetch sessions (KIP-227), without IO.

The broker remembers what we asked for; each request then carries only what changed since the last one, and partitions to forget. Any doubt
(lost answer, refused epoch, other way of naming topics) is settled by a full fetch, which closes the old session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from tidelog.model import ErrorCode, LeaderEpoch, Offset, TopicId, TopicPartition

NO_SESSION: Final = 0
_INITIAL_EPOCH: Final = 0
_EPOCH_MAX: Final = 2**31 - 1


class FetchTarget(NamedTuple):
    """What is wanted of one partition."""

    topic_id: TopicId | None
    fetch_offset: Offset
    leader_epoch: LeaderEpoch
    max_bytes: int


class FetchPlan(NamedTuple):
    """What the next request says. A partition whose topic was recreated is forgotten under its old id and sent under the new one."""

    session_id: int
    session_epoch: int
    send: dict[TopicPartition, FetchTarget]
    forget: dict[TopicPartition, TopicId | None]
    uses_topic_ids: bool

    @property
    def is_full(self) -> bool:
        """Whether it names everything wanted, rather than what has changed."""
        return self.session_epoch == _INITIAL_EPOCH


class FetchSession:
    """Our session at one broker."""

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._next_epoch = _INITIAL_EPOCH
        self._told: dict[TopicPartition, FetchTarget] = {}
        self._uses_topic_ids = False
        self._names: dict[TopicId, str] = {}

    def plan(self, wanted: Mapping[TopicPartition, FetchTarget]) -> FetchPlan:
        """The request that makes the broker serve exactly `wanted`. Follow it by `on_answer` or `on_failure`."""
        uses_topic_ids = all(target.topic_id is not None for target in wanted.values())
        if uses_topic_ids != self._uses_topic_ids and self._told:
            self._next_epoch = _INITIAL_EPOCH
        told, self._told = self._told, dict(wanted)
        self._uses_topic_ids = uses_topic_ids
        self._names = {target.topic_id: key.topic for key, target in wanted.items() if target.topic_id is not None}
        if self._next_epoch == _INITIAL_EPOCH:
            return FetchPlan(self._session_id, _INITIAL_EPOCH, dict(wanted), {}, uses_topic_ids)
        send = {key: target for key, target in wanted.items() if told.get(key) != target}
        forget = {
            key: target.topic_id
            for key, target in told.items()
            if key not in wanted or wanted[key].topic_id != target.topic_id
        }
        return FetchPlan(self._session_id, self._next_epoch, send, forget, uses_topic_ids)

    def on_answer(self, code: ErrorCode, session_id: int) -> None:
        """The broker answered: the session goes on, begins, or must begin anew."""
        if code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._session_id = NO_SESSION
        if code is not ErrorCode.NONE:
            self._next_epoch = _INITIAL_EPOCH
        elif session_id == NO_SESSION:
            self._session_id = NO_SESSION
            self._next_epoch = _INITIAL_EPOCH
        else:
            self._session_id = session_id
            self._next_epoch = 1 if self._next_epoch == _EPOCH_MAX else self._next_epoch + 1

    def on_failure(self) -> None:
        """No answer came: whether the broker saw the request is unknown, so the next one is full (F01)."""
        self._next_epoch = _INITIAL_EPOCH

    def name_of(self, topic_id: TopicId) -> str | None:
        """The topic we asked for under this id."""
        return self._names.get(topic_id)
