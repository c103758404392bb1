"""Which log is compacted, and how far."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidelog.config import LogConfig
from tidelog.model import TopicPartition
from tidelog.storage.compaction_plan import (
    Assessment,
    LogFacts,
    SegmentFacts,
    assess,
    choose,
    plan_compaction,
)

CONFIG = LogConfig(cleanup_policy=("compact",))
NOW = 1_000_000


def facts(*, config: LogConfig = CONFIG, last_stable_offset: int = 35, log_start_offset: int = 0) -> LogFacts:
    """Three sealed segments of 10 offsets and 100 bytes, aged 3, 2 and 1 seconds, and an active one."""
    ages = [3_000, 2_000, 1_000, 0]
    return LogFacts(
        topic_partition=TopicPartition("t", 0),
        directory="/data/t-0",
        config=config,
        segments=tuple(SegmentFacts(10 * n, 100, NOW - age, NOW - age - 500) for n, age in enumerate(ages)),
        log_start_offset=log_start_offset,
        last_stable_offset=last_stable_offset,
    )


def assessed(found: LogFacts, *, checkpoint: int | None = None) -> Assessment:
    assessment = assess(found, checkpoint=checkpoint, now_ms=NOW)
    assert assessment is not None
    return assessment


def test_whole_log_but_the_active_segment_is_dirty_at_first() -> None:
    found = assessed(facts())
    assert (found.first_dirty_offset, found.end_offset, found.clean_bytes, found.dirty_bytes) == (0, 30, 0, 300)
    assert found.dirty_ratio == 1.0


def test_what_lies_before_the_checkpoint_is_clean() -> None:
    found = assessed(facts(), checkpoint=20)
    assert (found.first_dirty_offset, found.clean_bytes, found.dirty_bytes) == (20, 200, 100)
    assert found.dirty_ratio == pytest.approx(1 / 3)
    assert not found.is_due


def test_segment_that_holds_the_checkpoint_counts_as_dirty() -> None:
    assert assessed(facts(), checkpoint=15).dirty_bytes == 200


@pytest.mark.parametrize("checkpoint", [4, 31, 1_000])
def test_checkpoint_outside_of_the_log_is_forgotten(checkpoint: int) -> None:
    assert assessed(facts(log_start_offset=5), checkpoint=checkpoint).first_dirty_offset == 5


def test_open_transaction_bounds_the_range() -> None:
    assert assessed(facts(last_stable_offset=17)).end_offset == 17


def test_nothing_to_do_when_all_is_clean() -> None:
    assert assess(facts(), checkpoint=30, now_ms=NOW) is None
    assert assess(facts(last_stable_offset=10), checkpoint=10, now_ms=NOW) is None


def test_young_segments_wait_for_the_lag() -> None:
    assert assessed(facts(config=replace(CONFIG, min_compaction_lag_ms=1_500))).end_offset == 20
    assert assess(facts(config=replace(CONFIG, min_compaction_lag_ms=10_000)), checkpoint=None, now_ms=NOW) is None


def test_lag_ends_exactly_after_its_time() -> None:
    assert assessed(facts(config=replace(CONFIG, min_compaction_lag_ms=1_000))).end_offset == 30


def test_log_that_is_only_deleted_is_not_compacted() -> None:
    assert assess(facts(config=LogConfig(cleanup_policy=("delete",))), checkpoint=None, now_ms=NOW) is None


def test_log_of_one_segment_is_not_compacted() -> None:
    single = replace(facts(), segments=facts().segments[-1:])
    assert assess(single, checkpoint=None, now_ms=NOW) is None


def test_overdue_log_is_compacted_whatever_its_ratio() -> None:
    config = replace(CONFIG, max_compaction_lag_ms=1_499, min_cleanable_dirty_ratio=0.9)
    assert assessed(facts(config=config), checkpoint=20).is_due
    patient = replace(config, max_compaction_lag_ms=1_500)
    assert not assessed(facts(config=patient), checkpoint=20).is_due


def test_ratio_must_be_exceeded_not_met() -> None:
    assert not assessed(facts(config=replace(CONFIG, min_cleanable_dirty_ratio=1.0))).is_due
    assert assessed(facts(config=replace(CONFIG, min_cleanable_dirty_ratio=0.99))).is_due


def test_dirtiest_log_is_chosen_among_those_that_are_due() -> None:
    mild, dirty, idle = (assessed(facts(), checkpoint=10), assessed(facts()), assessed(facts(), checkpoint=20))
    assert choose([mild, dirty, idle]) is dirty
    assert choose([idle]) is None
    assert choose([]) is None


def test_plan_names_the_sealed_segments_below_the_end() -> None:
    plan = plan_compaction(assessed(facts(last_stable_offset=17)), keys_max=5, now_ms=NOW)
    assert (plan.segments, plan.first_dirty_offset, plan.end_offset) == ((0, 10), 0, 17)
    assert (plan.directory, plan.keys_max, plan.now_ms) == ("/data/t-0", 5, NOW)
