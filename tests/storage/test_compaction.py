"""Compaction by literal values."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from tests.storage.compacting import CONFIG, DIRECTORY, Bench, batch, bench_of, marker
from tidelog.model import TimestampType
from tidelog.records import Codec, CorruptBatch, MarkerType, read_header, read_records, stamp_append_time
from tidelog.storage.compaction import clean
from tidelog.storage.names import LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, file_name
from tidelog.storage.offset_index import OffsetIndex
from tidelog.storage.open_files import LazyFile, OpenFiles
from tidelog.storage.transaction_index import TransactionIndex


def headers_of(bench: Bench) -> list[tuple[int, int, int]]:
    return [(header.base_offset, header.last_offset, header.record_count) for header, _ in bench.batches()]


def test_only_the_last_record_of_a_key_remains_at_its_offset() -> None:
    bench = bench_of([batch((b"a", b"1"), (b"b", b"2"))], [batch((b"a", b"3")), batch((b"c", b"4"))])
    result = bench.compact()
    assert bench.pairs() == [(1, b"b", b"2"), (2, b"a", b"3"), (3, b"c", b"4")]
    assert headers_of(bench) == [(0, 1, 1), (2, 2, 1), (3, 3, 1)]
    assert (result.first_dirty_offset, result.records_before, result.records_after) == (4, 4, 3)


def test_batch_that_loses_nothing_keeps_its_bytes() -> None:
    data = batch((b"a", b"1"), (b"b", b"2"), codec=Codec.ZSTD)
    bench = bench_of([data], [batch((b"c", b"3"))])
    bench.compact()
    assert bench.batches()[0][1] == data


def test_batch_that_loses_all_goes() -> None:
    bench = bench_of([batch((b"a", b"1")), batch((b"b", b"2"))], [batch((b"a", b"3"))])
    bench.compact()
    assert headers_of(bench) == [(1, 1, 1), (2, 2, 1)]


def test_records_without_key_go() -> None:
    bench = bench_of([batch((None, b"1"), (b"a", b"2"))], [batch((None, b"3"))])
    bench.compact()
    assert bench.pairs() == [(1, b"a", b"2")]


def test_long_keys_are_told_apart_by_their_digest() -> None:
    one, two = b"k" * 100, b"k" * 99 + b"j"
    bench = bench_of([batch((one, b"1"), (two, b"2"))], [batch((one, b"3"))])
    bench.compact()
    assert bench.pairs() == [(1, two, b"2"), (2, one, b"3")]


@pytest.mark.parametrize("codec", Codec)
def test_rewritten_batch_keeps_codec_times_and_sequence(codec: Codec) -> None:
    data = batch((b"a", b"1"), (b"b", b"2"), (b"c", b"3"), producer=(7, 1, 40), codec=codec, timestamp_ms=500)
    bench = bench_of([data], [batch((b"a", b"x"), (b"c", b"y"), producer=(7, 1, 43))])
    bench.compact()
    header, kept = bench.batches()[0]
    assert header.codec is codec
    assert (header.base_sequence, header.last_offset_delta, header.record_count) == (40, 2, 1)
    assert [(r.offset, r.timestamp_ms, r.key) for r in read_records(kept, max_bytes=1000)] == [(1, 501, b"b")]
    assert header.max_timestamp == 501


def test_append_time_of_a_rewritten_batch_stays() -> None:
    data = batch((b"a", b"1"), (b"b", b"2"))
    stamp_append_time(data, 0, append_time_ms=9_000)
    bench = bench_of([data], [batch((b"a", b"3"))])
    bench.compact()
    header, kept = bench.batches()[0]
    assert (header.timestamp_type, header.max_timestamp) == (TimestampType.LOG_APPEND_TIME, 9_000)
    assert [record.timestamp_ms for record in read_records(kept, max_bytes=1000)] == [9_000]


def test_second_pass_judges_the_clean_part_by_new_keys() -> None:
    bench = bench_of([batch((b"a", b"1"))], [batch((b"b", b"2"))])
    bench.compact()
    bench.add_segment(batch((b"a", b"3")))
    bench.compact()
    assert bench.pairs() == [(1, b"b", b"2"), (2, b"a", b"3")]


def test_tombstone_removes_the_value_and_gets_a_horizon_first() -> None:
    bench = bench_of([batch((b"a", b"1"))], [batch((b"x", b"1"), (b"a", None), timestamp_ms=200)])
    bench.compact(now_ms=5_000)
    header, _ = bench.batches()[0]
    assert bench.pairs() == [(1, b"x", b"1"), (2, b"a", None)]
    assert header.has_delete_horizon
    assert (header.base_timestamp, header.max_timestamp) == (6_000, 201)
    assert [record.timestamp_ms for record in bench.records()] == [200, 201]


def test_tombstone_stays_until_its_horizon_and_goes_then() -> None:
    bench = bench_of([batch((b"x", b"1"), (b"a", None))])
    bench.compact(now_ms=5_000)
    bench.compact(now_ms=5_999)
    assert bench.pairs() == [(0, b"x", b"1"), (1, b"a", None)]
    assert bench.batches()[0][0].base_timestamp == 6_000
    bench.compact(now_ms=6_000)
    assert bench.pairs() == [(0, b"x", b"1")]


def test_batch_of_old_tombstones_goes_whole() -> None:
    bench = bench_of([batch((b"a", None))], [batch((b"x", b"1"))])
    bench.compact(now_ms=5_000)
    bench.compact(now_ms=6_000)
    assert headers_of(bench) == [(1, 1, 1)]


def test_aborted_records_go_at_once_and_shadow_nothing() -> None:
    bench = bench_of(
        [batch((b"a", b"1"))],
        [batch((b"a", b"2"), producer=(7, 0, 0), is_transactional=True), marker(MarkerType.ABORT, 7)],
        [batch((b"b", b"3"), producer=(7, 0, 1), is_transactional=True), marker(MarkerType.COMMIT, 7)],
    )
    bench.compact()
    assert bench.pairs() == [(0, b"a", b"1"), (3, b"b", b"3")]


def test_marker_outlives_its_transaction_by_the_delete_horizon() -> None:
    bench = bench_of(
        [batch((b"a", b"2"), producer=(7, 0, 0), is_transactional=True), marker(MarkerType.ABORT, 7)],
        [batch((b"b", b"3"), producer=(7, 0, 1), is_transactional=True), marker(MarkerType.COMMIT, 7)],
    )
    bench.compact(now_ms=5_000)
    assert [header.base_offset for header, _ in bench.batches()] == [1, 2, 3]
    abort, _ = bench.batches()[0]
    assert (abort.has_delete_horizon, abort.base_timestamp) == (True, 6_000)
    bench.compact(now_ms=5_999)
    assert [header.base_offset for header, _ in bench.batches()] == [1, 2, 3]
    bench.compact(now_ms=6_000)
    assert [header.base_offset for header, _ in bench.batches()] == [2, 3]


def test_marker_stays_as_long_as_a_batch_of_its_transaction() -> None:
    bench = bench_of(
        [batch((b"a", b"1"), producer=(7, 0, 0), is_transactional=True), marker(MarkerType.COMMIT, 7)],
        [batch((b"b", b"2"), producer=(7, 0, 1), is_transactional=True), marker(MarkerType.COMMIT, 7)],
    )
    for now_ms in (5_000, 10_000, 20_000):
        bench.compact(now_ms=now_ms)
    assert [header.base_offset for header, _ in bench.batches()] == [0, 1, 2, 3]
    assert not bench.batches()[1][0].has_delete_horizon


def test_last_batch_of_a_producer_is_kept_empty() -> None:
    bench = bench_of([batch((b"a", b"1"), (b"b", b"1"), producer=(7, 2, 10))], [batch((b"a", b"2"), (b"b", b"2"))])
    bench.compact()
    header, data = bench.batches()[0]
    assert len(data) == 61
    assert (header.base_offset, header.last_offset, header.record_count) == (0, 1, 0)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (7, 2, 10, 11)
    assert (header.base_timestamp, header.max_timestamp) == (-1, 101)
    assert bench.replayed().to_snapshot() == bench.producers.to_snapshot()


def test_emptied_batch_goes_when_its_producer_wrote_on() -> None:
    bench = bench_of([batch((b"a", b"1"), producer=(7, 0, 0))], [batch((b"a", b"2"))])
    bench.compact()
    bench.add_segment(batch((b"c", b"3"), producer=(7, 0, 1)))
    bench.compact()
    assert headers_of(bench) == [(1, 1, 1), (2, 2, 1)]


def test_newest_marker_of_a_producer_stays_for_its_epoch() -> None:
    bench = bench_of(
        [batch((b"a", b"1"), producer=(7, 0, 0), is_transactional=True), marker(MarkerType.ABORT, 7, epoch=1)],
        [batch((b"x", b"1"))],
    )
    for now_ms in (5_000, 10_000, 20_000):
        bench.compact(now_ms=now_ms)
    assert [header.base_offset for header, _ in bench.batches()] == [1, 2]
    assert bench.replayed().to_snapshot() == bench.producers.to_snapshot()


def test_emptied_batch_of_an_aborted_transaction_keeps_marker_and_index_entry() -> None:
    bench = bench_of(
        [batch((b"a", b"1"), producer=(7, 0, 0), is_transactional=True)],
        [marker(MarkerType.ABORT, 7), batch((b"x", b"1"))],
    )
    for now_ms in (5_000, 10_000):
        bench.compact(now_ms=now_ms)
    index = TransactionIndex(LazyFile(OpenFiles(bench.disk), f"{DIRECTORY}/{file_name(0, TRANSACTION_INDEX)}"))
    assert index.load(0, 3)
    assert list(index.entries) == bench.aborted
    assert headers_of(bench) == [(0, 0, 0), (1, 1, 1), (2, 2, 1)]


def test_nothing_from_the_last_stable_offset_on_is_touched() -> None:
    bench = bench_of(
        [batch((b"a", b"1"))],
        [batch((b"a", b"2"), producer=(7, 0, 0), is_transactional=True), batch((b"a", b"3"))],
        [batch((b"a", b"4"))],
    )
    result = bench.compact()
    assert result.first_dirty_offset == 1
    assert bench.pairs() == [(0, b"a", b"1"), (1, b"a", b"2"), (2, b"a", b"3"), (3, b"a", b"4")]


def test_full_map_ends_the_stretch_at_a_batch() -> None:
    bench = bench_of(
        [batch((b"a", b"1"), (b"b", b"1")), batch((b"c", b"1"))], [batch((b"a", b"2")), batch((b"d", b"1"))]
    )
    result = bench.compact(keys_max=3)
    assert result.first_dirty_offset == 3
    assert bench.pairs()[0] == (0, b"a", b"1")
    assert bench.compact(keys_max=3).first_dirty_offset == 5
    assert [offset for offset, _, _ in bench.pairs()] == [1, 2, 3, 4]


def test_batch_with_more_keys_than_the_map_is_taken_anyway() -> None:
    bench = bench_of([batch((b"a", b"1"), (b"b", b"1"), (b"a", b"2"))], [batch((b"b", b"2"))])
    assert bench.compact(keys_max=1).first_dirty_offset == 3
    assert bench.compact(keys_max=1).first_dirty_offset == 4
    assert [offset for offset, _, _ in bench.pairs()] == [2, 3]


def test_small_segments_become_one() -> None:
    bench = bench_of(*([batch((b"%d" % number, b"v"))] for number in range(4)))
    result = bench.compact()
    assert (result.cleaned, result.replaced) == ((0,), (0, 1, 2, 3))
    assert [offset for offset, _, _ in bench.pairs()] == [0, 1, 2, 3]


def test_segments_are_merged_up_to_the_segment_size() -> None:
    bench = bench_of(*([batch((b"%d" % number, b"v"))] for number in range(5)))
    size = len(bench.disk.read(f"{DIRECTORY}/{file_name(0, LOG)}"))
    result = bench.compact(config=replace(CONFIG, segment_bytes=2 * size))
    assert result.cleaned == (0, 2, 4)
    assert bench.segments == [0, 2, 4]


def test_segments_are_not_merged_beyond_what_their_indexes_hold() -> None:
    bench = bench_of(*([batch((b"%d%d" % (number, n), b"v" * 50)) for n in range(6)] for number in range(3)))
    entries = len(bench.disk.read(f"{DIRECTORY}/{file_name(0, OFFSET_INDEX)}"))
    assert bench.compact(config=replace(CONFIG, segment_index_bytes=2 * entries)).cleaned == (0, 12)


def test_segments_are_not_merged_beyond_relative_offsets() -> None:
    bench = bench_of([batch((b"a", b"v"))])
    bench.next_offset = (1 << 31) - 2
    bench.add_segment(batch((b"b", b"v")))
    bench.add_segment(batch((b"c", b"v")))
    bench.add_segment(batch((b"d", b"v")))
    assert bench.compact().cleaned == (0, (1 << 31) - 1)


def test_merged_segment_is_as_old_as_the_youngest_it_replaces() -> None:
    bench = bench_of([batch((b"a", b"v"))], [batch((b"b", b"v"))])
    bench.disk.set_mtime_ms(f"{DIRECTORY}/{file_name(0, LOG)}", 111)
    bench.disk.set_mtime_ms(f"{DIRECTORY}/{file_name(1, LOG)}", 222)
    bench.compact()
    assert bench.disk.mtime_ms(f"{DIRECTORY}/{file_name(0, LOG)}") == 222


def test_indexes_of_the_new_segment_fit_it() -> None:
    bench = bench_of(*([batch((b"%d%d" % (number, n), b"v" * 50)) for n in range(6)] for number in range(2)))
    bench.compact(config=replace(CONFIG, index_interval_bytes=64))
    data = bench.disk.read(f"{DIRECTORY}/{file_name(0, LOG)}")
    index = OffsetIndex(LazyFile(OpenFiles(bench.disk), f"{DIRECTORY}/{file_name(0, OFFSET_INDEX)}"), 0)
    assert index.load(len(data))
    assert len(index.entries) > 3
    for entry in index.entries:
        assert read_header(data, entry.position).last_offset == entry.relative_offset
    assert bench.disk.exists(f"{DIRECTORY}/{file_name(0, TIME_INDEX)}")


def test_segment_may_become_empty() -> None:
    bench = bench_of([batch((b"a", b"1"))], [batch((b"a", b"2"))])
    bench.compact(config=replace(CONFIG, segment_bytes=100))
    assert bench.disk.read(f"{DIRECTORY}/{file_name(0, LOG)}") == b""
    assert bench.segments == [0, 1]


def test_cleaning_changes_nothing_but_cleaned_files() -> None:
    bench = bench_of([batch((b"a", b"1"))], [batch((b"a", b"2"))])
    before = {name: bench.disk.read(f"{DIRECTORY}/{name}") for name in bench.disk.listdir(DIRECTORY)}
    clean(bench.disk, bench.plan())
    names = bench.disk.listdir(DIRECTORY)
    assert {name: bench.disk.read(f"{DIRECTORY}/{name}") for name in names if name in before} == before
    assert all(name.endswith(".cleaned") for name in names if name not in before)


def test_cleaning_again_after_a_failed_attempt_starts_over() -> None:
    bench = bench_of([batch((b"a", b"1"))], [batch((b"b", b"2"))])
    first = clean(bench.disk, bench.plan())
    assert clean(bench.disk, bench.plan()) == first
    bench.compact()
    assert [offset for offset, _, _ in bench.pairs()] == [0, 1]


def test_rot_is_not_blessed_with_a_new_checksum() -> None:
    bench = bench_of([batch((b"a", b"1"), (b"b", b"1"))], [batch((b"a", b"2"))])
    bench.disk.flip_bit(f"{DIRECTORY}/{file_name(0, LOG)}", position=70)
    with pytest.raises(CorruptBatch, match="checksum"):
        clean(bench.disk, bench.plan())


def test_plan_and_result_can_be_sent_to_a_child_process() -> None:
    bench = bench_of(
        [batch((b"a", b"1"), producer=(7, 0, 0), is_transactional=True), marker(MarkerType.ABORT, 7)],
        [batch((b"x", b"1"))],
    )
    plan = bench.plan()
    assert pickle.loads(pickle.dumps(plan)) == plan  # noqa: S301 (our own bytes)
    result = clean(bench.disk, plan)
    assert pickle.loads(pickle.dumps(result)) == result  # noqa: S301
