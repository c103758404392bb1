"""Topics as coordinators see them: what changes about them is noticed, and what does not is not."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from tidelog.broker.internal_topics import GROUPS_TOPIC
from tidelog.broker.metadata_cache import MetadataCache
from tidelog.broker.topic_view import CachedTopics
from tidelog.controller import BrokerImage, PartitionState, TopicImage
from tidelog.coordinator.group.book import TopicView

ID = UUID(int=7)


def topic(name: str, *assignments: tuple[int, ...], leader: int = 1, topic_id: UUID = ID) -> TopicImage:
    states = {
        index: PartitionState(
            topic_id=topic_id,
            assignment=assignment,
            leader=leader,
            leader_epoch=0,
            isr=assignment,
            partition_epoch=0,
        )
        for index, assignment in enumerate(assignments)
    }
    return TopicImage(name=name, topic_id=topic_id, partitions=states)


def broker(broker_id: int, rack: str | None) -> BrokerImage:
    return BrokerImage(broker_id=broker_id, broker_epoch=1, endpoints={}, rack=rack)


def cache(*racks: str | None) -> MetadataCache:
    metadata = MetadataCache()
    brokers = {number: broker(number, rack) for number, rack in enumerate(racks, start=1)}
    metadata.take_brokers(brokers, controller_id=1, controller_epoch=1)
    return metadata


def test_a_topic_is_found_by_name_and_id_with_the_racks_of_its_replicas() -> None:
    metadata = cache("east", "west", None)
    metadata.take_topics([topic("t", (1, 2), (3,))])
    topics = CachedTopics(metadata)
    expected = TopicView("t", ID, (frozenset({"east", "west"}), frozenset()))
    assert (topics.by_name("t"), topics.by_id(ID)) == (expected, expected)
    assert (topics.by_name("u"), topics.by_id(UUID(int=8)), topics.names()) == (None, None, ["t"])


def test_names_come_in_order() -> None:
    metadata = cache()
    metadata.take_topics([topic("b", (1,)), topic("a", (1,), topic_id=UUID(int=8))])
    assert CachedTopics(metadata).names() == ["a", "b"]


def test_topics_that_come_go_grow_or_move_are_told_and_other_leaders_are_not() -> None:
    metadata = cache()
    told: list[int] = []
    metadata.on_topics_changed = lambda: told.append(metadata.topics_version)
    metadata.take_topics([topic("t", (1, 2))])
    metadata.take_topics([topic("t", (1, 2), leader=2)])
    assert told == [1]
    metadata.take_topics([topic("t", (1, 2), (1, 2))])
    metadata.take_topics([topic("t", (1, 2), (2, 3))])
    metadata.take_topics([topic("t", (1, 2), (2, 3), topic_id=UUID(int=9))])
    metadata.take_topics([], gone=["t"])
    metadata.take_topics([], gone=["t"])
    assert told == [1, 2, 3, 4, 5]


def test_a_view_follows_the_topic_and_the_brokers() -> None:
    metadata = cache("east", "west")
    metadata.take_topics([topic("t", (1,))])
    topics = CachedTopics(metadata)
    first = topics.by_name("t")
    assert topics.by_name("t") is first, "made once"
    metadata.take_topics([topic("t", (2,))])
    moved = topics.by_name("t")
    assert moved is not None
    assert moved.racks == (frozenset({"west"}),)
    there = metadata.image.brokers[2]
    metadata.take_brokers({2: replace(there, rack="north")}, controller_id=1, controller_epoch=1)
    renamed = topics.by_name("t")
    assert renamed is not None
    assert renamed.racks == (frozenset({"north"}),)


def test_a_broker_that_dies_stays_in_its_rack() -> None:
    metadata = cache("east", "west")
    metadata.take_topics([topic("t", (1, 2))])
    topics = CachedTopics(metadata)
    before = topics.by_name("t")
    metadata.take_brokers({1: metadata.image.brokers[1]}, controller_id=1, controller_epoch=1)
    assert topics.by_name("t") is before


def test_topics_are_all_known_when_the_internal_one_is_as_new_as_what_is_led_here() -> None:
    metadata = cache()
    led: dict[int, int] = {}
    topics = CachedTopics(metadata, lambda partition: led.get(partition.index))
    metadata.is_whole = True
    assert not topics.is_whole, "the internal topic was not told"
    metadata.take_topics([topic(GROUPS_TOPIC, (1,), (1,))])
    assert topics.is_whole
    led[1] = 1
    assert not topics.is_whole, "what was told is older than the leadership"
    led[1] = 0
    assert topics.is_whole
    metadata.is_whole = False
    assert not topics.is_whole, "a controller is telling what there is"
