"""What is known of the cluster, and that it never goes back."""

from __future__ import annotations

import dataclasses
from uuid import UUID

from tidelog.client.metadata import Leader, MetadataCache
from tidelog.model import BrokerEndpoint, ErrorCode, TopicPartition
from tidelog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

T0 = TopicPartition("t", 0)
ID, OTHER_ID = UUID(int=1), UUID(int=2)


def answer(
    leader: int, epoch: int, *, topic_id: UUID | None = ID, code: ErrorCode = ErrorCode.NONE
) -> MetadataResponse:
    partition = MetadataResponsePartition(
        error_code=ErrorCode.NONE, partition_index=0, leader_id=leader, leader_epoch=epoch, replica_nodes=(1, 2)
    )
    return MetadataResponse(
        brokers=tuple(MetadataResponseBroker(node_id=node, host=f"h{node}", port=9092) for node in (1, 2)),
        cluster_id="c",
        controller_id=1,
        topics=(
            MetadataResponseTopic(
                error_code=code, name="t", topic_id=topic_id, partitions=() if code else (partition,)
            ),
        ),
    )


def fed(*answers: MetadataResponse) -> MetadataCache:
    cache = MetadataCache()
    for now_ms, each in enumerate(answers):
        cache.update(each, now_ms)
    return cache


def test_leader_is_known_after_an_answer() -> None:
    cache = fed(answer(1, 4))
    assert cache.leader_of(T0) == Leader(1, 4)
    assert cache.brokers[2] == BrokerEndpoint(2, "h2", 9092)
    assert (cache.cluster_id, cache.controller_id, cache.updated_ms) == ("c", 1, 0)


def test_leader_epoch_never_goes_back() -> None:
    assert fed(answer(2, 5), answer(1, 4)).leader_of(T0) == Leader(2, 5)


def test_a_leader_whose_address_is_not_known_any_more_is_not_known_either() -> None:
    of_a_broker_that_was_away = dataclasses.replace(answer(1, 4), brokers=answer(1, 4).brokers[:1])
    cache = fed(answer(2, 5), of_a_broker_that_was_away)
    assert cache.leader_of(T0) is None
    cache.update(answer(2, 5), 2)
    assert cache.leader_of(T0) == Leader(2, 5)


def test_same_epoch_is_taken_because_isr_and_leader_may_have_changed_within_it() -> None:
    cache = fed(answer(2, 5), answer(-1, 5))
    assert cache.leader_of(T0) is None


def test_a_recreated_topic_starts_over_with_its_epochs() -> None:
    cache = fed(answer(2, 5), answer(1, 0, topic_id=OTHER_ID))
    assert cache.leader_of(T0) == Leader(1, 0)
    assert cache.topic_id("t") == OTHER_ID


def test_a_deleted_topic_is_forgotten_and_the_error_remembered() -> None:
    cache = fed(answer(2, 5), answer(0, 0, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert cache.topic("t") is None
    assert cache.error_of("t") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_broker_that_has_not_heard_of_a_topic_takes_no_epoch_back() -> None:
    unheard_of = answer(0, 0, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert fed(answer(2, 5), unheard_of, answer(1, 4)).leader_of(T0) == Leader(2, 5)
    assert fed(answer(2, 5), unheard_of, unheard_of, answer(1, 6)).leader_of(T0) == Leader(1, 6)
    assert fed(answer(2, 5), unheard_of, answer(1, 0, topic_id=OTHER_ID)).leader_of(T0) == Leader(1, 0)


def test_where_brokers_tell_no_ids_an_unheard_of_topic_starts_over() -> None:
    unheard_of = answer(0, 0, topic_id=None, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert fed(answer(2, 5, topic_id=None), unheard_of, answer(1, 4, topic_id=None)).leader_of(T0) == Leader(1, 4)


def test_a_topic_nobody_uses_any_more_leaves_no_epochs_behind() -> None:
    cache = fed(answer(2, 5), answer(0, 0, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    cache.retain_topics([])
    cache.update(answer(1, 4), 9)
    assert cache.leader_of(T0) == Leader(1, 4)


def test_an_answer_is_news_if_it_changes_what_is_known() -> None:
    cache = MetadataCache()
    assert cache.update(answer(1, 4), 0)
    assert not cache.update(answer(1, 4), 1)
    assert not cache.update(answer(2, 3), 2)
    assert cache.update(answer(2, 5), 3)
    assert cache.update(answer(2, 5, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), 4)


def test_a_topic_without_leader_for_the_moment_is_not_forgotten() -> None:
    cache = fed(answer(2, 5), answer(0, 0, code=ErrorCode.LEADER_NOT_AVAILABLE))
    assert cache.leader_of(T0) == Leader(2, 5)


def test_an_error_is_forgotten_when_the_topic_is_there() -> None:
    cache = fed(answer(0, 0, code=ErrorCode.LEADER_NOT_AVAILABLE), answer(1, 0))
    assert cache.error_of("t") is ErrorCode.NONE


def test_a_partition_beyond_the_topic_has_no_leader() -> None:
    assert fed(answer(1, 0)).leader_of(TopicPartition("t", 1)) is None
    assert fed(answer(1, 0)).leader_of(TopicPartition("t", -1)) is None


def test_leader_hint_moves_a_partition_without_a_metadata_request() -> None:
    cache = fed(answer(1, 4))
    assert cache.on_leader_hint(T0, Leader(9, 5), [BrokerEndpoint(9, "h9", 1)])
    assert cache.leader_of(T0) == Leader(9, 5)
    assert cache.brokers[9].host == "h9"


def test_leader_hint_of_an_old_epoch_or_unknown_broker_is_no_news() -> None:
    cache = fed(answer(1, 4))
    assert not cache.on_leader_hint(T0, Leader(2, 4), [])
    assert not cache.on_leader_hint(T0, Leader(9, 5), [])
    assert not cache.on_leader_hint(T0, Leader(-1, 5), [])
    assert cache.leader_of(T0) == Leader(1, 4)


def test_topics_nobody_uses_are_forgotten() -> None:
    cache = fed(answer(1, 4))
    cache.retain_topics(["other"])
    assert cache.topic("t") is None
