"""The topics of the cluster as coordinators see them."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.internal_topics import GROUPS_TOPIC
from tidelog.broker.metadata_cache import MetadataCache
from tidelog.controller import ClusterImage, TopicImage
from tidelog.coordinator.group.book import TopicView
from tidelog.model import BrokerId, LeaderEpoch, TopicId, TopicPartition


def _leads_nothing(_: TopicPartition) -> LeaderEpoch | None:
    return None


class CachedTopics:
    """Answers from the metadata cache; what it made of a topic is kept until that topic, or a broker, changes."""

    def __init__(
        self, metadata: MetadataCache, led_epoch: Callable[[TopicPartition], LeaderEpoch | None] = _leads_nothing
    ) -> None:
        """`led_epoch` tells under which epoch a partition is led here, if it is."""
        self._metadata = metadata
        self._led_epoch = led_epoch
        self._views: dict[str, tuple[TopicImage, TopicView]] = {}
        self._brokers: object = None
        self._racks: dict[BrokerId, str | None] = {}

    @property
    def version(self) -> int:
        """Another number whenever topics came, went, grew or moved."""
        return self._metadata.topics_version

    @property
    def is_whole(self) -> bool:
        """Leaderships are told first, then topics, and the internal one among them: what it shows is as new as what was told before."""
        topic = self._metadata.topic(GROUPS_TOPIC)
        if topic is None or not self._metadata.is_whole:
            return False
        led = (
            (state, self._led_epoch(TopicPartition(GROUPS_TOPIC, index))) for index, state in topic.partitions.items()
        )
        return all(epoch is None or state.leader_epoch >= epoch for state, epoch in led)

    def by_name(self, name: str) -> TopicView | None:
        """The topic of this name."""
        topic = self._metadata.topic(name)
        return None if topic is None else self._view(topic)

    def by_id(self, topic_id: TopicId) -> TopicView | None:
        """The topic of this id."""
        topic = self._metadata.topic_by_id(topic_id)
        return None if topic is None else self._view(topic)

    def id_of(self, name: str) -> TopicId | None:
        """The id of the topic of this name, and nothing else about it."""
        topic = self._metadata.topic(name)
        return None if topic is None else topic.topic_id

    def names(self) -> list[str]:
        """All, in order."""
        return sorted(self._metadata.image.topics)

    def _view(self, topic: TopicImage) -> TopicView:
        image = self._metadata.image
        self._look_at_racks(image)
        known = self._views.get(topic.name)
        if known is not None and known[0] is topic:
            return known[1]
        racks = {broker_id: rack for broker_id, rack in self._racks.items() if rack is not None}
        view = TopicView(
            topic.name,
            topic.topic_id,
            tuple(
                frozenset(racks[broker_id] for broker_id in state.assignment if broker_id in racks)
                for _, state in sorted(topic.partitions.items())
            ),
        )
        if len(self._views) > len(image.topics):
            self._views.clear()  # Topics that went left theirs behind.
        self._views[topic.name] = (topic, view)
        return view

    def _look_at_racks(self, image: ClusterImage) -> None:
        """Whoever dies stays in its rack: else groups were given another epoch for it, and one more when it is back."""
        if self._brokers is image.brokers:
            return
        self._brokers = image.brokers
        racks = self._racks | {broker_id: broker.rack for broker_id, broker in image.brokers.items()}
        if racks != self._racks:
            self._racks = racks
            self._views.clear()
