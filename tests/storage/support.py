"""What the storage tests share: batches by their literal values, a log on a simulated disk."""

from __future__ import annotations

from dataclasses import replace

from tidelog.config import LogConfig
from tidelog.model import ProducerIdentity, TopicPartition
from tidelog.records.batch import headers, read_header
from tidelog.records.builder import RecordBatchBuilder
from tidelog.records.control import MarkerType, build_marker
from tidelog.records.record import read_records
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage import Appended, Opening, PartitionLog

PARTITION = TopicPartition("t", 0)
DIRECTORY = "/data/t-0"
CONFIG = LogConfig()
SMALL = replace(CONFIG, segment_bytes=400, index_interval_bytes=0)
"""Segments of a few batches, every one of them indexed."""
NOW = 1_700_000_000_000


def new_disk() -> SimulatedDisk:
    """A disk on which the log directory itself is durable."""
    disk = SimulatedDisk()
    disk.mkdir("/data")
    disk.fsync_dir("/")
    return disk


def batch(
    *values: str,
    timestamps: tuple[int, ...] | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
) -> bytearray:
    """A client's batch with these values; timestamps count from NOW unless given."""
    builder = RecordBatchBuilder(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
    )
    for number, value in enumerate(values):
        stamp = NOW + number if timestamps is None else timestamps[number]
        builder.append(timestamp_ms=stamp, key=None, value=value.encode())
    return builder.build()


def produced(
    *values: str, producer_id: int = 9, epoch: int = 0, sequence: int = 0, transactional: bool = False
) -> bytearray:
    """A batch of an idempotent producer."""
    return batch(
        *values,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )


def marker(kind: MarkerType, *, producer_id: int = 9, epoch: int = 0, coordinator_epoch: int = 0) -> bytearray:
    """A transaction marker."""
    return build_marker(
        kind,
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp_ms=NOW,
    )


def open_log(disk: SimulatedDisk, config: LogConfig = CONFIG, **opening: object) -> PartitionLog:
    """The log of the one partition these tests have."""
    return PartitionLog.open(
        disk,
        DIRECTORY,
        PARTITION,
        config,
        now_ms=NOW,
        opening=Opening(**opening),  # type: ignore[arg-type]
    )


def append(log: PartitionLog, *values: str, leader_epoch: int = 0, now_ms: int = NOW) -> int:
    """Append one plain batch as leader; its base offset."""
    return log.append_as_leader(batch(*values), leader_epoch=leader_epoch, now_ms=now_ms).base_offset


def append_verified(log: PartitionLog, sent: bytearray, *, leader_epoch: int = 0, now_ms: int = NOW) -> Appended:
    """Append a client's batch as leader, after its coordinator has said that its transaction is open, if it needs that."""
    header = read_header(sent)
    guard = None
    if header.is_transactional and not header.is_control:
        guard = log.verification.begin(
            log.producers.get(header.producer_id),
            ProducerIdentity(header.producer_id, header.producer_epoch),
            sequence=header.base_sequence,
            has_own_epoch=False,
        )
    return log.append_as_leader(sent, leader_epoch=leader_epoch, now_ms=now_ms, guard=guard)


def flush(log: PartitionLog) -> None:
    """Make everything durable, as the directory's thread would."""
    work = log.start_flush()
    if work is not None:
        work.perform()
        log.on_flushed(work)


def values(log: PartitionLog, offset: int | None = None, end_offset: int | None = None) -> list[tuple[int, str]]:
    """(offset, value) of every readable record, fetched as a client would."""
    position = log.log_start_offset if offset is None else offset
    end = log.log_end_offset if end_offset is None else end_offset
    found: list[tuple[int, str]] = []
    while position < end:
        data = log.read(position, max_bytes=1 << 20, end_offset=end)
        if not data:
            break
        for at, header in headers(data):
            position = header.next_offset
            if not header.is_control:
                records = read_records(data[at : at + header.size], max_bytes=1 << 20)
                found += [(record.offset, (record.value or b"").decode()) for record in records]
    return [entry for entry in found if offset is None or entry[0] >= offset]
