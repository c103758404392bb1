"""What a log remembers of its producers: sequences, epochs, retries, snapshots."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.support import (
    CONFIG,
    NOW,
    SMALL,
    append,
    append_verified,
    flush,
    marker,
    new_disk,
    open_log,
    produced,
)
from tidelog.config import LogConfig
from tidelog.model import ApiError, ErrorCode
from tidelog.records.control import MarkerType
from tidelog.runtime import DiskFull
from tidelog.simulation.disk_image import Loss
from tidelog.storage import Opening, Origin, PartitionLog, snapshots
from tidelog.storage.producer_snapshot import DamagedSnapshot, SnapshotEntry, decode_snapshot, encode_snapshot
from tidelog.storage.producer_state import ProducerStates

SEQUENCE_MAX = (1 << 31) - 1


def send(
    log: PartitionLog, *values: str, sequence: int, epoch: int = 0, origin: Origin = Origin.CLIENT
) -> tuple[int, bool]:
    appended = log.append_as_leader(
        produced(*values, sequence=sequence, epoch=epoch), leader_epoch=0, now_ms=NOW, origin=origin
    )
    return appended.base_offset, appended.is_duplicate


def refusal(log: PartitionLog, *, sequence: int, epoch: int = 0, origin: Origin = Origin.CLIENT) -> ErrorCode:
    before = (log.log_end_offset, log.producers.to_snapshot())
    with pytest.raises(ApiError) as caught:
        send(log, "v", sequence=sequence, epoch=epoch, origin=origin)
    assert (log.log_end_offset, log.producers.to_snapshot()) == before
    return caught.value.code


def test_t01_retry_of_each_of_the_last_five_batches_gets_its_first_offset() -> None:
    log = open_log(new_disk())
    for sequence in range(7):
        assert send(log, "v", sequence=sequence) == (sequence, False)
    for sequence in range(2, 7):
        assert send(log, "v", sequence=sequence) == (sequence, True)
    assert log.log_end_offset == 7


def test_retry_older_than_five_batches_is_out_of_order() -> None:
    log = open_log(new_disk())
    for sequence in range(6):
        send(log, "v", sequence=sequence)
    assert refusal(log, sequence=0) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_retry_with_other_bounds_is_no_duplicate() -> None:
    log = open_log(new_disk())
    send(log, "a", "b", sequence=0)
    assert refusal(log, sequence=0) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(log, sequence=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_t02_gap_in_the_sequence_is_refused_and_nothing_written() -> None:
    log = open_log(new_disk())
    send(log, *"0123456789", sequence=0)
    assert refusal(log, sequence=11) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, "v", sequence=10) == (10, False)


def test_t03_follower_and_restart_know_the_retry() -> None:
    leader, disk = open_log(new_disk()), new_disk()
    send(leader, "a", "b", sequence=0)
    follower = open_log(disk)
    follower.append_as_follower(leader.read(0, max_bytes=1000, end_offset=2), now_ms=NOW)
    assert send(follower, "a", "b", sequence=0) == (0, True)
    disk.crash(lose=Loss.NOTHING)
    assert send(open_log(disk), "a", "b", sequence=0) == (0, True)


def test_t03_retry_is_known_from_the_snapshot_after_its_segment_is_gone() -> None:
    disk = new_disk()
    log = open_log(disk, SMALL)
    send(log, "a", sequence=0)
    while len(log.segments) < 3:
        append(log, "filler")
    log.advance_log_start(log.segments[2].base_offset)
    assert log.delete_old_segments(NOW, high_watermark=log.log_end_offset) == 2
    log.close()
    again = open_log(disk, SMALL, is_clean=True, log_start_offset=log.log_start_offset)
    assert send(again, "a", sequence=0) == (0, True)


@pytest.mark.parametrize("is_clean", [True, False], ids=["after a clean shutdown", "after a kill"])
@pytest.mark.parametrize("config", [CONFIG, SMALL], ids=["in one segment", "over several segments"])
def test_t03_a_restart_knows_the_retry_of_each_batch_under_way(config: LogConfig, *, is_clean: bool) -> None:
    disk = new_disk()
    log = open_log(disk, config)
    for sequence in range(7):
        send(log, "v", sequence=sequence)
        append(log, "of somebody else")
    assert len(log.segments) == (3 if config is SMALL else 1)
    if is_clean:
        log.close()
    disk.crash(lose=Loss.NOTHING)
    again = open_log(disk, config, is_clean=is_clean)
    for sequence in range(2, 7):
        assert send(again, "v", sequence=sequence) == (2 * sequence, True)
    assert refusal(again, sequence=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(again, "v", sequence=7) == (14, False)


@pytest.mark.parametrize(
    ("limit", "value"), [("RECALLED_BYTES", 2 * len(produced("v"))), ("RECALLED_BATCHES", 2)], ids=["bytes", "batches"]
)
def test_a_restarted_log_looks_back_only_so_far(monkeypatch: pytest.MonkeyPatch, limit: str, value: int) -> None:
    disk = new_disk()
    log = open_log(disk, SMALL)
    for sequence in range(7):
        send(log, "v", sequence=sequence)
    log.close()
    monkeypatch.setattr(snapshots, "RECALLED_PIECE", 1)
    monkeypatch.setattr(snapshots, limit, value)
    again = open_log(disk, SMALL, is_clean=True)
    assert send(again, "v", sequence=4) == (4, True)
    assert [batch.base_sequence for state in again.producers for batch in state.batches] == [4, 5, 6]


def test_a_restart_recalls_nothing_of_an_earlier_epoch() -> None:
    disk = new_disk()
    log = open_log(disk)
    for sequence in range(3):
        send(log, "v", sequence=sequence)
    for sequence in range(2):
        send(log, "v", sequence=sequence, epoch=1)
    log.close()
    again = open_log(disk, is_clean=True)
    assert send(again, "v", sequence=0, epoch=1) == (3, True)
    assert [batch.last_offset for state in again.producers for batch in state.batches] == [3, 4]


def test_a_restart_reads_nothing_for_a_producer_that_goes_on() -> None:
    disk = new_disk()
    log = open_log(disk)
    for sequence in range(3):
        send(log, "v", sequence=sequence)
    log.close()
    again = open_log(disk, is_clean=True)
    assert send(again, "v", sequence=3) == (3, False)
    assert [batch.last_offset for state in again.producers for batch in state.batches] == [2, 3]
    assert send(again, "v", sequence=1) == (1, True)


def test_t04_failed_write_leaves_no_trace_in_the_state() -> None:
    disk = new_disk()
    log = open_log(disk)
    send(log, "a", sequence=0)
    disk.fill_up(after_bytes=5)
    with pytest.raises(DiskFull):
        send(log, "b", sequence=1)
    disk.free_up()
    known = log.producers.get(9)
    assert known is not None
    assert (known.last_sequence, known.last_offset) == (0, 0)
    log.close()
    assert decode_snapshot(disk.read(f"/data/t-0/{1:020d}.snapshot"))[0].last_offset == 0
    assert send(open_log(disk, is_clean=True), "b", sequence=1) == (1, False)


def test_t05_expired_producer_is_accepted_with_any_sequence() -> None:
    log = open_log(new_disk())
    send(log, "a", sequence=0)
    assert log.expire_producers(NOW + 86_399_999) == 0
    assert log.expire_producers(NOW + 86_400_000) == 1
    assert send(log, "b", sequence=77) == (1, False)


def test_t05_producer_with_an_open_transaction_does_not_expire() -> None:
    log = open_log(new_disk())
    append_verified(log, produced("a", transactional=True), leader_epoch=0, now_ms=NOW)
    assert log.expire_producers(NOW * 2) == 0


def test_t05_producers_expire_when_a_snapshot_is_loaded() -> None:
    disk = new_disk()
    log = open_log(disk)
    send(log, "a", sequence=0)
    log.close()
    late = PartitionLog.open(
        disk, log.directory, log.topic_partition, log.config, now_ms=NOW * 2, opening=Opening(is_clean=True)
    )
    assert len(late.producers) == 0


def test_t06_sequence_wraps_to_zero() -> None:
    log = open_log(new_disk())
    send(log, "a", "b", sequence=SEQUENCE_MAX - 1)
    assert refusal(log, sequence=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, "c", sequence=0) == (2, False)
    assert send(log, "a", "b", sequence=SEQUENCE_MAX - 1) == (0, True)


def test_t06_batch_across_the_wrap_is_remembered() -> None:
    disk = new_disk()
    log = open_log(disk)
    send(log, "a", "b", "c", sequence=SEQUENCE_MAX - 1)
    assert send(log, "a", "b", "c", sequence=SEQUENCE_MAX - 1) == (0, True)
    log.close()
    again = open_log(disk, is_clean=True)
    assert send(again, "a", "b", "c", sequence=SEQUENCE_MAX - 1) == (0, True)
    assert send(again, "d", sequence=1) == (3, False)


def test_older_epoch_is_fenced() -> None:
    log = open_log(new_disk())
    send(log, "a", sequence=0, epoch=3)
    assert refusal(log, sequence=1, epoch=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(log, sequence=0, epoch=2, origin=Origin.COORDINATOR) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_new_epoch_begins_at_sequence_zero() -> None:
    log = open_log(new_disk())
    send(log, "a", sequence=0, epoch=3)
    assert refusal(log, sequence=1, epoch=4) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, "b", sequence=0, epoch=4) == (1, False)


def test_unknown_producer_may_begin_anywhere() -> None:
    assert send(open_log(new_disk()), "a", sequence=500) == (0, False)


def test_producer_known_by_a_marker_only_begins_at_zero() -> None:
    log = open_log(new_disk())
    log.append_as_leader(marker(MarkerType.COMMIT, epoch=2), leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR)
    assert refusal(log, sequence=5, epoch=2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, "a", sequence=0, epoch=2) == (1, False)


def test_coordinator_writes_without_sequence() -> None:
    log = open_log(new_disk())
    assert send(log, "a", sequence=4, origin=Origin.COORDINATOR) == (0, False)
    assert send(log, "a", sequence=4, origin=Origin.COORDINATOR) == (1, False)


def test_plain_batch_inside_an_open_transaction_is_refused() -> None:
    log = open_log(new_disk())
    append_verified(log, produced("a", transactional=True), leader_epoch=0, now_ms=NOW)
    assert refusal(log, sequence=1) is ErrorCode.INVALID_TXN_STATE


def test_a_batch_of_a_later_epoch_does_not_become_part_of_a_transaction_that_is_open() -> None:
    """A marker that a power cut took would else be replaced by the one of the next transaction, whatever that says."""
    log = open_log(new_disk())
    append_verified(log, produced("of the former", transactional=True))
    before = (log.log_end_offset, log.producers.to_snapshot())
    later = produced("of the next", epoch=1, transactional=True)
    with pytest.raises(ApiError) as caught:
        append_verified(log, later)
    assert caught.value.code is ErrorCode.INVALID_TXN_STATE
    assert (log.log_end_offset, log.producers.to_snapshot()) == before
    # Whoever is refused aborts, and the marker of that ends the former one as well.
    log.append_marker(marker(MarkerType.ABORT, epoch=2), leader_epoch=0, now_ms=NOW, has_own_epoch=True)
    assert append_verified(log, produced("again", epoch=2, transactional=True)).base_offset == 2
    assert [one.first_offset for one in log.aborted_transactions(0, 3)] == [0]


@pytest.mark.parametrize(
    ("epoch", "coordinator_epoch", "code"),
    [(0, 5, ErrorCode.INVALID_PRODUCER_EPOCH), (1, 4, ErrorCode.TRANSACTION_COORDINATOR_FENCED)],
)
def test_marker_of_an_older_producer_or_coordinator_is_fenced(
    epoch: int, coordinator_epoch: int, code: ErrorCode
) -> None:
    log = open_log(new_disk())
    first = marker(MarkerType.COMMIT, epoch=1, coordinator_epoch=5)
    log.append_as_leader(first, leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR)
    late = marker(MarkerType.COMMIT, epoch=epoch, coordinator_epoch=coordinator_epoch)
    with pytest.raises(ApiError) as caught:
        log.append_as_leader(late, leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR)
    assert caught.value.code is code


def test_damaged_snapshot_is_passed_over_for_an_older_one() -> None:
    disk = new_disk()
    log = open_log(disk, SMALL)
    for sequence in range(9):
        send(log, "v", sequence=sequence)
    log.close()
    disk.flip_bit(f"/data/t-0/{9:020d}.snapshot", position=12)
    again = open_log(disk, SMALL, is_clean=True)
    assert send(again, "v", sequence=8) == (8, True)
    assert send(again, "v", sequence=9) == (9, False)


def test_truncation_takes_producers_back_to_the_offset() -> None:
    log = open_log(new_disk(), SMALL)
    for sequence in range(12):
        send(log, "v", sequence=sequence)
    flush(log)
    log.truncate_to(7)
    assert send(log, "v", sequence=6) == (6, True)
    assert refusal(log, sequence=11) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, "v", sequence=7) == (7, False)


def test_snapshot_has_kafkas_bytes() -> None:
    entry = SnapshotEntry(
        producer_id=1,
        producer_epoch=2,
        last_sequence=3,
        last_offset=4,
        offset_delta=5,
        timestamp_ms=6,
        coordinator_epoch=7,
        transaction_first_offset=-1,
    )
    content = encode_snapshot([entry])
    assert content.hex() == (
        "0001" + content[2:6].hex() + "00000001" + "0000000000000001" + "0002" + "00000003" + "0000000000000004"
        "00000005" + "0000000000000006" + "00000007" + "ffffffffffffffff"
    )
    assert decode_snapshot(content) == [entry]


@given(st.binary(max_size=120))
def test_any_bytes_are_a_snapshot_or_damaged(content: bytes) -> None:
    try:
        decode_snapshot(content)
    except DamagedSnapshot:
        return


_ENTRIES = st.builds(
    SnapshotEntry,
    producer_id=st.integers(0, 1 << 40),
    producer_epoch=st.integers(0, 32767),
    last_sequence=st.integers(0, SEQUENCE_MAX),
    last_offset=st.integers(0, 1 << 50),
    offset_delta=st.integers(0, 1000),
    timestamp_ms=st.integers(0, 1 << 45),
    coordinator_epoch=st.integers(-1, 1000),
    transaction_first_offset=st.one_of(st.just(-1), st.integers(0, 1 << 50)),
)


@given(st.lists(_ENTRIES, unique_by=lambda entry: entry.producer_id, max_size=20))
def test_snapshot_of_a_loaded_snapshot_is_the_same(entries: list[SnapshotEntry]) -> None:
    loaded = ProducerStates(decode_snapshot(encode_snapshot(entries)))
    assert loaded.to_snapshot() == entries
