"""The leader epoch cache as a table of cases, and against the plain definition."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.support import CONFIG, append, batch, flush, new_disk, open_log
from tidelog.storage.checkpoints import EpochStart
from tidelog.storage.epoch_cache import LeaderEpochCache


def cache(*entries: tuple[int, int]) -> LeaderEpochCache:
    return LeaderEpochCache(EpochStart(*entry) for entry in entries)


@pytest.mark.parametrize(
    ("before", "epoch", "offset", "after"),
    [
        ((), 0, 0, ((0, 0),)),
        (((0, 0),), 0, 5, ((0, 0),)),
        (((0, 5),), 0, 3, ((0, 3),)),
        (((0, 0),), 2, 5, ((0, 0), (2, 5))),
        (((0, 0), (2, 5)), 3, 5, ((0, 0), (3, 5))),
        (((0, 0), (2, 5)), 3, 4, ((0, 0), (3, 4))),
        (((0, 0), (2, 5), (4, 9)), 3, 20, ((0, 0), (2, 5), (3, 20))),
        (((0, 0),), -1, 3, ((0, 0),)),
        (((1, 0), (2, 5)), 1, 3, ((1, 3),)),
    ],
)
def test_assign_removes_what_contradicts_it(
    before: tuple[tuple[int, int], ...], epoch: int, offset: int, after: tuple[tuple[int, int], ...]
) -> None:
    subject = cache(*before)
    assert subject.assign(epoch, offset) == (before != after)
    assert subject.entries == after
    assert subject.latest == (after[-1][0] if after else -1)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(-1, (-1, -1)), (0, (0, 10)), (1, (1, 20)), (2, (2, 40)), (3, (2, 40)), (4, (2, 40)), (5, (5, 99)), (6, (-1, -1))],
)
def test_end_offset_for_each_epoch(asked: int, answer: tuple[int, int]) -> None:
    subject = cache((1, 10), (2, 20), (5, 40))
    assert subject.end_offset_for(asked, 99) == answer


def test_empty_cache_knows_no_epoch() -> None:
    assert cache().end_offset_for(0, 5) == (-1, -1)


@pytest.mark.parametrize(
    ("end", "left"), [(0, ()), (10, ()), (11, ((1, 10),)), (20, ((1, 10),)), (50, ((1, 10), (2, 20), (5, 40)))]
)
def test_truncate_from_end_forgets_epochs_that_begin_there(end: int, left: tuple[tuple[int, int], ...]) -> None:
    subject = cache((1, 10), (2, 20), (5, 40))
    assert subject.truncate_from_end(end) == (len(left) != 3)
    assert subject.entries == left


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (5, ((0, 10), (2, 20), (5, 40))),
        (10, ((0, 10), (2, 20), (5, 40))),
        (15, ((0, 15), (2, 20), (5, 40))),
        (20, ((2, 20), (5, 40))),
        (99, ((5, 99),)),
    ],
)
def test_truncate_from_start_rebases_the_epoch_that_covers_it(start: int, left: tuple[tuple[int, int], ...]) -> None:
    subject = cache((0, 10), (2, 20), (5, 40))
    subject.truncate_from_start(start)
    assert subject.entries == left
    assert not subject.truncate_from_start(start)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 40)), max_size=20), st.integers(0, 9))
def test_epochs_and_offsets_only_grow(assignments: list[tuple[int, int]], asked: int) -> None:
    subject = cache(*assignments)
    entries = subject.entries
    assert list(entries) == sorted(set(entries))
    assert all(before.start_offset < after.start_offset for before, after in pairwise(entries))
    later = [entry for entry in entries if entry.leader_epoch > asked]
    answer = subject.end_offset_for(asked, 100)
    if not entries or asked > subject.latest:
        assert answer == (-1, -1)
    else:
        assert answer.end_offset == (later[0].start_offset if later else 100)


def test_r09_truncating_at_the_log_end_removes_an_epoch_without_records() -> None:
    log = open_log(new_disk())
    append(log, "a", leader_epoch=0)
    log.assign_leader_epoch(3)
    assert log.latest_leader_epoch == 3
    assert not log.truncate_to(1)
    assert (log.latest_leader_epoch, log.end_offset_for_epoch(0)) == (0, (0, 1))


def test_r09_epoch_cache_after_restart_is_the_one_rebuilt_from_the_log() -> None:
    disk = new_disk()
    log = open_log(disk)
    for epoch in (0, 0, 2, 2, 7):
        append(log, "v", leader_epoch=epoch)
    log.assign_leader_epoch(9)
    flush(log)
    disk.crash()
    kept = open_log(disk, recovery_point=5)._epochs.entries  # noqa: SLF001
    disk.unlink("/data/t-0/leader-epoch-checkpoint")
    disk.crash()
    assert open_log(disk, recovery_point=5)._epochs.entries == kept == ((0, 0), (2, 2), (7, 4))  # noqa: SLF001


def test_r09_stale_epoch_file_after_a_truncation_gives_way_to_the_batches() -> None:
    disk = new_disk()
    log = open_log(disk)
    for epoch in (5, 5, 7):
        append(log, "v", leader_epoch=epoch)
    flush(log)
    log.truncate_to(1)
    older = batch("from the new leader, written in an epoch before ours")
    log.append_as_leader(older, leader_epoch=6, now_ms=0)
    disk.crash(seed=1)
    recovered = open_log(disk, CONFIG, recovery_point=3)
    assert recovered._epochs.entries in (((5, 0),), ((5, 0), (6, 1)))  # noqa: SLF001
