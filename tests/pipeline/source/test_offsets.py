"""What the checkpoint of a query says."""

from __future__ import annotations

import json
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tidelog.model import TopicPartition
from tidelog.pipeline.source.offsets import (
    Whose,
    count_between,
    limited,
    made_anew,
    positions_in,
    start_of,
    topic_ids_in,
    written,
    written_end,
    written_initial,
)

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
ONE, OTHER = (Whose(cluster_id="c", topic_ids={"a": UUID(int=number), "b": UUID(int=9)}) for number in (1, 2))


def from_checkpoint(offset: dict[str, object]) -> dict[str, object]:
    decoded: dict[str, object] = json.loads(json.dumps(offset))
    return decoded


def test_offsets_are_written_as_by_sparks_own_source_in_one_order() -> None:
    positions = {TopicPartition("t", 10): 1, TopicPartition("t", 2): 5, TopicPartition("a", 0): 7}
    assert json.dumps(written(positions)) == '{"a": {"0": 7}, "t": {"2": 5, "10": 1}}'
    assert positions_in(written(positions)) == positions


def test_the_first_micro_batch_done_again_begins_where_it_began_though_latest_has_moved() -> None:
    end = from_checkpoint(written_end(written_initial({A: 5}), {A: 9}, {A: 5}))
    assert positions_in(end) == {A: 9}
    assert start_of(written_initial({A: 50}), end) == {A: 5}


def test_the_first_micro_batch_done_again_begins_where_it_began_though_there_was_nothing() -> None:
    end = from_checkpoint(written_end(written_initial({}), {A: 9}, {}))
    assert start_of(written_initial({A: 50}), end) == {}


def test_a_query_that_begins_writes_that_down_though_nothing_is_there() -> None:
    initial = written_initial({A: 5})
    assert written_end(initial, {A: 5}, {A: 5}) != initial


def test_where_nothing_is_new_the_end_is_the_start_to_the_letter() -> None:
    first_end = from_checkpoint(written_end(written_initial({A: 5}), {A: 9}, {A: 5}))
    assert json.dumps(written_end(first_end, {A: 9}, {A: 9})) == json.dumps(first_end)


def test_a_micro_batch_without_data_after_the_first_reads_nothing_again() -> None:
    first_end = from_checkpoint(written_end(written_initial({A: 5}), {A: 9}, {A: 5}))
    assert start_of(first_end, first_end) == {A: 9}


def test_later_ends_are_positions_alone() -> None:
    first_end = from_checkpoint(written_end(written_initial({A: 5}), {A: 9}, {A: 5}))
    assert written_end(first_end, {A: 12}, {A: 9}) == {"a": {"0": 12}}


def test_ids_go_with_positions_about_their_topics_alone() -> None:
    end = from_checkpoint(written_end(written({A: 1}), {A: 5}, {A: 1}, ONE))
    assert json.dumps(end) == '{"a": {"0": 5}, "@topics": {"a": "AAAAAAAAAAAAAAAAAAAAAQ"}, "@cluster": "c"}'
    assert positions_in(end) == {A: 5}
    assert topic_ids_in(end) == {"a": UUID(int=1)}


def test_a_topic_made_anew_is_read_from_its_beginning_however_long_it_is() -> None:
    start = from_checkpoint(written_end(written({}), {A: 5, B: 5}, {}, ONE))
    end = written_end(start, {A: 9, B: 9}, {B: 5}, OTHER)
    assert made_anew(start, end) == {"a"}
    assert start_of(start, end) == {B: 5}


def test_a_topic_made_anew_of_the_same_length_is_news() -> None:
    start = from_checkpoint(written_end(written({}), {A: 5}, {}, ONE))
    end = written_end(start, {A: 5}, {}, OTHER)
    assert end != start
    assert start_of(start, end) == {}


def test_topics_of_another_cluster_are_others() -> None:
    start = from_checkpoint(written_end(written({}), {A: 5}, {}, ONE))
    assert made_anew(start, written_end(start, {A: 5}, {}, Whose(cluster_id="d"))) == {"a"}


def test_a_checkpoint_without_ids_goes_on_and_is_not_written_anew_for_their_sake() -> None:
    start = from_checkpoint({**written({A: 5})})
    assert written_end(start, {A: 5}, {A: 5}, ONE) == start
    assert start_of(start, written_end(start, {A: 9}, {A: 5}, ONE)) == {A: 5}


def test_the_first_micro_batch_begins_where_it_began_though_its_topic_was_made_anew_since() -> None:
    end = from_checkpoint(written_end(written_initial({A: 5}, ONE), {A: 9}, {A: 5}, ONE))
    assert start_of(written_initial({A: 50}, OTHER), end) == {A: 5}


def test_each_partition_gets_its_share() -> None:
    assert limited({A: 0, B: 100}, {A: 900, B: 200}, 100) == {A: 89, B: 110}


def test_no_partition_starves() -> None:
    assert limited({A: 0, B: 0}, {A: 1_000_000, B: 1}, 10) == {A: 9, B: 1}


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 10**6)), min_size=1, max_size=20), st.integers(1, 10**6))
def test_a_limit_is_kept_moves_on_and_never_passes_the_end(rows: list[tuple[int, int]], most: int) -> None:
    start = {TopicPartition("t", at): begin for at, (begin, _) in enumerate(rows)}
    end = {TopicPartition("t", at): begin + size for at, (begin, size) in enumerate(rows)}
    found = limited(start, end, most)
    assert all(start[key] <= found[key] <= end[key] for key in end)
    assert count_between(start, found) <= max(most, len(rows))
    assert (count_between(start, found) > 0) == (count_between(start, end) > 0)
