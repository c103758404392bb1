"""Keeps a consumer in its group: one task that does what the membership says next, and tells it what came of that."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from tidelog.client.cluster import ClientRuntime, Cluster, Lane
from tidelog.client.config import ConsumerConfig
from tidelog.client.coordinators import Coordinators
from tidelog.client.errors import (
    BrokersUnreachable,
    ClientError,
    ConnectionLost,
    GroupRefused,
    RequestRefused,
    UnsupportedApi,
)
from tidelog.client.groups.membership import Ask, Count, Membership, Name, Outlook, Rest, Wish
from tidelog.model import ErrorCode, TopicId
from tidelog.wire.api import Request, Response
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

R = TypeVar("R", bound=Response)

Subscribed: TypeAlias = Wish | re.Pattern[str]
"""What the membership is told as it is, or a pattern that is matched here."""


class GroupSession:
    """Runs inside its consumer's scope. `on_attention` is called when there may be something to tell the program."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        runtime: ClientRuntime,
        *,
        membership: Membership,
        coordinators: Coordinators,
        on_attention: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._runtime = runtime
        self._membership = membership
        self._coordinators = coordinators
        self._on_attention = on_attention
        self._pattern: re.Pattern[str] | None = None
        self._matched_at_ms: float | None = None
        self._failures = 0
        self._lives = 0  # answers to questions of an earlier one are ignored
        self._tracked: tuple[str, ...] = ()  # what this member wants
        self._shared_out: tuple[str, ...] = ()  # what others want too, once it has led
        self._failure: ClientError | None = None
        self._wake = asyncio.Event()

    @property
    def failure(self) -> ClientError | None:
        """Why the consumer is not in its group, if only the program can do something about it."""
        code = self._membership.error
        return self._failure if code is None else GroupRefused(code)

    def subscribe(self, wish: Subscribed | None) -> None:
        """Topics, a pattern for the coordinator, a pattern that is matched here, or nothing."""
        self._failure = self._matched_at_ms = None
        self._pattern = wish if isinstance(wish, re.Pattern) else None
        if not isinstance(wish, re.Pattern):
            self._tracked, self._shared_out = () if wish is None else wish.topics, ()
            self._membership.subscribe(wish)
        self.wake()

    def wake(self) -> None:
        """Something has happened that the membership may act upon."""
        self._wake.set()

    async def run(self) -> None:
        """Do what is next, until cancelled."""
        while True:
            self._wake.clear()
            if self._failure is None and self._is_match_due():
                await self._match_topics()
            else:
                await self._step()
            if self._membership.has_change or self.failure is not None:
                self._on_attention()

    async def leave(self, timeout_ms: float) -> None:
        """Be no member any more, and tell the coordinator once, if it can be reached in time."""
        self._lives += 1
        request = self._membership.leave_request()
        if request is None:
            return
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                node = await self._coordinators.of(self._config.group_id or "")
                # Not behind a join that the coordinator parks.
                await self._cluster.request(node, request, lane=Lane.CONTROL)
        except (TimeoutError, ConnectionLost, BrokersUnreachable, RequestRefused, UnsupportedApi):
            return  # The coordinator finds out when the session lapses.

    async def _step(self) -> None:
        now_ms = self._now_ms()
        self._cluster.track(*self._tracked, *self._shared_out)
        known = {name: len(topic.partitions) for name, topic in self._cluster.metadata.topics.items()}
        self._membership.on_count_news(known)
        step = Rest(None) if self._failure is not None else self._membership.next_step(now_ms)
        match step:
            case Rest():
                await self._rest(step.until_ms, now_ms)
            case Ask():
                await self._ask(step)
            case Count():
                await self._count(step.topics)
            case Name():
                await self._name(step.topic_ids)

    async def _rest(self, until_ms: float | None, now_ms: float) -> None:
        if self._membership.has_change:
            self._on_attention()
        delay_ms = None if until_ms is None or until_ms == float("inf") else max(until_ms - now_ms, 1)
        try:
            async with asyncio.timeout(None if delay_ms is None else delay_ms / 1000):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _ask(self, ask: Ask) -> None:
        life = self._lives
        try:
            response = await self._request(ask.request, ask.timeout_ms)
        except (ConnectionLost, BrokersUnreachable):
            self._cluster.want_refresh()
            await self._on_no_answer(life)
        except RequestRefused as error:
            if not error.code.is_retriable:
                self._failure = error
            await self._on_no_answer(life)
        except UnsupportedApi as error:
            self._failure = error
            await self._on_no_answer(life)
        else:
            if life != self._lives:
                return
            outlook = self._membership.on_answer(response, self._now_ms())
            if outlook is Outlook.LOOK_UP_COORDINATOR:
                self._coordinators.forget(self._config.group_id or "")
            if outlook is Outlook.GO_ON:
                self._failures = 0
            else:
                await self._back_off()

    async def _request(self, request: Request[R], timeout_ms: float | None) -> R:
        node = await self._coordinators.of(self._config.group_id or "")
        patience_ms = max(self._config.request_timeout_ms, timeout_ms or 0)
        return await self._cluster.request(node, request, lane=Lane.GROUP, timeout_ms=patience_ms)

    async def _on_no_answer(self, life: int) -> None:
        self._coordinators.forget(self._config.group_id or "")
        if life == self._lives:
            self._membership.on_failure(self._now_ms())
        await self._back_off()

    async def _back_off(self) -> None:
        self._failures += 1
        if self._membership.has_change:
            self._on_attention()
        await asyncio.sleep(self._config.retry_backoff.delay_ms(self._failures, self._runtime.randomness) / 1000)

    async def _count(self, topics: tuple[str, ...]) -> None:
        """A new leader asks the cluster; if that takes too long, what is known has to do, and a rebalance follows when more is."""
        self._shared_out = topics
        try:
            async with asyncio.timeout(self._config.session_timeout_ms / 3 / 1000):
                await self._cluster.refresh(*topics)
        except TimeoutError:
            pass
        known = self._cluster.metadata.topics
        self._membership.on_counts({name: len(known[name].partitions) for name in topics if name in known})

    async def _name(self, topic_ids: tuple[TopicId, ...]) -> None:
        """Topics that were subscribed to by name are known; those that matched a pattern are asked for."""
        known = {topic.topic_id: name for name, topic in self._cluster.metadata.topics.items()}
        names = {topic_id: known[topic_id] for topic_id in topic_ids if topic_id in known}
        missing = [topic_id for topic_id in topic_ids if topic_id not in names]
        try:
            if missing:
                request = MetadataRequest(
                    topics=tuple(MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in missing),
                    allow_auto_topic_creation=False,
                )
                for topic in (await self._cluster.request(None, request)).topics:
                    if topic.error_code is ErrorCode.NONE and topic.topic_id is not None and topic.name is not None:
                        names[topic.topic_id] = topic.name
        except (ConnectionLost, BrokersUnreachable):
            self._cluster.want_refresh()
        self._membership.on_names(names)
        if len(names) < len(topic_ids):
            await self._back_off()

    def _is_match_due(self) -> bool:
        """A pattern is matched against all topics when it is subscribed to, and as often as metadata is asked for anyway."""
        if self._pattern is None:
            return False
        age_ms = None if self._matched_at_ms is None else self._now_ms() - self._matched_at_ms
        return age_ms is None or age_ms >= self._config.metadata_max_age_ms

    async def _match_topics(self) -> None:
        pattern = self._pattern
        try:
            response = await self._cluster.request(None, MetadataRequest(topics=None, allow_auto_topic_creation=False))
        except (ConnectionLost, BrokersUnreachable):
            self._cluster.want_refresh()
            await self._back_off()
            return
        if pattern is None or pattern is not self._pattern:
            return
        self._failures = 0
        self._matched_at_ms = self._now_ms()
        names = [
            topic.name
            for topic in response.topics
            if topic.name is not None and not (topic.is_internal and self._config.exclude_internal_topics)
        ]
        self._tracked = tuple(sorted(name for name in names if pattern.fullmatch(name)))
        self._membership.subscribe(Wish(topics=self._tracked))

    def _now_ms(self) -> float:
        return self._runtime.clock.monotonic_ms()
