"""What this broker tells clients about the cluster, as the controller last told it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from tidelog.broker.peers import reachable
from tidelog.controller import NO_BROKER, BrokerImage, ClusterImage, TopicImage
from tidelog.model import ApiError, BrokerId, ErrorCode, TopicId
from tidelog.runtime import Address

_WILDCARDS: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104  # recognised, not bound to
AUTOMATIC_LISTENER: Final = "REPLICATION"


class BrokerEndpoint(NamedTuple):
    """A broker as a client of one listener sees it."""

    broker_id: BrokerId
    host: str
    port: int
    rack: str | None


class MetadataCache:
    """Answers questions about topics and brokers. Only the control plane and the settings' follower change it."""

    def __init__(self, inter_broker_listener: str = AUTOMATIC_LISTENER) -> None:
        self._inter_broker_listener = inter_broker_listener
        self._image = ClusterImage()
        self._name_by_id: dict[TopicId, str] = {}
        self._leaders: dict[BrokerId, Address] = {}  # Told with leaderships, before the brokers themselves are told.
        self.topics_version = 0
        """Another number whenever topics came, went, grew or moved; another leader or ISR is none of these."""
        self.on_topics_changed: Callable[[], None] = _nobody_minds
        """Called after that."""
        self.is_whole = False
        """Whether the controller that told something last has told everything there is, so that a topic that is not here was deleted or is
        new."""

    # Being told.

    def begin(self, cluster_id: str) -> None:
        """The name of the cluster, which is known before anything else is."""
        self._image = dataclasses.replace(self._image, cluster_id=cluster_id)

    def take_leaders(self, leaders: Mapping[BrokerId, Address]) -> None:
        """Where leaders are reached by brokers, until the brokers themselves are told."""
        self._leaders.update(leaders)

    def take_brokers(
        self, brokers: Mapping[BrokerId, BrokerImage], *, controller_id: BrokerId, controller_epoch: int
    ) -> None:
        """All brokers that live, and who decides."""
        self._leaders.clear()
        self._image = dataclasses.replace(
            self._image, brokers=brokers, controller_id=controller_id, controller_epoch=controller_epoch
        )

    def take_topics(self, changed: Iterable[TopicImage], *, gone: Iterable[str] = ()) -> None:
        """Topics that came or changed, as a whole, and those that went."""
        topics = dict(self._image.topics)
        is_other = False
        for name in gone:
            is_other = is_other or name in topics
            self._forget_id(topics.pop(name, None))
        for topic in changed:
            known = topics.get(topic.name)
            is_other = is_other or not _are_alike(known, topic)
            self._forget_id(known)
            topics[topic.name] = topic
            self._name_by_id[topic.topic_id] = topic.name
        self._image = dataclasses.replace(self._image, topics=topics)
        if is_other:
            self.topics_version += 1
            self.on_topics_changed()

    def take_broker_configs(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        """What was altered of the settings of brokers, by broker id."""
        self._image = dataclasses.replace(self._image, broker_configs=configs)

    def _forget_id(self, topic: TopicImage | None) -> None:
        if topic is not None:
            self._name_by_id.pop(topic.topic_id, None)

    # Telling.

    @property
    def image(self) -> ClusterImage:
        """The truth as of now, as far as it was told."""
        return self._image

    @property
    def cluster_id(self) -> str:
        """The cluster's name for itself."""
        return self._image.cluster_id

    @property
    def controller_id(self) -> BrokerId:
        """Who decides; -1 while nobody does, or who did is gone."""
        return self._image.controller_id if self.is_live(self._image.controller_id) else NO_BROKER

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

    def inter_broker_address(self, broker_id: BrokerId) -> Address | None:
        """Where other brokers reach a broker; None while that was not told."""
        leader = self._leaders.get(broker_id)  # Newer than the brokers that were told before.
        broker = self._image.brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoints.get(self._inter_broker_listener)
        if leader is None and endpoint is not None:
            leader = Address(endpoint.host, endpoint.port)
        return None if leader is None else reachable(leader)

    def endpoints(self, listener: str, *, dialled: Address) -> Iterator[BrokerEndpoint]:
        """Where clients of this listener reach each live broker.

        A broker that advertises no address of its own is reached at the one its client just dialled.
        """
        for broker_id, broker in sorted(self._image.brokers.items()):
            endpoint = broker.endpoints.get(listener)
            if endpoint is not None:
                host = dialled.host if endpoint.host in _WILDCARDS else endpoint.host
                yield BrokerEndpoint(broker_id, host, endpoint.port, broker.rack)


def _are_alike(known: TopicImage | None, topic: TopicImage) -> bool:
    """Whether nothing has changed but leaders, ISRs and settings."""
    if known is None or known.topic_id != topic.topic_id or len(known.partitions) != len(topic.partitions):
        return False
    before = known.partitions
    return all(
        index in before and before[index].assignment == state.assignment for index, state in topic.partitions.items()
    )


def _nobody_minds() -> None:
    """Nothing is coordinated yet."""
