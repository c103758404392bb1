"""Notices which topics were deleted. A topic that this broker has not heard of yet is not one of them."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.coordinator.group.book import Topics
from tidelog.model import TopicId


class TopicWatch:
    """Remembers the ids of topics that offsets were committed for, as soon as they are known."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._ids: dict[bytes, TopicId] = {}

    def notice(self, topic: bytes) -> None:
        """An offset of a topic that may be new."""
        if topic in self._ids:
            return
        view = self._topics.by_name(topic.decode())
        if view is not None:
            self._ids[topic] = view.topic_id

    def vanished(self, topics: Iterable[bytes]) -> tuple[bytes, ...]:
        """Those of them that were there before and are not any more, be it that another of the same name took their place."""
        vanished = []
        ids: dict[bytes, TopicId] = {}
        for topic in dict.fromkeys(topics):
            view = self._topics.by_name(topic.decode())
            known_id = self._ids.get(topic)
            if view is not None:
                ids[topic] = view.topic_id
            if known_id is not None and (view is None or view.topic_id != known_id):
                vanished.append(topic)
        self._ids = ids
        return tuple(vanished)
