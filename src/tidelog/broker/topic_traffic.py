"""What went in and out of each topic since this broker started, counted where it happens, for those who watch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(slots=True)
class Traffic:
    """Counters of one topic, or of all together; they only grow."""

    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    replication_bytes_in: int = 0
    replication_bytes_out: int = 0
    produce_requests: int = 0
    failed_produce_requests: int = 0
    fetch_requests: int = 0
    failed_fetch_requests: int = 0

    def counts(self) -> Iterator[tuple[str, int]]:
        """The counters by name."""
        for name in self.__slots__:
            yield name, getattr(self, name)

    def add(self, other: Traffic) -> None:
        """Count what another has counted, too."""
        for name, count in other.counts():
            setattr(self, name, getattr(self, name) + count)


class TopicTraffic:
    """Traffic by topic, for the topics of which a replica is here. What is asked of any other has no name of its own."""

    def __init__(self) -> None:
        self._by_topic: dict[str, Traffic] = {}
        self._nameless = Traffic()

    def of(self, topic: str) -> Traffic:
        """Where to count what concerns a topic."""
        return self._by_topic.get(topic, self._nameless)

    def meet(self, topic: str) -> None:
        """A replica of the topic is here."""
        self._by_topic.setdefault(topic, Traffic())

    def forget(self, topic: str) -> None:
        """None is here any more; what the topic has carried still counts for the broker."""
        traffic = self._by_topic.pop(topic, None)
        if traffic is not None:
            self._nameless.add(traffic)

    @property
    def by_topic(self) -> Mapping[str, Traffic]:
        """Each topic that is here."""
        return self._by_topic

    @property
    def total(self) -> Traffic:
        """All of them, also those that are gone."""
        total = Traffic()
        for traffic in (self._nameless, *self._by_topic.values()):
            total.add(traffic)
        return total
