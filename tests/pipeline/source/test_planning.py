"""Ranges become tasks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.model import TopicPartition
from tidelog.pipeline.source.options import TaskLimits
from tidelog.pipeline.source.planning import OFFSETS_PER_TASK, Range, TaskRanges, plan, ranges_between

_RANGES = st.lists(st.integers(1, 500), min_size=1, max_size=30).map(
    lambda sizes: [Range(TopicPartition("t", at), 10 * at, 10 * at + size) for at, size in enumerate(sizes)]
)


def limits(*, low: int | None = None, high: int | None = None, offsets: int | None = None) -> TaskLimits:
    return TaskLimits(tasks_min=low, tasks_max=high, offsets_max=offsets)


def key(index: int) -> TopicPartition:
    return TopicPartition("t", index)


def offsets_of(tasks: list[TaskRanges]) -> list[tuple[TopicPartition, int]]:
    return sorted(
        (each.topic_partition, at) for task in tasks for each in task.ranges for at in range(each.start, each.end)
    )


def test_a_partition_without_a_start_is_new_and_read_from_the_beginning() -> None:
    assert ranges_between({key(0): 5}, {key(0): 7, key(1): 3}) == [Range(key(0), 5, 7), Range(key(1), 0, 3)]


def test_nothing_is_read_of_partitions_that_are_gone_cut_or_unchanged() -> None:
    assert ranges_between({key(0): 5, key(1): 5, key(2): 5}, {key(1): 5, key(2): 4}) == []


def test_many_partitions_share_as_many_tasks_as_there_are_cores() -> None:
    tasks = plan([Range(key(at), 0, 10) for at in range(50)], limits(), core_count=4)
    assert [task.size for task in tasks] == [130, 130, 120, 120]


def test_a_large_read_gets_more_tasks_than_cores() -> None:
    tasks = plan([Range(key(at), 0, OFFSETS_PER_TASK) for at in range(8)], limits(), core_count=2)
    assert len(tasks) == 8


def test_max_partitions_is_kept_however_large_the_read() -> None:
    tasks = plan([Range(key(at), 0, OFFSETS_PER_TASK) for at in range(8)], limits(high=3), core_count=2)
    assert len(tasks) == 3


def test_a_partition_is_not_divided_unless_asked() -> None:
    assert plan([Range(key(0), 0, 999)], limits(), core_count=8) == [TaskRanges((Range(key(0), 0, 999),))]


def test_min_partitions_divides_the_largest_first() -> None:
    tasks = plan([Range(key(0), 0, 90), Range(key(1), 0, 10)], limits(low=4), core_count=1)
    assert [task.ranges for task in tasks] == [
        (Range(key(0), 0, 30),),
        (Range(key(0), 30, 60),),
        (Range(key(0), 60, 90),),
        (Range(key(1), 0, 10),),
    ]


def test_more_min_partitions_than_offsets_give_a_task_for_each_offset() -> None:
    assert len(plan([Range(key(0), 0, 3)], limits(low=10), core_count=1)) == 3


@given(_RANGES, st.integers(1, 60), st.integers(1, 8))
def test_min_partitions_is_kept_where_there_are_so_many_offsets(ranges: list[Range], low: int, cores: int) -> None:
    tasks = plan(ranges, limits(low=low), core_count=cores)
    assert len(tasks) >= min(low, sum(each.size for each in ranges))
    assert offsets_of(tasks) == offsets_of([TaskRanges(tuple(ranges))])


@given(_RANGES, st.integers(1, 300), st.integers(1, 8))
def test_no_task_gets_more_than_max_records_per_partition(ranges: list[Range], most: int, cores: int) -> None:
    tasks = plan(ranges, limits(offsets=most), core_count=cores)
    assert max(task.size for task in tasks) <= most
    assert offsets_of(tasks) == offsets_of([TaskRanges(tuple(ranges))])


@given(_RANGES, st.integers(1, 8), st.randoms(use_true_random=False))
def test_the_same_ranges_make_the_same_tasks_in_whatever_order(ranges: list[Range], cores: int, chance: object) -> None:
    shuffled = list(ranges)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]  # Hypothesis gives a random.Random
    tasks = plan(ranges, limits(), core_count=cores)
    assert plan(shuffled, limits(), core_count=cores) == tasks
    assert all(task.ranges for task in tasks)
    assert offsets_of(tasks) == offsets_of([TaskRanges(tuple(ranges))])
