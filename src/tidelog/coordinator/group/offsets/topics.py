"""Notices which topics were deleted. A topic that this broker has not heard of yet is not one of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.coordinator.group.book import GroupBook, TopicsSeen
from tidelog.model import TopicId


class TopicNews(NamedTuple):
    """What a look at the topics has shown; only who takes over what was seen will not see it again."""

    vanished: tuple[bytes, ...]
    seen: TopicsSeen


class TopicWatch:
    """Compares the topics that offsets were committed for with those there are."""

    def __init__(self, book: GroupBook) -> None:
        self._book = book

    def notice(self, topic: bytes) -> None:
        """An offset of a topic that may be new."""
        if topic in self._book.topic_ids:
            return
        topic_id = self._book.topics.id_of(topic.decode())
        if topic_id is not None:
            self._book.topic_ids[topic] = topic_id

    def look(self, topics: Iterable[bytes]) -> TopicNews:
        """Those of them that were there before and are not any more, be it that another of the same name took their place."""
        vanished = []
        topic_ids: dict[bytes, TopicId] = {}
        for topic in dict.fromkeys(topics):
            topic_id = self._book.topics.id_of(topic.decode())
            known_id = self._book.topic_ids.get(topic)
            if topic_id is not None:
                topic_ids[topic] = topic_id
            if known_id is not None and topic_id != known_id:
                vanished.append(topic)
        return TopicNews(tuple(vanished), TopicsSeen(topic_ids))
