"""Transactions as readers see them: last stable offset and aborted lists."""

from __future__ import annotations

import pytest

from tests.storage.support import NOW, SMALL, append, flush, marker, new_disk, open_log, produced
from tidelog.records.control import MarkerType
from tidelog.simulation.disk_image import Loss
from tidelog.storage import AbortedTransaction, Origin, PartitionLog


def write(log: PartitionLog, producer_id: int, sequence: int = 0) -> int:
    batch = produced("v", producer_id=producer_id, sequence=sequence, transactional=True)
    return log.append_as_leader(batch, leader_epoch=0, now_ms=NOW).base_offset


def end(log: PartitionLog, producer_id: int, kind: MarkerType) -> int:
    return log.append_as_leader(
        marker(kind, producer_id=producer_id), leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR
    ).base_offset


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
