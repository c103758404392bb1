"""Compaction against a model: whatever is written, compacted and written again, readers and producers see the same log."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.storage.compacting import CONFIG, Bench, batch, marker
from tidelog.model import NO_OFFSET
from tidelog.records import Codec, MarkerType, Record
from tidelog.records.batch import BatchHeader
from tidelog.storage.producer_snapshot import NO_TRANSACTION

keys = st.sampled_from([b"a", b"b", b"a key that is too long to stand for itself"])
values = st.none() | st.sampled_from([b"1", b"22", b"x" * 100])
pairs = st.lists(st.tuples(keys, values), min_size=1, max_size=3)
producer_ids = st.integers(1, 2)


class CompactedLog(RuleBasedStateMachine):
    """Plain, idempotent and transactional producers write; segments are sealed; the compactor comes by at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench()
        self.now_ms = 10_000
        self.waiting: list[bytearray] = []
        self.written: dict[int, tuple[BatchHeader, Record]] = {}
        self.sequences: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        self.open: set[int] = set()

    @rule(found=pairs, codec=st.sampled_from([Codec.NONE, Codec.LZ4]))
    def write(self, found: list[tuple[bytes, bytes | None]], codec: Codec) -> None:
        self.waiting.append(batch(*found, timestamp_ms=self.now_ms, codec=codec))

    @rule(found=pairs, producer_id=producer_ids, is_transactional=st.booleans())
    def write_idempotently(
        self, found: list[tuple[bytes, bytes | None]], producer_id: int, is_transactional: bool
    ) -> None:
        is_transactional = is_transactional or producer_id in self.open
        sequence = self.sequences.get(producer_id, 0)
        producer = (producer_id, self.epochs.get(producer_id, 0), sequence)
        self.waiting.append(
            batch(*found, timestamp_ms=self.now_ms, producer=producer, is_transactional=is_transactional)
        )
        self.sequences[producer_id] = sequence + len(found)
        if is_transactional:
            self.open.add(producer_id)

    @rule(
        producer_id=producer_ids, marker_type=st.sampled_from([MarkerType.ABORT, MarkerType.COMMIT]), bump=st.booleans()
    )
    def end_transaction(self, producer_id: int, marker_type: MarkerType, bump: bool) -> None:
        if bump:
            self.epochs[producer_id] = self.epochs.get(producer_id, 0) + 1
            self.sequences[producer_id] = 0
        epoch = self.epochs.get(producer_id, 0)
        self.waiting.append(marker(marker_type, producer_id, epoch=epoch, timestamp_ms=self.now_ms))
        self.open.discard(producer_id)

    @rule(leader_epoch_bump=st.booleans())
    def seal(self, leader_epoch_bump: bool) -> None:
        self.seal_waiting(leader_epoch_bump=leader_epoch_bump)

    def seal_waiting(self, *, leader_epoch_bump: bool = False) -> None:
        if not self.waiting:
            return
        epoch = max((header.leader_epoch for header, _ in self.written.values()), default=0) + leader_epoch_bump
        before = self.bench.next_offset
        self.bench.add_segment(*self.waiting, leader_epoch=epoch)
        self.waiting = []
        for header, record in self.bench.records_with_headers():
            if record.offset >= before:
                self.written[record.offset] = (header, record)

    @rule(
        passed_ms=st.integers(0, 1_500), keys_max=st.integers(1, 8), segment_bytes=st.sampled_from([150, 400, 10_000])
    )
    def compact(self, passed_ms: int, keys_max: int, segment_bytes: int) -> None:
        self.now_ms += passed_ms
        self.seal_waiting()
        config = replace(CONFIG, segment_bytes=segment_bytes)
        if self.bench.assess(now_ms=self.now_ms, config=config) is not None:
            self.bench.compact(now_ms=self.now_ms, config=config, keys_max=keys_max)

    @rule(passed_ms=st.integers(0, 3_000))
    def compact_all(self, passed_ms: int) -> None:
        """From the start, with room for every key: then each key is there at most once."""
        self.now_ms += passed_ms
        self.seal_waiting()
        self.bench.first_dirty_offset = None
        if self.bench.assess(now_ms=self.now_ms) is None:
            return
        end = self.bench.compact(now_ms=self.now_ms).first_dirty_offset
        found = [record.key for record in self.bench.records() if record.offset < end]
        assert len(found) == len(set(found))

    @invariant()
    def records_are_those_written_in_their_places(self) -> None:
        offsets = []
        for header, record in self.bench.records_with_headers():
            original, written = self.written[record.offset]
            assert record == written
            assert (header.leader_epoch, header.base_offset, header.last_offset) == (
                original.leader_epoch,
                original.base_offset,
                original.last_offset,
            )
            offsets.append(record.offset)
        assert offsets == sorted(set(offsets))

    @invariant()
    def committed_state_is_that_of_the_whole_log(self) -> None:
        aborted = [(entry.producer_id, entry.first_offset, entry.last_offset) for entry in self.bench.aborted]
        assert _state(self.bench.records_with_headers(), aborted) == _state(list(self.written.values()), aborted)

    @invariant()
    def transactions_replayed_from_the_log_end_where_they_did(self) -> None:
        """A restart may have to find the aborted transactions in the log itself; no committed record may fall among them."""
        aborted = self.bench.replayed_aborted()
        assert _state(self.bench.records_with_headers(), aborted) == _state(
            list(self.written.values()),
            [(entry.producer_id, entry.first_offset, entry.last_offset) for entry in self.bench.aborted],
        )

    @invariant()
    def producers_are_found_as_they_were(self) -> None:
        replayed = {entry.producer_id: entry for entry in self.bench.replayed().to_snapshot()}
        for entry in self.bench.producers.to_snapshot():
            found = replayed[entry.producer_id]
            if entry.last_offset == NO_OFFSET:
                found = found._replace(last_sequence=-1, last_offset=-1, offset_delta=0)
            assert found == entry

    @invariant()
    def transactions_stay_decided(self) -> None:
        ongoing = {
            state.producer_id for state in self.bench.producers if state.transaction_first_offset != NO_TRANSACTION
        }
        replayed = self.bench.replayed()
        assert ongoing == {s.producer_id for s in replayed if s.transaction_first_offset != NO_TRANSACTION}


def _state(
    found: list[tuple[BatchHeader, Record]], aborted: list[tuple[int, int, int]]
) -> dict[bytes | None, bytes | None]:
    """The last committed value of each key; deleted keys are absent."""
    state: dict[bytes | None, bytes | None] = {}
    for header, record in found:
        if header.is_transactional and any(
            header.producer_id == producer_id and first <= record.offset <= last for producer_id, first, last in aborted
        ):
            continue
        if record.value is None:
            state.pop(record.key, None)
        else:
            state[record.key] = record.value
    return state


TestCompactedLog = pytest.mark.slow(CompactedLog.TestCase)
TestCompactedLog.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
