"""A bench for compaction: segments written by hand on a simulated disk, cleaned, swapped in and read back."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.config import LogConfig
from tidelog.model import TopicPartition
from tidelog.records import (
    Codec,
    MarkerType,
    Record,
    RecordBatchBuilder,
    build_marker,
    crc_holds,
    headers,
    read_header,
    read_marker,
    read_records,
    stamp,
)
from tidelog.records.batch import BatchHeader
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage.compaction import CleanResult, clean
from tidelog.storage.compaction_plan import (
    ActiveProducer,
    Assessment,
    CompactionPlan,
    LogFacts,
    SegmentFacts,
    assess,
    plan_compaction,
)
from tidelog.storage.names import LOG, file_name
from tidelog.storage.open_files import OpenFiles
from tidelog.storage.producer_state import FinishedTransaction, ProducerStates
from tidelog.storage.segment import Segment
from tidelog.storage.swap import commit_swap, resolve_interrupted_swaps
from tidelog.storage.transaction_index import AbortedEntry

DIRECTORY = "/data/t-0"
CONFIG = LogConfig(cleanup_policy=("compact",), delete_retention_ms=1_000, min_cleanable_dirty_ratio=0.0)
KEYS_MAX = 1_000

Pair = tuple[bytes | None, bytes | None]


def batch(
    *pairs: Pair,
    timestamp_ms: int = 100,
    producer: tuple[int, int, int] = (-1, -1, -1),
    is_transactional: bool = False,
    codec: Codec = Codec.NONE,
) -> bytearray:
    """A batch of key and value pairs; `producer` is id, epoch and base sequence."""
    builder = RecordBatchBuilder(
        codec=codec,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        is_transactional=is_transactional,
    )
    for number, (key, value) in enumerate(pairs):
        builder.append(timestamp_ms=timestamp_ms + number, key=key, value=value)
    return builder.build()


def marker(marker_type: MarkerType, producer_id: int, *, epoch: int = 0, timestamp_ms: int = 100) -> bytearray:
    """The end of a transaction."""
    return build_marker(
        marker_type, producer_id=producer_id, producer_epoch=epoch, coordinator_epoch=3, timestamp_ms=timestamp_ms
    )


class Bench:
    """A log of sealed segments and an empty active one."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.disk.mkdir(DIRECTORY)
        self.segments: list[int] = []
        self.next_offset = 0
        self.first_dirty_offset: int | None = None
        self.producers = ProducerStates()
        self.aborted: list[AbortedEntry] = []

    def add_segment(self, *batches: bytearray, leader_epoch: int = 0) -> None:
        """Write a sealed segment."""
        segment = Segment(OpenFiles(self.disk), DIRECTORY, self.next_offset, index_interval_bytes=64)
        self.segments.append(self.next_offset)
        for data in batches:
            stamp(data, 0, base_offset=self.next_offset, leader_epoch=leader_epoch)
            header = read_header(data)
            segment.write([data])
            segment.note(header.base_offset, header.last_offset, header.max_timestamp, len(data))
            finished = self.producers.apply(header, read_marker(data) if header.is_control else None)
            if finished is not None and finished.is_aborted:
                segment.transaction_index.append_finished(finished, self.producers.stable_offset_after(finished))
                self.aborted.append(segment.transaction_index.entries.entry(len(segment.transaction_index.entries) - 1))
            self.next_offset = header.next_offset
        segment.seal()
        segment.files.close()

    def facts(self, config: LogConfig = CONFIG) -> LogFacts:
        """What the log says of itself."""
        found = []
        for base in self.segments:
            data = self.disk.read(f"{DIRECTORY}/{file_name(base, LOG)}")
            times = [header.max_timestamp for _, header in headers(data)]
            found.append(SegmentFacts(base, len(data), max(times, default=-1), times[0] if times else -1))
        ongoing = self.producers.first_ongoing_offset()
        return LogFacts(
            topic_partition=TopicPartition("t", 0),
            directory=DIRECTORY,
            config=config,
            segments=(*found, SegmentFacts(self.next_offset, 0, -1, -1)),
            log_start_offset=0,
            last_stable_offset=self.next_offset if ongoing is None else ongoing,
            aborted=tuple(self.aborted),
            producers=tuple(
                ActiveProducer(state.producer_id, state.producer_epoch, state.last_offset) for state in self.producers
            ),
        )

    def assess(self, *, now_ms: int = 1_000, config: LogConfig = CONFIG) -> Assessment | None:
        """Whether and how far the log may be compacted."""
        return assess(self.facts(config), checkpoint=self.first_dirty_offset, now_ms=now_ms)

    def plan(self, *, now_ms: int = 1_000, config: LogConfig = CONFIG, keys_max: int = KEYS_MAX) -> CompactionPlan:
        """The work order for the whole log, as if nothing had been compacted before where there is no dirt."""
        assessment = self.assess(now_ms=now_ms, config=config)
        if assessment is None:
            self.first_dirty_offset = None
            assessment = self.assess(now_ms=now_ms, config=config)
        assert assessment is not None
        return plan_compaction(assessment, keys_max=keys_max, now_ms=now_ms)

    def compact(self, *, now_ms: int = 1_000, config: LogConfig = CONFIG, keys_max: int = KEYS_MAX) -> CleanResult:
        """Clean and swap."""
        result = clean(self.disk, self.plan(now_ms=now_ms, config=config, keys_max=keys_max))
        commit_swap(self.disk, DIRECTORY, cleaned=result.cleaned, replaced=result.replaced)
        resolve_interrupted_swaps(self.disk, DIRECTORY)
        self.segments = sorted({*self.segments} - {*result.replaced} | {*result.cleaned})
        self.first_dirty_offset = result.first_dirty_offset
        return result

    def batches(self) -> list[tuple[BatchHeader, bytes]]:
        """All batches, whole and valid."""
        found = []
        for base in self.segments:
            data = self.disk.read(f"{DIRECTORY}/{file_name(base, LOG)}")
            position = 0
            for position, header in headers(data):
                assert crc_holds(data, position, header)
                found.append((header, data[position : position + header.size]))
                position += header.size
            assert position == len(data)
        return found

    def records(self) -> list[Record]:
        """All data records."""
        return [record for _, record in self.records_with_headers()]

    def records_with_headers(self) -> list[tuple[BatchHeader, Record]]:
        """All data records, each with its batch."""
        return [
            (header, record)
            for header, data in self.batches()
            if not header.is_control
            for record in read_records(data, max_bytes=1 << 20)
        ]

    def pairs(self) -> list[tuple[int, bytes | None, bytes | None]]:
        """Offset, key and value of all data records."""
        return [(record.offset, record.key, record.value) for record in self.records()]

    def replayed(self) -> ProducerStates:
        """Producer state as a restart would find it in the log."""
        producers, _ = self._replay()
        return producers

    def replayed_aborted(self) -> list[tuple[int, int, int]]:
        """Producer, first and last offset of the aborted transactions that a restart would find in the log."""
        _, finished = self._replay()
        return [(done.producer_id, done.first_offset, done.last_offset) for done in finished if done.is_aborted]

    def _replay(self) -> tuple[ProducerStates, list[FinishedTransaction]]:
        producers = ProducerStates()
        finished = []
        for header, data in self.batches():
            done = producers.apply(header, read_marker(data) if header.is_control else None)
            if done is not None:
                finished.append(done)
        return producers, finished


def bench_of(*segments: Sequence[bytearray]) -> Bench:
    """A bench with these sealed segments."""
    bench = Bench()
    for batches in segments:
        bench.add_segment(*batches)
    return bench
