"""Counting visible records by headers and indexes gives what a reader of committed records gets, whatever the log went through."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.storage.compacting import batch
from tests.storage.support import NOW, SMALL, append, append_verified, flush, marker, new_disk, open_log, produced
from tidelog.client.aborted import AbortedFilter, AbortedTransaction
from tidelog.model import ApiError, ErrorCode
from tidelog.records import MarkerType, headers, read_marker, read_records
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage import Origin, PartitionLog, visible
from tidelog.storage.compaction import clean
from tidelog.storage.compaction_facts import compaction_facts
from tidelog.storage.compaction_plan import assess, plan_compaction
from tidelog.storage.visible import VisibleCounting

COMPACTED = replace(SMALL, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0, delete_retention_ms=0)


def count(log: PartitionLog, start: int, end: int | None = None) -> VisibleCounting:
    """All steps; no end is the last stable offset of a log whose records are all committed."""
    counting = VisibleCounting(start, log.last_stable_offset(log.log_end_offset) if end is None else end)
    while not counting.is_done:
        log.count_visible(counting)
    return counting


def read(log: PartitionLog, start: int, end: int) -> list[int]:
    """The offsets that a read_committed consumer hands out."""
    start = max(start, log.log_start_offset)
    if start >= end:
        return []
    aborted = log.aborted_transactions(start, end)
    filtering = AbortedFilter(AbortedTransaction(one.producer_id, one.first_offset) for one in aborted)
    offsets = []
    position = start
    while position < end and (data := log.read(position, max_bytes=1 << 20, end_offset=end)):
        for at, header in headers(data):
            position = header.next_offset
            whole = data[at : at + header.size]
            if header.is_control:
                if header.record_count:
                    is_abort = read_marker(whole).type is MarkerType.ABORT
                    filtering.on_marker(
                        producer_id=header.producer_id, last_offset=header.last_offset, is_abort=is_abort
                    )
            elif not filtering.is_aborted(
                producer_id=header.producer_id,
                last_offset=header.last_offset,
                is_transactional=header.is_transactional,
            ):
                offsets += [record.offset for record in read_records(whole, max_bytes=1 << 20)]
    return [offset for offset in offsets if start <= offset < end]


def end_transaction(log: PartitionLog, kind: MarkerType, producer_id: int) -> None:
    sent = marker(kind, producer_id=producer_id)
    log.append_as_leader(sent, leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR)


def compact(disk: SimulatedDisk, log: PartitionLog, high_watermark: int) -> bool:
    flush(log)
    facts = compaction_facts(log, last_stable_offset=log.last_stable_offset(high_watermark))
    assessment = assess(facts, checkpoint=None, now_ms=NOW + 10_000)
    if assessment is None:
        return False
    result = clean(disk, plan_compaction(assessment, keys_max=100, now_ms=NOW + 10_000))
    log.replace_segments(cleaned=result.cleaned, replaced=result.replaced, now_ms=NOW)
    return True


class CountedLog(RuleBasedStateMachine):
    """Plain and transactional producers write; segments roll, go, are compacted and cut; the high watermark moves."""

    @initialize()
    def begin(self) -> None:
        self.disk = new_disk()
        self.log = open_log(self.disk, COMPACTED)
        self.sequences: dict[int, int] = {}
        self.high_watermark = 0

    keys = st.lists(st.sampled_from([b"a", b"b", b"c"]), min_size=1, max_size=4)
    producers = st.integers(1, 3)

    @rule(found=keys)
    def write(self, found: list[bytes]) -> None:
        self.log.append_as_leader(batch(*[(key, b"v") for key in found]), leader_epoch=0, now_ms=NOW)

    @rule(found=keys, producer_id=producers)
    def write_in_transaction(self, found: list[bytes], producer_id: int) -> None:
        sequence = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = sequence + len(found)
        pairs = [(key, b"v") for key in found]
        append_verified(self.log, batch(*pairs, producer=(producer_id, 0, sequence), is_transactional=True))

    @rule(producer_id=producers, kind=st.sampled_from([MarkerType.COMMIT, MarkerType.ABORT]))
    def end(self, producer_id: int, kind: MarkerType) -> None:
        end_transaction(self.log, kind, producer_id)

    @rule(share=st.floats(0, 1))
    def advance(self, share: float) -> None:
        """To the boundary of a batch, as followers do."""
        wanted = self.high_watermark + round(share * (self.log.log_end_offset - self.high_watermark))
        data = self.log.read(self.high_watermark, max_bytes=1 << 20, end_offset=self.log.log_end_offset)
        for _, header in headers(data):
            if header.next_offset <= wanted:
                self.high_watermark = max(self.high_watermark, header.next_offset)

    @rule()
    def compact(self) -> None:
        compact(self.disk, self.log, self.high_watermark)

    @rule(share=st.floats(0, 1))
    @precondition(lambda self: self.high_watermark > self.log.log_start_offset)
    def delete_records(self, share: float) -> None:
        start = self.log.log_start_offset
        self.log.advance_log_start(start + round(share * (self.high_watermark - start)))

    @rule()
    def cut(self) -> None:
        """As a follower that another leader tells to; it leads again afterwards."""
        self.log.truncate_to(self.high_watermark, now_ms=NOW)
        self.sequences = {
            known.producer_id: 0 if known.last_sequence < 0 else known.last_sequence + 1 for known in self.log.producers
        }

    @rule()
    def lose_what_was_committed(self) -> None:
        """An unclean election: transactions that were decided may be open again."""
        self.high_watermark = max(self.log.log_start_offset, self.high_watermark // 2)
        self.cut()
        self.high_watermark = min(self.high_watermark, self.log.log_end_offset)

    @invariant()
    def counts_what_a_reader_gets(self) -> None:
        end = self.log.last_stable_offset(self.high_watermark)
        for start in range(self.log.log_start_offset, end + 1):
            counted, expected = count(self.log, start, end), len(read(self.log, start, end))
            if counted.is_exact:
                assert counted.count == expected
            else:
                assert counted.count >= expected, "of records that may be there none is left out"


TestCountedLog = pytest.mark.slow(CountedLog.TestCase)
CountedLog.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


@pytest.fixture
def log() -> PartitionLog:
    return open_log(new_disk(), SMALL)


def transaction(log: PartitionLog, producer_id: int, *values: str, sequence: int = 0) -> None:
    append_verified(log, produced(*values, producer_id=producer_id, sequence=sequence, transactional=True))


def test_markers_and_aborted_records_are_not_counted(log: PartitionLog) -> None:
    append(log, "a", "b")  # 0, 1
    transaction(log, 1, "c", "d")  # 2, 3
    end_transaction(log, MarkerType.COMMIT, 1)  # 4
    transaction(log, 2, "e")  # 5
    end_transaction(log, MarkerType.ABORT, 2)  # 6
    append(log, "f")  # 7
    assert [count(log, start).count for start in range(9)] == [5, 4, 3, 2, 1, 1, 1, 1, 0]
    assert count(log, 0).is_exact


def test_an_open_transaction_ends_what_is_counted(log: PartitionLog) -> None:
    append(log, "a")
    transaction(log, 1, "b")
    append(log, "c")
    assert count(log, 0).count == 1
    end_transaction(log, MarkerType.COMMIT, 1)
    assert count(log, 0).count == 3


def test_transactions_that_overlap_are_told_apart(log: PartitionLog) -> None:
    transaction(log, 1, "a")
    transaction(log, 2, "b")
    transaction(log, 1, "c", sequence=1)
    end_transaction(log, MarkerType.ABORT, 1)
    transaction(log, 1, "d", sequence=2)
    end_transaction(log, MarkerType.COMMIT, 2)
    end_transaction(log, MarkerType.COMMIT, 1)
    assert count(log, 0).count == 2


def test_what_lies_before_the_log_is_not_counted(log: PartitionLog) -> None:
    append(log, "a", "b", "c")
    log.advance_log_start(2)
    assert count(log, 0).count == 1


def test_an_offset_in_a_batch_with_gaps_is_counted_as_if_there_were_none_and_said_so() -> None:
    disk = new_disk()
    log = open_log(disk, COMPACTED)
    log.append_as_leader(batch((b"a", b"1"), (b"b", b"1"), (b"c", b"1")), leader_epoch=0, now_ms=NOW)
    for _ in range(4):
        log.append_as_leader(batch((b"b", b"2" * 200)), leader_epoch=0, now_ms=NOW)
    assert compact(disk, log, log.log_end_offset)
    assert (count(log, 0, 3).count, count(log, 0, 3).is_exact) == (2, True)
    assert (count(log, 1, 3).count, count(log, 1, 3).is_exact) == (2, False)
    assert (count(log, 2, 3).count, count(log, 2, 3).is_exact) == (1, False)


def test_a_segment_is_counted_once(log: PartitionLog) -> None:
    for _ in range(40):
        append(log, "a", "b", "c")
    assert len(log.segments) > 5
    first, second = count(log, 0), count(log, 0)
    assert (first.count, second.count) == (120, 120)
    assert first.work > 40
    assert second.work == len(log.segments)
    append(log, "d")
    third = count(log, 0)
    assert (third.count, third.work - second.work) == (121, 2), "of the last segment only what is new"


def test_a_step_looks_at_few_batches_and_the_next_goes_on_where_it_ended() -> None:
    log = open_log(new_disk())
    for _ in range(2 * visible.BATCHES_PER_STEP + 1):
        append(log, "a", "b")
    counting = VisibleCounting(1, log.log_end_offset)
    steps = 0
    while not counting.is_done:
        before = counting.work
        log.count_visible(counting)
        steps += 1
        assert counting.work - before <= visible.BATCHES_PER_STEP + 1
    assert (steps, counting.count) == (3, 4 * visible.BATCHES_PER_STEP + 1)


def test_large_and_small_batches_are_walked_over_alike() -> None:
    log = open_log(new_disk())
    expected = 0
    for number in range(60):
        sent = ["x" * (9_000 if number % 7 < 3 else 10)] * (1 + number % 3)
        append(log, *sent)
        expected += len(sent)
    assert log.size_bytes > 200_000
    assert [count(log, 0).count, count(log, expected - 1).count] == [expected, 1]


def test_a_long_list_of_aborted_transactions_is_read_in_steps() -> None:
    """One that stays open keeps all others in the list of who begins to read at it."""
    log = open_log(new_disk())
    transaction(log, 1, "a")
    aborted = visible.ENTRIES_PER_STEP + 10
    for number in range(aborted):
        transaction(log, 2, "b", sequence=number)
        end_transaction(log, MarkerType.ABORT, 2)
    end_transaction(log, MarkerType.COMMIT, 1)
    counting = VisibleCounting(0, log.last_stable_offset(log.log_end_offset))
    while not counting.is_done:
        before = counting.work
        log.count_visible(counting)
        assert counting.work - before <= visible.BATCHES_PER_STEP + visible.ENTRIES_PER_STEP + 1
    assert counting.count == 1
    assert counting.work < 4 * aborted, "every entry is read once"


def test_a_log_that_is_cut_meanwhile_is_not_counted_further() -> None:
    log = open_log(new_disk())
    for _ in range(visible.BATCHES_PER_STEP + 1):
        append(log, "a")
    counting = VisibleCounting(0, log.log_end_offset)
    log.count_visible(counting)
    log.truncate_to(3, now_ms=NOW)
    with pytest.raises(ApiError) as refused:
        log.count_visible(counting)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_what_was_counted_is_forgotten_when_a_marker_is_cut_away(log: PartitionLog) -> None:
    """After an unclean election a transaction that was aborted may be committed, though its records stayed."""
    transaction(log, 1, "a", "b")
    for _ in range(10):
        append(log, "c")
    marker_offset = log.log_end_offset
    end_transaction(log, MarkerType.ABORT, 1)
    assert len(log.segments) > 1
    assert count(log, 0).count == 10
    log.truncate_to(marker_offset, now_ms=NOW)
    end_transaction(log, MarkerType.COMMIT, 1)
    assert count(log, 0).count == 12
