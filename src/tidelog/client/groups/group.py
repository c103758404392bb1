"""The group of a consumer, as its program sees it: subscribe, commit, ask what was committed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from tidelog.client.config import ConsumerConfig
from tidelog.client.config_kinds import GroupProtocol
from tidelog.client.errors import WrongUse
from tidelog.client.groups.driver import GroupDriver, Listener, Listeners, OnCommitted
from tidelog.client.groups.membership import Identity, Wish
from tidelog.client.groups.offset_commits import Committed, Offsets
from tidelog.model import TopicPartition


class GroupMetadata(NamedTuple):
    """Who the consumer is in its group, for those who commit in its name (KIP-447)."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None


class GroupHandle:
    """`consumer.group`. Needs group.id. Partitions come and go, and listeners are told, only while the consumer is polled."""

    def __init__(self, driver: GroupDriver, config: ConsumerConfig) -> None:
        self._driver = driver
        self._config = config

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | None = None,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """Share these topics, or those whose whole names match a pattern, with the other members of the group.

        A classic member matches the pattern itself, in Python's syntax; with group.protocol=consumer the coordinator does, in RE2's.
        `on_revoked` is told of partitions before others are given them, and may still commit; after it has returned none of their records
        is handed out. `on_lost` is told of those that others may have already; without it, `on_revoked` is. Raises WrongUse.
        """
        names = tuple(dict.fromkeys(topics))
        if self._config.group_id is None:
            raise WrongUse("group.id is not set")
        if bool(names) == (pattern is not None):
            raise WrongUse("subscribe to topics, or to a pattern")
        listeners = Listeners(on_assigned, on_revoked, on_lost or on_revoked)
        if pattern is None or self._config.group_protocol is GroupProtocol.CONSUMER:
            self._driver.subscribe(Wish(topics=names, pattern=pattern), listeners)
            return
        try:
            self._driver.subscribe(re.compile(pattern), listeners)
        except re.error as error:
            raise WrongUse(f"{pattern!r} is no pattern: {error}") from None

    async def unsubscribe(self, *, timeout_ms: float | None = None) -> None:
        """Commit (enable.auto.commit), give everything up and leave the group; within default.api.timeout.ms."""
        patience_ms = self._config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        await self._driver.depart(commits=True, timeout_ms=patience_ms)

    async def commit(self, offsets: Offsets | None = None, *, timeout_ms: float | None = None) -> None:
        """Remember these offsets, or the consumer's positions: those of the next records, so that all before count as done.

        Raises CommitFailed: after default.api.timeout.ms, or at once where the consumer is no member any more.
        """
        await self._driver.commit(offsets, self._config.default_api_timeout_ms if timeout_ms is None else timeout_ms)

    def begin_commit(self, offsets: Offsets | None = None, *, on_committed: OnCommitted | None = None) -> None:
        """The same without waiting; `on_committed` is told what became of it."""
        self._driver.begin_commit(offsets, on_committed)

    async def committed(
        self, topic_partitions: Iterable[TopicPartition], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, Committed | None]:
        """What the group has committed, None where it has not. Raises NoPosition after default.api.timeout.ms."""
        patience_ms = self._config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        return await self._driver.committed(topic_partitions, patience_ms)

    def metadata(self) -> GroupMetadata:
        """Who the consumer was in its group when it was last polled, and was given records.

        Ask before the next poll: offsets are refused if others were given the partitions meanwhile.
        """
        return self._metadata_of(self._driver.polled_identity)

    def membership(self) -> GroupMetadata:
        """Who the consumer is at this moment: nobody while it is put out, whether it has noticed or not."""
        return self._metadata_of(self._driver.identity)

    @property
    def is_subscribed(self) -> bool:
        """Whether the group says what is read."""
        return self._driver.is_subscribed

    def _metadata_of(self, identity: Identity) -> GroupMetadata:
        return GroupMetadata(self._config.group_id or "", identity.epoch, identity.member_id, identity.instance_id)
