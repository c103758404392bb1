"""Transactions as readers see them: last stable offset and aborted lists."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.storage.support import (
    NOW,
    SMALL,
    append,
    append_verified,
    batch,
    flush,
    marker,
    new_disk,
    open_log,
    produced,
)
from tidelog.model import ApiError, ErrorCode
from tidelog.records.batch import headers
from tidelog.records.control import MarkerType, read_marker
from tidelog.simulation.disk_image import Loss
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.storage import AbortedTransaction, Appended, Origin, PartitionLog, ProducerStates
from tidelog.storage.producer_state import FinishedTransaction


def write(log: PartitionLog, producer_id: int, sequence: int = 0) -> int:
    batch = produced("v", producer_id=producer_id, sequence=sequence, transactional=True)
    return append_verified(log, batch).base_offset


def end(log: PartitionLog, producer_id: int, kind: MarkerType) -> int:
    return log.append_as_leader(
        marker(kind, producer_id=producer_id), leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR
    ).base_offset


def tell_end(log: PartitionLog, producer_id: int, *, epoch: int) -> Appended:
    """A marker that has its epoch to itself."""
    sent = marker(MarkerType.ABORT, producer_id=producer_id, epoch=epoch)
    return log.append_marker(sent, leader_epoch=0, now_ms=NOW, has_own_epoch=True)


def batch_at(timestamp_ms: int, *, producer_id: int) -> bytearray:
    return batch(
        "v",
        timestamps=(timestamp_ms,),
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )


def refusal(log: PartitionLog, sent: bytearray) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        append_verified(log, sent)
    return refused.value.code


def test_without_transactions_the_last_stable_offset_is_the_high_watermark() -> None:
    log = open_log(new_disk())
    append(log, "a", "b")
    assert [log.last_stable_offset(watermark) for watermark in (0, 1, 2)] == [0, 1, 2]


def test_open_transaction_holds_back_everything_behind_it() -> None:
    log = open_log(new_disk())
    append(log, "a")
    write(log, 1)
    append(log, "b")
    assert log.last_stable_offset(3) == 1
    assert log.last_stable_offset(1) == 1


def test_decided_transaction_counts_once_its_marker_is_below_the_high_watermark() -> None:
    log = open_log(new_disk())
    write(log, 1)
    end(log, 1, MarkerType.COMMIT)
    assert log.last_stable_offset(1) == 0
    assert log.last_stable_offset(2) == 2


def test_oldest_of_several_transactions_decides() -> None:
    log = open_log(new_disk())
    for producer_id in (1, 2, 3):
        write(log, producer_id)
    end(log, 2, MarkerType.COMMIT)
    assert log.last_stable_offset(4) == 0
    end(log, 1, MarkerType.ABORT)
    assert log.last_stable_offset(4) == 0
    assert log.last_stable_offset(5) == 2
    end(log, 3, MarkerType.COMMIT)
    assert log.last_stable_offset(6) == 6


def test_marker_without_records_decides_nothing() -> None:
    log = open_log(new_disk())
    end(log, 1, MarkerType.ABORT)
    assert log.last_stable_offset(1) == 1
    assert log.aborted_transactions(0, 1) == []


@pytest.mark.parametrize("restart", ["none", "unclean", "clean", "index lost"])
def test_t16_aborted_transactions_of_a_range_are_listed_whatever_became_of_the_index(restart: str) -> None:
    disk = new_disk()
    log = open_log(disk, SMALL)
    write(log, 1)  # 0
    write(log, 2)  # 1
    end(log, 1, MarkerType.ABORT)  # 2
    append(log, "a")  # 3
    write(log, 3)  # 4
    end(log, 2, MarkerType.COMMIT)  # 5
    write(log, 1, sequence=1)  # 6
    end(log, 3, MarkerType.ABORT)  # 7
    end(log, 1, MarkerType.ABORT)  # 8
    assert len(log.segments) > 1
    if restart != "none":
        log.close()
    if restart == "index lost":
        for segment in log.segments:
            disk.unlink(segment.path(".txnindex"))
    if restart != "none":
        log = open_log(disk, SMALL, is_clean=restart != "unclean")
    first, second, third = AbortedTransaction(1, 0), AbortedTransaction(3, 4), AbortedTransaction(1, 6)
    assert log.aborted_transactions(0, 9) == [first, second, third]
    assert log.aborted_transactions(0, 4) == [first]
    assert log.aborted_transactions(3, 5) == [second]
    assert log.aborted_transactions(8, 9) == [third]
    assert log.aborted_transactions(9, 9) == []


def test_open_and_unreplicated_transactions_survive_a_restart() -> None:
    disk = new_disk()
    log = open_log(disk, SMALL)
    append(log, "a")
    write(log, 1)
    write(log, 2)
    end(log, 2, MarkerType.ABORT)
    disk.crash(lose=Loss.NOTHING)
    again = open_log(disk, SMALL)
    assert again.last_stable_offset(4) == 1
    end(again, 1, MarkerType.COMMIT)
    assert [again.last_stable_offset(watermark) for watermark in (3, 4, 5)] == [1, 1, 5]


def test_truncation_forgets_markers_and_brings_transactions_back() -> None:
    log = open_log(new_disk(), SMALL)
    write(log, 1)
    end(log, 1, MarkerType.ABORT)
    flush(log)
    log.truncate_to(1)
    assert log.aborted_transactions(0, 2) == []
    assert log.last_stable_offset(1) == 0
    end(log, 1, MarkerType.COMMIT)
    assert log.last_stable_offset(2) == 2


# Epochs of their own.


def test_a_restart_knows_that_a_marker_was_written_and_what_it_fences() -> None:
    disk = new_disk()
    log = open_log(disk, SMALL)
    write(log, 1)
    assert not tell_end(log, 1, epoch=1).is_duplicate
    for is_clean in (True, False):
        log.close()
        log = open_log(disk, SMALL, is_clean=is_clean)
        assert tell_end(log, 1, epoch=1).is_duplicate
        assert refusal(log, produced("late", producer_id=1, sequence=1, transactional=True)) is (
            ErrorCode.INVALID_PRODUCER_EPOCH
        )
    assert log.log_end_offset == 2


def test_a_follower_knows_a_marker_that_its_leader_is_told_again() -> None:
    leader, follower = open_log(new_disk()), open_log(new_disk())
    write(leader, 1)
    tell_end(leader, 1, epoch=1)
    follower.append_as_follower(leader.read(0, max_bytes=1 << 20, end_offset=2), now_ms=NOW)
    assert tell_end(follower, 1, epoch=1).is_duplicate


def test_t13_a_marker_that_was_cut_away_is_written_again() -> None:
    log = open_log(new_disk())
    write(log, 1)
    tell_end(log, 1, epoch=1)
    log.truncate_to(1)
    assert not tell_end(log, 1, epoch=1).is_duplicate
    assert log.last_stable_offset(2) == 2


def test_t06_the_last_epoch_of_all_fences_every_other() -> None:
    log = open_log(new_disk())
    append_verified(log, produced("v", producer_id=1, epoch=32_766, transactional=True))
    tell_end(log, 1, epoch=32_767)
    known = log.producers.get(1)
    assert known is not None
    assert (known.producer_epoch, known.has_open_transaction) == (32_767, False)
    assert refusal(log, produced("late", producer_id=1, epoch=32_766, sequence=1, transactional=True)) is (
        ErrorCode.INVALID_PRODUCER_EPOCH
    )


# Producers that come and go.


def test_t05_a_producer_known_by_a_marker_only_expires_by_the_time_of_the_marker() -> None:
    log = open_log(new_disk())
    tell_end(log, 1, epoch=5)
    day_ms = log.config.producer_id_expiration_ms
    assert log.expire_producers(NOW + day_ms - 1) == 0
    assert log.expire_producers(NOW + day_ms) == 1
    assert not tell_end(log, 1, epoch=5).is_duplicate


def test_t05_the_marker_begins_the_time_of_a_producer_anew() -> None:
    log = open_log(new_disk())
    day_ms = log.config.producer_id_expiration_ms
    append_verified(log, batch_at(NOW - day_ms, producer_id=1))
    assert log.expire_producers(NOW) == 0  # Its transaction is open.
    tell_end(log, 1, epoch=1)
    assert log.expire_producers(NOW) == 0
    assert log.expire_producers(NOW + day_ms) == 1


def test_a_transaction_whose_first_records_retention_took_ends_as_any_other() -> None:
    disk = new_disk()
    log = open_log(disk, SMALL)
    write(log, 1)
    while len(log.segments) < 3:
        append(log, "x" * 50)
    log.advance_log_start(log.segments[1].base_offset)
    assert log.delete_old_segments(NOW, log.log_end_offset) == 1
    for is_clean in (True, False):
        flush(log)
        log.close()
        log = open_log(
            disk, SMALL, is_clean=is_clean, log_start_offset=log.log_start_offset, recovery_point=log.recovery_point
        )
        assert log.last_stable_offset(log.log_end_offset) == log.log_start_offset
    offset = end(log, 1, MarkerType.ABORT)
    assert log.last_stable_offset(offset + 1) == offset + 1
    assert log.aborted_transactions(offset, offset + 1) == [AbortedTransaction(1, 0)]


# Against a log that is read from its beginning, again and again.


class Story:
    """Transactions of a few producers over many small segments, through restarts and truncations."""

    def __init__(self, seed: int) -> None:
        self.draw = SimulatedRandomness(seed)
        self.disk = new_disk()
        self.log = open_log(self.disk, SMALL)
        self.steps: tuple[Callable[[], None], ...] = (
            self.write,
            self.write,
            self.write,
            self.end,
            self.end,
            self.plain,
            self.restart,
            self.truncate,
        )

    def step(self) -> None:
        self.steps[self.draw.below(len(self.steps))]()

    def write(self) -> None:
        producer_id = self.draw.below(4)
        known = self.log.producers.get(producer_id)
        epoch = 0 if known is None else known.producer_epoch
        sequence = 0 if known is None else known.last_sequence + 1
        sent = produced("v", producer_id=producer_id, epoch=epoch, sequence=sequence, transactional=True)
        append_verified(self.log, sent)

    def end(self) -> None:
        producer_id, kind = self.draw.below(4), MarkerType(self.draw.below(2))
        known = self.log.producers.get(producer_id)
        epoch = (0 if known is None else known.producer_epoch) + self.draw.below(2)
        sent = marker(kind, producer_id=producer_id, epoch=epoch)
        self.log.append_as_leader(sent, leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR)

    def plain(self) -> None:
        append(self.log, "plain")

    def restart(self) -> None:
        if self.draw.below(2):
            flush(self.log)
        is_clean = bool(self.draw.below(2))
        recovery_point = self.log.recovery_point
        self.log.close()
        if self.draw.below(3) == 0:
            doomed = self.log.segments[self.draw.below(len(self.log.segments))]
            if self.disk.exists(doomed.path(".txnindex")):
                self.disk.unlink(doomed.path(".txnindex"))
        self.log = open_log(self.disk, SMALL, is_clean=is_clean, recovery_point=recovery_point)

    def truncate(self) -> None:
        if self.draw.below(3) == 0 and self.log.log_end_offset:
            self.log.truncate_to(self.log.log_end_offset - self.draw.below(min(self.log.log_end_offset, 6)))

    def check(self) -> None:
        log, producers, finished = self.log, ProducerStates(), list[FinishedTransaction]()
        offset = 0
        while offset < log.log_end_offset:
            data = log.read(offset, max_bytes=1 << 20, end_offset=log.log_end_offset)
            for position, header in headers(data):
                marker = read_marker(data[position : position + header.size]) if header.is_control else None
                done = producers.apply(header, marker)
                finished += [] if done is None else [done]
                offset = header.next_offset
        assert sorted(log.producers.to_snapshot()) == sorted(producers.to_snapshot())
        stable = log.last_stable_offset(log.log_end_offset)
        first_open = producers.first_ongoing_offset()
        assert stable == (log.log_end_offset if first_open is None else first_open)
        if stable == 0:
            return
        start = self.draw.below(stable)
        stop = start + 1 + self.draw.below(stable - start)
        needed = [
            done for done in finished if done.is_aborted and done.first_offset < stop and done.last_offset >= start
        ]
        wanted = [AbortedTransaction(done.producer_id, done.first_offset) for done in needed]
        assert sorted(log.aborted_transactions(start, stop)) == sorted(wanted)


@pytest.mark.parametrize("seed", range(25))
def test_t16_what_a_log_knows_of_transactions_is_what_reading_it_from_its_beginning_says(seed: int) -> None:
    story = Story(seed)
    for _ in range(60):
        story.step()
        story.check()
