"""Loading: whatever a partition may hold reaches the machine, and what makes no sense keeps nothing else from it."""

from __future__ import annotations

import pytest

from tests.coordinator.counting import CountingMachine, MemoryLog, batch_of
from tidelog.coordinator.loading import Loading
from tidelog.coordinator.machine import Written
from tidelog.records import Codec, CorruptBatch, MarkerType, build_marker


def loaded(*batches: bytearray, start_offset: int = 0) -> tuple[CountingMachine, Loading]:
    log, machine = MemoryLog(), CountingMachine()
    for batch in batches:
        log.put(batch)
    loading = Loading(machine, start_offset)
    list(loading.replay(log.read(start_offset, max_bytes=1 << 20)))
    assert loading.next_offset == log.end_offset
    return machine, loading


def marker(marker_type: MarkerType, producer_id: int) -> bytearray:
    return build_marker(marker_type, producer_id=producer_id, producer_epoch=4, coordinator_epoch=1, timestamp_ms=0)


@pytest.mark.parametrize("codec", list(Codec))
def test_records_are_replayed_with_their_offsets_whatever_they_are_compressed_with(codec: Codec) -> None:
    machine, loading = loaded(batch_of(b"1", b"2", codec=codec), batch_of(b"3", codec=codec))
    assert [(record.value, written) for record, written in machine.seen] == [
        (b"1", Written(0)),
        (b"2", Written(1)),
        (b"3", Written(2)),
    ]
    assert (loading.record_count, loading.passed_over) == (3, 0)


def test_a_tombstone_is_replayed_as_one() -> None:
    machine, _ = loaded(batch_of(b"1", None))
    assert [record.value for record, _ in machine.seen] == [b"1", None]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_records_of_a_transaction_carry_its_producer_and_a_marker_decides(codec: Codec) -> None:
    machine, _ = loaded(
        batch_of(b"1", codec=codec, producer_id=7),
        batch_of(b"2", codec=codec, producer_id=8),
        marker(MarkerType.COMMIT, 7),
        marker(MarkerType.ABORT, 8),
    )
    assert [written for _, written in machine.seen] == [Written(0, 7, 4), Written(1, 8, 4)]
    assert machine.ended == [(7, True, 2), (8, False, 3)]


def test_a_record_that_makes_no_sense_is_passed_over_and_counted() -> None:
    machine, loading = loaded(
        batch_of(b"1"), batch_of(b"9", key=b"\0\0nonsense"), batch_of(b"9", key=None), batch_of(b"2")
    )
    assert machine.count == 3
    assert loading.passed_over == 2


def test_a_batch_that_does_not_decompress_stops_nothing_else() -> None:
    damaged = batch_of(b"7", codec=Codec.LZ4)
    damaged[61:] = bytes(len(damaged) - 61)
    machine, loading = loaded(batch_of(b"1"), damaged, batch_of(b"2"))
    assert (machine.count, loading.passed_over) == (3, 1)


def test_a_batch_whose_records_do_not_fill_it_stops_nothing_else() -> None:
    damaged = batch_of(b"7")
    damaged[57:61] = (9).to_bytes(4, "big")  # It claims nine records.
    machine, loading = loaded(batch_of(b"1"), damaged, batch_of(b"2"))
    assert loading.passed_over == 1
    assert machine.seen[-1][0].value == b"2"


def test_half_a_batch_is_left_for_the_next_read() -> None:
    log, machine = MemoryLog(), CountingMachine()
    log.put(batch_of(b"1"))
    log.put(batch_of(b"2"))
    data = log.read(0, max_bytes=1 << 20)
    loading = Loading(machine, 0)
    list(loading.replay(data[:-1]))
    assert (machine.count, loading.next_offset) == (1, 1)
    list(loading.replay(data))
    assert (machine.count, loading.next_offset) == (3, 2), "what was there already is not replayed twice"


def test_records_before_the_start_of_the_log_are_not_replayed() -> None:
    machine, _ = loaded(batch_of(b"1", b"2", b"4"), start_offset=1)
    assert machine.count == 6


def test_what_is_no_batch_at_all_is_said() -> None:
    loading = Loading(CountingMachine(), 0)
    with pytest.raises(CorruptBatch):
        list(loading.replay(bytes(100)))


def test_an_empty_batch_that_compaction_has_left_moves_on() -> None:
    empty = batch_of(b"1", b"2")[:61]
    empty[8:12] = (49).to_bytes(4, "big")
    empty[57:61] = bytes(4)
    machine, loading = loaded(batch_of(b"5"), empty, batch_of(b"6"))
    assert (machine.count, loading.next_offset, loading.passed_over) == (11, 4, 0)


def test_a_large_batch_is_interrupted_on_the_way() -> None:
    log, machine = MemoryLog(), CountingMachine()
    log.put(batch_of(*[b"1"] * 1_000))
    steps = Loading(machine, 0).replay(log.read(0, max_bytes=1 << 20))
    next(steps)
    assert 0 < machine.count < 1_000
    list(steps)
    assert machine.count == 1_000


@pytest.mark.parametrize("batch_size", [1, 50, 199])
def test_many_small_batches_are_interrupted_on_the_way(batch_size: int) -> None:
    log, machine = MemoryLog(), CountingMachine()
    for number in range(1_000):
        log.put(batch_of(*(b"%d" % (number * batch_size + it) for it in range(batch_size))))
    steps = Loading(machine, 0).replay(log.read(0, max_bytes=1 << 24))
    for _ in range(3):
        before = len(machine.seen)
        next(steps)
        assert 0 < len(machine.seen) - before <= 400
