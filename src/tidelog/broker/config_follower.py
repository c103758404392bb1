"""Follows the settings of topics and brokers in the registry, which is how they travel: whoever alters them leaves a notification there.

A notification says where to look; what it finds there is the truth. A watch can be missed (a lost session, a late start), so everything is
read again with every registration and now and then in between.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from tidelog.broker.live_config import LiveConfig
from tidelog.broker.metadata_cache import MetadataCache
from tidelog.broker.replica_roles import ReplicaRoles
from tidelog.config import ConfigError, LogConfig
from tidelog.controller import MalformedNode, layout
from tidelog.model import ApiError, ErrorCode, TopicId
from tidelog.registry import Node as RegistryNode
from tidelog.registry import Registry, RegistryError, RegistryUnavailable, SessionExpired, Watch
from tidelog.runtime.logs import fields

logger = logging.getLogger(__name__)

T = TypeVar("T")

_READ_ALL_EVERY_S: Final = 60.0
_SESSIONS_MAX: Final = 5  # that may lapse during one start
_RETRY_S: Final = 0.5
_TOPICS_AT_ONCE: Final = 500


class ConfigFollower:
    """Knows the altered settings of every topic this broker has heard of, and of every broker."""

    def __init__(
        self, registry: Registry, live_config: LiveConfig, metadata: MetadataCache, roles: ReplicaRoles
    ) -> None:
        self._registry = registry
        self._live_config = live_config
        self._metadata = metadata
        self._roles = roles
        self._topics: dict[str, tuple[TopicId, Mapping[str, str]]] = {}
        self._log_configs: dict[str, tuple[TopicId, LogConfig]] = {}
        self._brokers: dict[str, Mapping[str, str]] = {}
        self._seen: frozenset[str] = frozenset()  # Notifications that were heeded.
        self._turn = asyncio.Lock()
        self._news = asyncio.Event()
        self._watch: Watch | None = None
        self._is_session_new = False

    # Asking.

    def topic_configs(self, topic: str, topic_id: TopicId) -> Mapping[str, str]:
        """What was altered for a topic; nothing before `learn` was asked about it."""
        known = self._topics.get(topic)
        return known[1] if known is not None and known[0] == topic_id else {}

    def log_config(self, topic: str, topic_id: TopicId) -> LogConfig:
        """How the logs of a topic behave on this broker. Asked for each of its partitions, so what was read once is kept."""
        known = self._log_configs.get(topic)
        if known is None or known[0] != topic_id:
            known = self._log_configs[topic] = (topic_id, self._read_log_config(topic, topic_id))
        return known[1]

    def _read_log_config(self, topic: str, topic_id: TopicId) -> LogConfig:
        try:
            return LogConfig.from_properties(self.topic_configs(topic, topic_id), self._live_config.current)
        except ConfigError as error:
            logger.error("topic settings cannot hold", extra=fields(topic=topic, reason=error))
            return LogConfig.from_properties({}, self._live_config.current)

    async def learn(self, topics: Collection[tuple[str, TopicId]]) -> None:
        """Read the settings of topics that are new here. Raises ApiError where the registry cannot be read now."""
        async with self._turn:
            unknown = [(name, topic_id) for name, topic_id in topics if self._topics.get(name, (None,))[0] != topic_id]
            for some in _slices(unknown):
                try:
                    found = await self._read([layout.topic_config_path(name) for name, _ in some])
                except (RegistryError, RegistryUnavailable) as error:
                    message = f"the settings of topics cannot be read: {error}"
                    raise ApiError(ErrorCode.REQUEST_TIMED_OUT, message) from error
                for (name, topic_id), configs in zip(some, found, strict=True):
                    self._topics[name] = (topic_id, configs)
                    self._log_configs.pop(name, None)

    def forget(self, topics: Iterable[str]) -> None:
        """These topics are gone."""
        for topic in topics:
            self._topics.pop(topic, None)
            self._log_configs.pop(topic, None)

    # Following.

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Read everything, then follow until the block is left. Raises RegistryUnavailable where the first reading fails."""
        await self._begin()
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(self._follow())
            try:
                yield
            finally:
                following.cancel()

    async def _begin(self) -> None:
        """Read everything, in another session if ours lapsed: the broker is not registered yet, so nobody minds."""
        for _ in range(_SESSIONS_MAX):
            try:
                await self._watch_and_read_all()
            except SessionExpired:
                await self._registry.open_session()
            else:
                return
        await self._watch_and_read_all()

    def on_session(self) -> None:
        """The registry has given us another session: the watch of the former is gone."""
        self._is_session_new = True
        self._news.set()

    async def catch_up(self) -> None:
        """Heed every notification there is by now; a registry that cannot be read is left for later."""
        try:
            await self._heed_news()
        except (RegistryError, RegistryUnavailable) as error:
            logger.warning("settings not followed", extra=fields(reason=error))
            self._news.set()

    async def _follow(self) -> None:
        while True:
            is_due = not await _set_within(self._news, _READ_ALL_EVERY_S)
            self._news.clear()
            try:
                if is_due or self._is_session_new:
                    await self._watch_and_read_all(again=self._is_session_new)
                else:
                    await self._heed_news()
            except (RegistryError, RegistryUnavailable) as error:
                logger.warning("settings not followed", extra=fields(reason=error))
                self._is_session_new = True
                await asyncio.sleep(_RETRY_S)
                self._news.set()

    async def _watch_and_read_all(self, *, again: bool = True) -> None:
        """Watch first, then look: what comes in between is told."""
        async with self._turn:
            if again:
                self._is_session_new = False
                if self._watch is not None:
                    self._watch.cancel()
                self._watch = await self._registry.watch(layout.CONFIG_CHANGES, self._news.set)
            self._seen = frozenset(await self._registry.children(layout.CONFIG_CHANGES))
            brokers = await self._registry.children(layout.BROKER_CONFIGS)
            await self._take_brokers(brokers)
            for some in _slices(list(self._topics)):
                await self._take_topics(some)
        await self._learn_missed()

    async def _learn_missed(self) -> None:
        """Topics that were told while the registry could not be read."""
        missed = [topic for topic in self._metadata.topics() if topic.name not in self._topics]
        try:
            await self.learn([(topic.name, topic.topic_id) for topic in missed])
        except ApiError as error:
            logger.warning("settings of topics not read", extra=fields(topic_count=len(missed), reason=error.message))
            return
        for topic in missed:
            self._show(topic.name, topic.topic_id)

    async def _heed_news(self) -> None:
        async with self._turn:
            there = await self._registry.children(layout.CONFIG_CHANGES)
            paths = [f"{layout.CONFIG_CHANGES}/{name}" for name in there if name not in self._seen]
            changed = []
            for path, node in zip(paths, await self._registry.get_many(paths), strict=True):
                if node is not None and (entity := _entity(path, node)) is not None:
                    changed.append(entity)
            await self._take_brokers([_name(path) for path in changed if path.startswith(layout.BROKER_CONFIGS)])
            topics = {_name(path): None for path in changed if path.startswith(layout.TOPIC_CONFIGS)}
            await self._take_topics([name for name in topics if name in self._topics])
            self._seen = frozenset(there)

    async def _take_brokers(self, entities: Collection[str]) -> None:
        found = await self._read([layout.broker_config_path(entity) for entity in entities])
        brokers = {**self._brokers, **dict(zip(entities, found, strict=True))}
        if brokers == self._brokers:
            return
        self._brokers = brokers
        self._metadata.take_broker_configs(brokers)
        before = self._live_config.current
        self._live_config.follow(self._metadata.image)
        if self._live_config.current != before:
            logger.info("broker settings changed")
            self._log_configs.clear()
            await _in_slices(list(self._topics), self._reconfigure)

    async def _take_topics(self, names: Collection[str]) -> None:
        known = {name: self._topics[name] for name in names if name in self._topics}
        found = await self._read([layout.topic_config_path(name) for name in known])
        for (name, (topic_id, before)), configs in zip(known.items(), found, strict=True):
            if configs != before and self._topics.get(name) == (topic_id, before):
                self._topics[name] = (topic_id, configs)
                self._log_configs.pop(name, None)
                self._show(name, topic_id)
                self._reconfigure(name)
                logger.info("topic settings changed", extra=fields(topic=name))

    def _show(self, name: str, topic_id: TopicId) -> None:
        """Have clients told the settings of a topic they are told of."""
        topic = self._metadata.topic(name)
        if topic is not None and topic.topic_id == topic_id:
            configs = self.topic_configs(name, topic_id)
            self._metadata.take_topics([dataclasses.replace(topic, configs=configs)])

    def _reconfigure(self, topic: str) -> None:
        topic_id, _ = self._topics[topic]
        self._roles.reconfigure(topic, self.log_config(topic, topic_id))

    async def _read(self, paths: Collection[str]) -> list[Mapping[str, str]]:
        """The settings at the paths; none where there is no node, or one that makes no sense."""
        found = await self._registry.get_many(list(paths))
        return [_configs(path, node) for path, node in zip(paths, found, strict=True)]


def _configs(path: str, node: RegistryNode | None) -> Mapping[str, str]:
    if node is None:
        return {}
    try:
        return layout.decode_configs(path, node)
    except MalformedNode as error:
        logger.error("settings in the registry make no sense", extra=fields(path=path, reason=error.reason))
        return {}


def _entity(path: str, node: RegistryNode) -> str | None:
    try:
        return layout.decode_change(path, node)
    except MalformedNode as error:
        logger.warning("notification in the registry makes no sense", extra=fields(path=path, reason=error.reason))
        return None


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _slices(items: list[T]) -> Iterable[list[T]]:
    return (items[start : start + _TOPICS_AT_ONCE] for start in range(0, len(items), _TOPICS_AT_ONCE))


async def _in_slices(items: list[str], work: Callable[[str], None]) -> None:
    for position, item in enumerate(items, 1):
        work(item)
        if position % 20 == 0:
            await asyncio.sleep(0)


async def _set_within(event: asyncio.Event, timeout_s: float) -> bool:
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return False
    return True
