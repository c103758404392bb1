"""KIP-227: what a session remembers, and when it is given up."""

from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.broker.fetch_sessions import (
    PARTITIONS_MAX,
    FetchPartition,
    FetchSession,
    FetchSessionCache,
    PartitionNews,
)
from tidelog.broker.session_terms import PartitionKey
from tidelog.model import ApiError, ErrorCode


def wanted(index: int, *, fetch_offset: int = 0, topic_id: UUID | None = None) -> FetchPartition:
    return FetchPartition(
        key=PartitionKey("t", topic_id, index),
        fetch_offset=fetch_offset,
        max_bytes=1 << 20,
        current_leader_epoch=-1,
        last_fetched_epoch=-1,
        log_start_offset=-1,
    )


def news(partition: FetchPartition, *, records: bool = False, error: bool = False, hw: int = 0) -> PartitionNews:
    return PartitionNews(partition, records, error, hw, 0)


def session_over(count: int, *, slots: int = 10) -> tuple[FetchSessionCache, FetchSession]:
    cache = FetchSessionCache(slots_max=slots)
    session = cache.create(7, [wanted(index) for index in range(count)], uses_topic_ids=False, now_ms=0)
    assert session is not None
    return cache, session


def test_epochs_count_up_and_any_other_epoch_is_refused() -> None:
    cache, _ = session_over(1)
    cache.resume(7, 1, uses_topic_ids=False, now_ms=1)
    cache.resume(7, 2, uses_topic_ids=False, now_ms=2)
    with pytest.raises(ApiError) as repeated:
        cache.resume(7, 2, uses_topic_ids=False, now_ms=3)
    assert repeated.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_the_epoch_after_the_largest_is_one() -> None:
    cache, session = session_over(1)
    session.epoch = 2**31 - 1
    assert cache.resume(7, 2**31 - 1, uses_topic_ids=False, now_ms=1).epoch == 1


def test_an_unknown_session_and_a_change_of_naming_are_refused() -> None:
    cache, _ = session_over(1)
    with pytest.raises(ApiError) as unknown:
        cache.resume(8, 1, uses_topic_ids=False, now_ms=1)
    with pytest.raises(ApiError) as renamed:
        cache.resume(7, 1, uses_topic_ids=True, now_ms=1)
    assert unknown.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert renamed.value.code is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_partition_is_told_again_only_when_something_moved() -> None:
    _, session = session_over(1)
    (partition,) = session.partitions.values()
    assert session.select([news(partition)]) == [True]
    assert session.select([news(partition)]) == [False]
    assert session.select([news(partition, hw=1)]) == [True]
    assert session.select([news(partition, hw=1, records=True)]) == [True]
    assert session.select([news(partition, hw=1)]) == [False]


def test_an_error_is_told_and_so_is_its_end() -> None:
    _, session = session_over(1)
    (partition,) = session.partitions.values()
    session.select([news(partition)])
    assert session.select([news(partition, error=True)]) == [True]
    assert session.select([news(partition)]) == [True]
    assert session.select([news(partition)]) == [False]


def test_a_partition_that_gave_records_goes_to_the_back_of_the_queue() -> None:
    _, session = session_over(3)
    first = next(iter(session.partitions.values()))
    session.select([news(first, records=True)])
    assert [key.index for key in session.partitions] == [1, 2, 0]


def test_merging_changes_adds_and_forgets_without_losing_what_was_told() -> None:
    _, session = session_over(2)
    kept = session.partitions[PartitionKey("t", None, 0)]
    session.select([news(kept, hw=9)])
    session.merge([wanted(0, fetch_offset=5), wanted(2)], [PartitionKey("t", None, 1)])
    assert [key.index for key in session.partitions] == [0, 2]
    assert (kept.fetch_offset, kept.told_high_watermark) == (5, 9)


def test_a_full_cache_turns_newcomers_away_until_somebody_is_idle() -> None:
    cache, _ = session_over(5, slots=1)
    assert cache.create(8, [wanted(0)], uses_topic_ids=False, now_ms=1000) is None
    assert cache.create(8, [wanted(0)], uses_topic_ids=False, now_ms=120_001) is not None
    assert len(cache) == 1


def test_a_larger_session_takes_the_place_of_a_smaller_one_that_had_its_time() -> None:
    cache, session = session_over(1, slots=1)
    session.used_ms = 119_000
    large = [wanted(index) for index in range(9)]
    assert cache.create(8, large, uses_topic_ids=False, now_ms=119_500) is None
    session.used_ms = 120_000
    assert cache.create(8, large, uses_topic_ids=False, now_ms=120_001) is not None


def test_all_sessions_together_remember_a_bounded_number_of_partitions() -> None:
    cache = FetchSessionCache(slots_max=1000)
    each = PARTITIONS_MAX // 4
    granted = [
        cache.create(number, [wanted(index) for index in range(each)], uses_topic_ids=False, now_ms=0)
        for number in range(1, 7)
    ]
    assert [session is not None for session in granted] == [True] * 4 + [False] * 2
    assert cache.create(100, [wanted(0)], uses_topic_ids=False, now_ms=0) is not None, "a small one always fits"


def test_a_session_that_grows_until_all_are_too_large_is_given_up() -> None:
    cache, session = session_over(1)
    session.merge((wanted(index) for index in range(PARTITIONS_MAX + 1)), ())
    with pytest.raises(ApiError) as refused:
        cache.check_room(session)
    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(cache) == 0
