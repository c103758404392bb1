"""Data directories made by hand: logs of a few batches, the files beside them, and a way to damage any of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import UUID

from tidelog.model import TopicPartition
from tidelog.records.batch import BatchHeader, read_header, stamp, write_batch
from tidelog.records.builder import RecordBatchBuilder
from tidelog.records.compression import Codec
from tidelog.records.control import MarkerType, build_marker
from tidelog.storage.checkpoints import (
    MetaProperties,
    encode_meta_properties,
    encode_offsets,
    encode_partition_metadata,
)
from tidelog.storage.names import (
    CLEAN_SHUTDOWN,
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    file_name,
)

RECORDS_PER_BATCH = 5
CLUSTER_ID = "an-audited-cluster"
TOPIC_ID = UUID(int=7)


def batch(
    base_offset: int,
    *,
    epoch: int = 0,
    text: str = "value",
    count: int = RECORDS_PER_BATCH,
    producer: tuple[int, int, int] | None = None,
    is_transactional: bool = False,
    codec: Codec = Codec.NONE,
) -> bytes:
    """A batch of records; a producer is its id, its epoch and its base sequence."""
    producer_id, producer_epoch, base_sequence = producer or (-1, -1, -1)
    builder = RecordBatchBuilder(
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
    )
    for number in range(count):
        builder.append(timestamp_ms=1_700_000_000_000 + number, key=b"k%d" % number, value=f"{text} {number}".encode())
    return bytes(builder.build(base_offset, epoch))


def marker(base_offset: int, producer: tuple[int, int], *, commits: bool = True, epoch: int = 0) -> bytes:
    """The decision of a transaction."""
    made = build_marker(
        MarkerType.COMMIT if commits else MarkerType.ABORT,
        producer_id=producer[0],
        producer_epoch=producer[1],
        coordinator_epoch=0,
        timestamp_ms=1_700_000_000_000,
    )
    stamp(made, 0, base_offset=base_offset, leader_epoch=epoch)
    return bytes(made)


def run(count: int, *, first: int = 0, epoch: int = 0, text: str = "value") -> list[bytes]:
    """Batches that follow each other."""
    return [batch(first + number * RECORDS_PER_BATCH, epoch=epoch, text=text) for number in range(count)]


def emptied(whole: bytes) -> bytes:
    """What compaction leaves of a batch of which all records are gone."""
    return bytes(write_batch(BatchHeader(*read_header(whole))._replace(record_count=0), b""))


def flipped(data: bytes, position: int) -> bytes:
    """The same with one bit changed."""
    return data[:position] + bytes([data[position] ^ 0x10]) + data[position + 1 :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One replica of one partition: its segments as (base offset, bytes), and what the checkpoints say of it."""

    segments: Sequence[tuple[int, bytes]]
    high_watermark: int | None
    log_start: int | None = None
    cleaned: int | None = None
    topic_id: UUID = TOPIC_ID
    files: dict[str, bytes] = field(default_factory=dict)

    def with_batches(self, batches: Iterable[bytes]) -> Log:
        """The same with other content of its only segment."""
        return replace(self, segments=[(self.segments[0][0], b"".join(batches))])


def log_of(batches: Sequence[bytes], *, high_watermark: int | None = -1) -> Log:
    """A log of one segment, all of it below the high watermark unless said otherwise."""
    end = read_header(batches[-1]).next_offset
    base = read_header(batches[0]).base_offset
    return Log(segments=[(base, b"".join(batches))], high_watermark=end if high_watermark == -1 else high_watermark)


class Planted:
    """The data directories of some brokers, written when all logs are known."""

    def __init__(self, root: Path, brokers: Iterable[int] = (1, 2, 3)) -> None:
        self.root = root
        self.brokers = tuple(brokers)
        self.logs: dict[int, dict[TopicPartition, Log]] = {broker: {} for broker in self.brokers}
        self.stopped_cleanly: set[int] = set()

    def add(self, topic: str, *logs: Log | None, partition: int = 0) -> None:
        """A partition whose replicas are these, in the order of the brokers; the last is that of all brokers left."""
        for number, broker in enumerate(self.brokers):
            log = logs[min(number, len(logs) - 1)]
            if log is not None:
                self.logs[broker][TopicPartition(topic, partition)] = log

    def path(self, broker: int) -> Path:
        return self.root / f"broker-{broker}"

    def write(self) -> list[str]:
        """Write everything; the directories."""
        for broker, logs in self.logs.items():
            write_directory(self.path(broker), broker, logs)
            if broker in self.stopped_cleanly:
                (self.path(broker) / CLEAN_SHUTDOWN).write_text("{}")
        return [str(self.path(broker)) for broker in self.brokers]


def write_directory(
    path: Path, broker: int | None, logs: dict[TopicPartition, Log], *, cluster_id: str = CLUSTER_ID
) -> None:
    """One log directory."""
    path.mkdir(parents=True, exist_ok=True)
    if broker is not None:
        meta = MetaProperties(broker_id=broker, cluster_id=cluster_id)
        (path / META_PROPERTIES).write_bytes(encode_meta_properties(meta))
    for partition, log in logs.items():
        _write_log(path / str(partition), log)
    for name, offsets in (
        (HIGH_WATERMARK_CHECKPOINT, {key: log.high_watermark for key, log in logs.items()}),
        (LOG_START_CHECKPOINT, {key: log.log_start for key, log in logs.items()}),
        (CLEANER_CHECKPOINT, {key: log.cleaned for key, log in logs.items()}),
    ):
        known = {key: offset for key, offset in offsets.items() if offset is not None}
        (path / name).write_bytes(encode_offsets(known))


def _write_log(directory: Path, log: Log) -> None:
    directory.mkdir()
    (directory / PARTITION_METADATA).write_bytes(encode_partition_metadata(log.topic_id))
    for base_offset, content in log.segments:
        (directory / file_name(base_offset, LOG)).write_bytes(content)
    for name, content in log.files.items():
        (directory / name).write_bytes(content)
