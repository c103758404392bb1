"""What this broker knows of the cluster: the newest image the controller published."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidelog.controller import ClusterImage, TopicImage
from tidelog.model import ApiError, BrokerEndpoint, BrokerId, ErrorCode, TopicId
from tidelog.runtime import Address

_WILDCARDS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104  # compared with, not bound


class MetadataCache:
    """Answers questions about topics and brokers; replaced as a whole when a new image arrives."""

    def __init__(self) -> None:
        self._image = ClusterImage()
        self._name_by_id: dict[TopicId, str] = {}

    def publish(self, image: ClusterImage) -> None:
        """From now on, this is the truth."""
        self._image = image
        self._name_by_id = {topic.topic_id: name for name, topic in image.topics.items()}

    @property
    def image(self) -> ClusterImage:
        """The truth as of now."""
        return self._image

    @property
    def cluster_id(self) -> str:
        """The cluster's name for itself."""
        return self._image.cluster_id

    @property
    def controller_id(self) -> BrokerId:
        """Who decides; -1 while nobody does."""
        return self._image.controller_id

    def topics(self) -> Iterable[TopicImage]:
        """All topics, by name."""
        return [self._image.topics[name] for name in sorted(self._image.topics)]

    def topic(self, name: str) -> TopicImage | None:
        """The topic of this name."""
        return self._image.topics.get(name)

    def topic_by_id(self, topic_id: TopicId) -> TopicImage | None:
        """The topic of this id."""
        name = self._name_by_id.get(topic_id)
        return None if name is None else self._image.topics[name]

    def topic_name(self, name: str, topic_id: TopicId | None) -> str:
        """The name of a topic a client gave by name or by id. Raises ApiError for an id nobody has."""
        if topic_id is None:
            return name
        known = self._name_by_id.get(topic_id)
        if known is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        return known

    def is_live(self, broker_id: BrokerId) -> bool:
        """Whether the broker is registered."""
        return broker_id in self._image.brokers

    def endpoints(self, listener: str, *, dialled: Address) -> Iterator[BrokerEndpoint]:
        """Where clients of this listener reach each live broker.

        A broker that advertises no address of its own is reached at the one its client just dialled.
        """
        for broker_id, broker in sorted(self._image.brokers.items()):
            endpoint = broker.endpoints.get(listener)
            if endpoint is not None:
                host = dialled.host if endpoint.host in _WILDCARDS else endpoint.host
                yield BrokerEndpoint(broker_id, host, endpoint.port, broker.rack)
