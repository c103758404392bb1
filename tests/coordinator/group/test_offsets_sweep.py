"""A sweep goes through all offsets in slices, whatever happens between two of them."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tidelog.coordinator import CoordinatorRecord, Written
from tidelog.coordinator.group.offsets.keys import join_key, slot_of, tombstone, topic_of
from tidelog.coordinator.group.offsets.sweep import LOOKS_MAX, TOMBSTONES_BYTES_MAX, Judge, Place, sweep
from tidelog.coordinator.group.offsets.table import OffsetTable

GROUP = "g"


def table_of(**counts: int) -> OffsetTable:
    """So many offsets of each topic, in this order."""
    table = OffsetTable()
    for topic, count in counts.items():
        for index in range(count):
            commit(table, topic, index)
    return table


def commit(table: OffsetTable, topic: str, index: int) -> None:
    table.replay(join_key(GROUP.encode(), slot_of(topic, index)), b"?", Written(0))


def forget(table: OffsetTable, records: Iterable[CoordinatorRecord]) -> None:
    for key, value in records:
        table.replay(key, value, Written(0))


def judge_of(topic: bytes, stays: list[int]) -> Judge:
    """Offsets of one topic are gone; notes how many stay."""

    def at_end(_: str, kept: int) -> tuple[CoordinatorRecord, ...]:
        stays.append(kept)
        return ()

    return Judge(lambda _: lambda slot, _: topic_of(slot) == topic, at_end)


def test_what_goes_between_two_slices_hides_nothing_from_the_next() -> None:
    table, stays = table_of(stays=LOOKS_MAX, gone=300), list[int]()
    judge = judge_of(b"gone", stays)
    records, place = sweep(table, Place((GROUP,)), judge)
    assert place is not None
    forget(table, records)
    forget(table, [tombstone(GROUP.encode(), slot_of("stays", index)) for index in range(200)])
    commit(table, "stays", 9_999)
    records, place = sweep(table, place, judge)
    forget(table, records)
    assert place is None
    assert {topic_of(slot) for slot in table.values(GROUP)} == {b"stays"}
    assert stays == [LOOKS_MAX - 200 + 1] == [len(table.values(GROUP))]


def test_what_comes_and_goes_between_two_slices_is_no_error() -> None:
    table, stays = table_of(stays=LOOKS_MAX + 10), list[int]()
    _, place = sweep(table, Place((GROUP,)), judge_of(b"gone", stays))
    assert place is not None
    forget(table, [tombstone(GROUP.encode(), slot) for slot in tuple(table.values(GROUP))])
    assert sweep(table, place, judge_of(b"gone", stays)) == ((), None)
    assert stays == [0]


@pytest.mark.parametrize("topic", ["t", "t" * 20_000])
def test_a_slice_writes_no_more_than_is_good_for_a_batch_whatever_the_length_of_names(topic: str) -> None:
    table = table_of(**{topic: 30})
    records, place = sweep(table, Place((GROUP,)), judge_of(topic.encode(), []))
    size = sum(len(record.key) for record in records)
    assert size < TOMBSTONES_BYTES_MAX + len(records[0].key)
    assert (place is None) == (len(topic) == 1)
