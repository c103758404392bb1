"""The model of offsets over a real log: batches, markers, the cleaner and loading are those of a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.coordinator.group.offset_room import LogDriver, OffsetRoom
from tests.coordinator.group.test_offsets_model import OffsetsModel
from tests.storage.support import NOW, marker, new_disk, open_log
from tests.storage.test_visible import COMPACTED, compact
from tidelog.coordinator import CoordinatorRecord, Machine
from tidelog.coordinator.loading import Loading
from tidelog.model import ErrorCode, ProducerIdentity
from tidelog.records import Codec, MarkerType, RecordBatchBuilder
from tidelog.storage import Origin

A, B = ("orders", 0), ("orders", 1)


class DiskDriver(LogDriver):
    """Writes to a log with small segments whatever is written, and loads from there."""

    def __init__(self, make: Callable[[], Machine]) -> None:
        self.disk = new_disk()
        self.real = open_log(self.disk, COMPACTED)
        super().__init__(make)

    def write(self, record: CoordinatorRecord, producer: ProducerIdentity | None = None) -> None:
        super().write(record, producer)
        producer_id, producer_epoch = producer or (-1, -1)
        builder = RecordBatchBuilder(
            codec=Codec.LZ4 if len(self.log) % 3 == 0 else Codec.NONE,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=-1 if producer is None else 0,
            is_transactional=producer is not None,
        )
        builder.append(timestamp_ms=NOW, key=record.key, value=record.value)
        self._put(builder.build())

    def end(self, producer_id: int, *, is_committed: bool) -> None:
        super().end(producer_id, is_committed=is_committed)
        kind = MarkerType.COMMIT if is_committed else MarkerType.ABORT
        self._put(marker(kind, producer_id=producer_id))

    def compact(self) -> None:
        """Twice, so that what may go goes: the first time tombstones and markers only get their time."""
        compact(self.disk, self.real, self.real.log_end_offset)
        compact(self.disk, self.real, self.real.log_end_offset)
        self.fail_over()

    def _put(self, batch: bytearray) -> None:
        self.real.append_as_leader(batch, leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR)
        assert self.real.log_end_offset == len(self.log)

    def _replay(self, offsets: Iterable[int]) -> None:
        loading = Loading(self.machine, self.real.log_start_offset)
        while data := self.real.read(loading.next_offset, max_bytes=500, end_offset=self.real.log_end_offset):
            list(loading.replay(data))
        assert loading.passed_over == 0


class OffsetsOnDisk(OffsetsModel):
    """The same story, told to a real log."""

    drive = DiskDriver


TestOffsetsOnDisk = pytest.mark.slow(OffsetsOnDisk.TestCase)
OffsetsOnDisk.TestCase.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)


@pytest.mark.proof
def test_long_runs_on_disk_show_what_the_model_shows() -> None:
    run_state_machine_as_test(OffsetsOnDisk, settings=settings(max_examples=300, stateful_step_count=80, deadline=None))


@pytest.mark.parametrize("is_committed", [True, False])
def test_compaction_leaves_the_fate_of_a_transaction_readable(is_committed: bool) -> None:
    """The marker of a transaction stays for as long as a record of it does."""
    room = OffsetRoom(drive=DiskDriver)
    room.commit({B: 1})
    room.commit_in_transaction(7, {A: 5, B: 2})
    room.log.end(7, is_committed=is_committed)
    for offset in range(10):  # Enough for segments to be sealed, and a record of the transaction to be superseded.
        room.commit({("payments", 0): offset})
        room.commit({B: offset})
    assert isinstance(room.driver, DiskDriver)
    before = room.driver.real.size_bytes
    for _ in range(3):
        room.log.compact()
        assert room.fetch(A, B, stable=True) == {A: 5 if is_committed else -1, B: 9}
    assert room.driver.real.size_bytes < before / 2


def test_a_transaction_that_is_open_is_carried_over_compaction_and_fail_over() -> None:
    room = OffsetRoom(drive=DiskDriver)
    for offset in range(10):
        room.commit({B: offset})
    room.commit_in_transaction(7, {A: 5})
    for offset in range(10):
        room.commit({B: offset})
    room.log.compact()
    assert room.fetch(A, B, stable=True) == {A: -ErrorCode.UNSTABLE_OFFSET_COMMIT, B: 9}
    room.log.end(7, is_committed=True)
    room.log.compact()
    assert room.fetch(A, B, stable=True) == {A: 5, B: 9}
