"""The life of a log, told step by step on a simulated disk, with a model of what must be found after a crash at any point of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tests.storage.support import append_verified
from tidelog.config import LogConfig
from tidelog.model import TopicPartition
from tidelog.records import (
    MarkerType,
    RecordBatchBuilder,
    build_marker,
    crc_holds,
    headers,
    read_header,
    read_marker,
    stamp,
)
from tidelog.simulation.disk import SimulatedDisk
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.storage.compaction import clean
from tidelog.storage.compaction_facts import compaction_facts
from tidelog.storage.compaction_plan import assess, plan_compaction
from tidelog.storage.directory import LogDirectory
from tidelog.storage.log import PartitionLog
from tidelog.storage.producer_state import ProducerStates

PATH = "/data"
PARTITION = TopicPartition("t", 0)
CONFIG = LogConfig(
    cleanup_policy=("compact", "delete"),
    segment_bytes=400,
    index_interval_bytes=100,
    flush_messages=1,
    file_delete_delay_ms=0,
    delete_retention_ms=10,
    retention_bytes=None,
    retention_ms=None,
    min_cleanable_dirty_ratio=0.0,
)
NOW = 1_000_000


@dataclass(slots=True)
class World:
    """One content the log may have: these batches, or, of the part that was not flushed, only the first of them."""

    batches: list[bytes] = field(default_factory=list)
    history: list[bytes] = field(default_factory=list)
    """The same before compaction and retention: what producers are remembered by."""
    log_start: int = 0
    """All batches from here on are there; retention has taken those before."""
    compacted_end: int = 0

    @property
    def end_offset(self) -> int:
        """Where the log ends if all of it is there."""
        return read_header(self.batches[-1]).next_offset if self.batches else 0


class Story:
    """Runs the log and keeps the model beside it; a PowerCut may end it anywhere."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.worlds = [World()]
        """What a crash now may leave; the last one is what the log was told to be."""
        self.durable_end = 0
        """Everything below was flushed, and not truncated since: it must survive a power cut."""
        self.told_end = 0
        """Everything below was appended: it must survive the death of the process."""
        self.leader_epoch = 0
        self._sequences: dict[int, int] = {}

    @property
    def world(self) -> World:
        """What the log was told to be."""
        return self.worlds[-1]

    def tell(self) -> None:
        """Append, roll, flush, checkpoint, abort, compact, delete, truncate, close, open again, and go on."""
        self.begin_and_compact()
        self.truncate_and_delete()
        self.close_and_start_over()

    def begin_and_compact(self) -> None:
        self.open()
        self.append_plain(b"a", b"b")
        self.append_plain(b"c")
        self.flush()
        self.append_idempotent(7, b"a")
        self.append_transactional(8, b"b", b"d")
        self.checkpoint()
        self.fill(6)
        self.append_marker(8, MarkerType.ABORT)
        self.flush()
        self.append_transactional(8, b"e")
        self.append_marker(8, MarkerType.COMMIT)
        self.fill(4)
        self.flush()
        self.checkpoint()
        self.compact()

    def truncate_and_delete(self) -> None:
        self.append_idempotent(7, b"z")
        self.new_epoch()
        self.fill(3)
        self.truncate(3)
        self.new_epoch()
        self.append_plain(b"after the truncation")
        self.flush()
        self.fill(8)
        self.flush()
        self.checkpoint()
        self.fill(2)
        self.compact()
        self.delete_oldest()
        self.fill(2)
        self.flush()
        self.checkpoint()

    def close_and_start_over(self) -> None:
        self.close_and_open()
        self.append_idempotent(7, b"y")
        self.fill(5)
        self.truncate_below_the_recovery_point()
        self.new_epoch()
        self.append_idempotent(9, b"x")
        self.flush()
        self.restart_elsewhere()
        self.fill(3)
        self.flush()
        self.checkpoint()
        self.close_and_open()

    def tell_by_chance(self, seed: int, step_count: int) -> None:
        """The same steps in any order that makes sense."""
        randomness = SimulatedRandomness(f"story/{seed}")
        self.open()
        for _ in range(step_count):
            if randomness.below(2):
                self._write_something(randomness)
            else:
                self._do_something(randomness)

    def _write_something(self, randomness: SimulatedRandomness) -> None:
        producer_id = 7 + randomness.below(2)
        keys = [b"key %d" % randomness.below(4) for _ in range(1 + randomness.below(3))]
        match randomness.below(7):
            case 0 | 1 | 2:
                self.fill(1 + randomness.below(4))
            case 3:
                self.append_marker(producer_id, MarkerType(randomness.below(2)))
            case 4 | 5 if not self._has_open_transaction(producer_id):
                self.append_idempotent(producer_id, *keys)
            case _:
                self.append_transactional(producer_id, *keys)

    def _do_something(self, randomness: SimulatedRandomness) -> None:
        match randomness.below(14):
            case 0 | 1 | 2 | 3:
                self.flush()
            case 4 | 5:
                self.checkpoint()
            case 6 | 7:
                self.flush()
                self.maybe_compact()
            case 8 | 9:
                self.maybe_truncate(1 + randomness.below(8))
            case 10 | 11:
                self.maybe_delete_oldest()
            case 12:
                self.close_and_open()
            case 13 if randomness.below(3) == 0:
                self.restart_elsewhere()
                self.new_epoch()
            case _:
                self.new_epoch()

    # The steps.

    def open(self) -> None:
        self.directory = LogDirectory.open(self.disk, PATH, broker_id=1, cluster_id="c")
        self.log = self.directory.open_log(PARTITION, CONFIG, now_ms=NOW)

    def append_plain(self, *keys: bytes) -> None:
        self._append(_batch(keys))

    def append_idempotent(self, producer_id: int, *keys: bytes) -> None:
        self._append(_batch(keys, producer=(producer_id, 0, self._next_sequence(producer_id, len(keys)))))

    def append_transactional(self, producer_id: int, *keys: bytes) -> None:
        producer = (producer_id, 0, self._next_sequence(producer_id, len(keys)))
        self._append(_batch(keys, producer=producer, is_transactional=True))

    def append_marker(self, producer_id: int, marker_type: MarkerType) -> None:
        self._append(
            build_marker(marker_type, producer_id=producer_id, producer_epoch=0, coordinator_epoch=2, timestamp_ms=NOW)
        )

    def fill(self, count: int) -> None:
        for number in range(count):
            self.append_plain(b"key %d" % (number % 3))

    def flush(self) -> None:
        flush = self.log.start_flush()
        if flush is not None:
            flush.perform()
            self.log.on_flushed(flush)
        assert self.log.settled_end_offset == self.log.log_end_offset
        self.durable_end = self.log.log_end_offset
        self.worlds = [self.world]

    def checkpoint(self) -> None:
        self.directory.checkpoint({PARTITION: self.durable_end}).perform()

    def new_epoch(self) -> None:
        self.leader_epoch += 1
        self.log.assign_leader_epoch(self.leader_epoch)

    def compact(self) -> None:
        assert self.maybe_compact()

    def maybe_compact(self) -> bool:
        facts = compaction_facts(self.log, last_stable_offset=self.log.last_stable_offset(self.durable_end))
        assessment = assess(facts, checkpoint=self.directory.cleaner_offsets.get(PARTITION), now_ms=NOW)
        if assessment is None:
            return False
        result = clean(self.disk, plan_compaction(assessment, keys_max=100, now_ms=NOW))
        content = self._cleaned_content(result.cleaned, result.replaced)
        compacted = World(content, self.world.history, self.world.log_start, result.first_dirty_offset)
        self.worlds = [self.world, compacted]
        self.log.replace_segments(cleaned=result.cleaned, replaced=result.replaced, now_ms=NOW)
        self.worlds = [compacted]
        self.directory.cleaner_offsets[PARTITION] = result.first_dirty_offset
        self.remove_retired()
        return result.records_after < result.records_before

    def truncate(self, batch_count: int) -> None:
        world = self.world
        offset = read_header(world.batches[-batch_count]).base_offset
        history = [batch for batch in world.history if read_header(batch).base_offset < offset]
        self.durable_end = min(self.durable_end, offset)
        self.told_end = offset
        self.worlds = [*self.worlds, replace(world, batches=world.batches[:-batch_count], history=history)]
        self.log.truncate_to(offset, now_ms=NOW)
        assert self.log.log_end_offset == offset
        self._sequences = {state.producer_id: state.last_sequence + 1 for state in replay(history)}

    def maybe_truncate(self, batch_count: int) -> None:
        """Not among the gaps of compaction, which is below the high watermark."""
        low = max(
            self.world.log_start, self.directory.cleaner_offsets.get(PARTITION, 0), self.log.segments[0].base_offset
        )
        readable = [batch for batch in self.world.batches if read_header(batch).base_offset > low]
        if len(readable) > batch_count:
            self.truncate(batch_count)
            self.new_epoch()

    def truncate_below_the_recovery_point(self) -> None:
        self.flush()
        self.checkpoint()
        self.truncate(7)

    def delete_oldest(self) -> None:
        start = self.log.segments[2].base_offset
        self.log.advance_log_start(start)
        self.world.log_start = start
        assert self.log.delete_old_segments(NOW, self.durable_end) > 0
        self.remove_retired()

    def maybe_delete_oldest(self) -> None:
        if len(self.log.segments) > 3 and self.durable_end >= self.log.segments[2].base_offset:
            self.delete_oldest()

    def restart_elsewhere(self) -> None:
        offset = self.log.log_end_offset + 100
        self.durable_end = self.told_end = 0
        self.worlds = [*self.worlds, World(log_start=offset)]
        self.log.truncate_fully_and_start_at(offset, now_ms=NOW)
        self.told_end = offset
        self._sequences = {}
        self.remove_retired()

    def remove_retired(self) -> None:
        removal = self.directory.take_removal(NOW)
        if removal is not None:
            removal.perform()

    def close_and_open(self) -> None:
        self.directory.close_cleanly({PARTITION: self.durable_end})
        self.durable_end = self.world.end_offset
        self.worlds = [self.world]
        self.open()
        assert content_of(self.log) == [
            batch for batch in self.world.batches if read_header(batch).last_offset >= self.world.log_start
        ]

    def _append(self, batch: bytearray) -> None:
        told = bytearray(batch)
        stamp(told, 0, base_offset=self.log.log_end_offset, leader_epoch=self.leader_epoch)
        world = self.world
        self.worlds[-1] = replace(world, batches=[*world.batches, bytes(told)], history=[*world.history, bytes(told)])
        append_verified(self.log, batch, leader_epoch=self.leader_epoch, now_ms=NOW)
        self.told_end = self.log.log_end_offset

    def _has_open_transaction(self, producer_id: int) -> bool:
        state = self.log.producers.get(producer_id)
        return state is not None and state.transaction_first_offset >= 0

    def _next_sequence(self, producer_id: int, count: int) -> int:
        sequence = self._sequences.get(producer_id, 0)
        self._sequences[producer_id] = sequence + count
        return sequence

    def _cleaned_content(self, cleaned: Sequence[int], replaced: Sequence[int]) -> list[bytes]:
        content: list[bytes] = []
        for segment in self.log.segments:
            if segment.base_offset in cleaned:
                content += split(self.disk.read(f"{segment.path('.log')}.cleaned"))
            elif segment.base_offset not in replaced:
                content += split(self.disk.read(segment.path(".log")))
        return content


def _batch(
    keys: Sequence[bytes], *, producer: tuple[int, int, int] = (-1, -1, -1), is_transactional: bool = False
) -> bytearray:
    builder = RecordBatchBuilder(
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        is_transactional=is_transactional,
    )
    for key in keys:
        builder.append(timestamp_ms=NOW, key=key, value=b"value of " + key)
    return builder.build()


def split(data: bytes) -> list[bytes]:
    """The batches in some bytes."""
    return [data[position : position + header.size] for position, header in headers(data)]


def content_of(log: PartitionLog) -> list[bytes]:
    """All batches of a log, read as a consumer reads them, each of them valid."""
    found: list[bytes] = []
    offset = log.log_start_offset
    while data := log.read(offset, max_bytes=1 << 20, end_offset=log.log_end_offset):
        batches = split(data)
        assert sum(map(len, batches)) == len(data)
        assert all(crc_holds(batch, 0, read_header(batch)) for batch in batches)
        found += batches
        offset = read_header(batches[-1]).next_offset
    return found


def replay(history: Sequence[bytes]) -> ProducerStates:
    """What is known of the producers after these batches."""
    producers = ProducerStates()
    for batch in history:
        header = read_header(batch)
        producers.apply(header, read_marker(batch) if header.is_control else None)
    return producers
