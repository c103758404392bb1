"""Audit: `python -m benchmarks.audit [--sizes 1 10] [--workers 1 2]`, MB/s of an audit beside how fast the same files come from the page cache.

The files are made once per size: three replicas of a few partitions in segments of 1 GiB at most. Page-cache speed is one process that reads
all of them with read(2) into one buffer, in the same round as the audit. Files are removed at the end.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.statistics import Summary
from tests.pipeline.audit.planted import batch
from tidelog.model import TopicPartition
from tidelog.pipeline.audit.running import AuditPlan, audit
from tidelog.pipeline.java import NoJava
from tidelog.pipeline.session import SparkMissing, spark_session
from tidelog.records.batch import read_header, stamp
from tidelog.storage.checkpoints import MetaProperties, encode_meta_properties, encode_offsets
from tidelog.storage.names import HIGH_WATERMARK_CHECKPOINT, LOG, META_PROPERTIES, OFFSET_INDEX, file_name
from tidelog.storage.offset_index import OffsetEntry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BROKERS: Final = (1, 2, 3)
PARTITIONS: Final = 4
SEGMENT_BYTES: Final = 1 << 30
INDEX_INTERVAL_BYTES: Final = 4096
READ_BYTES: Final = 8 << 20
GB: Final = 1_000_000_000
MB: Final = 1_000_000


def write_partition(directory: Path, byte_count: int, batch_bytes: int) -> int:
    """One log of about so many bytes with offset indexes; its end offset."""
    record = "x" * 1000
    whole = bytearray(batch(0, text=record, count=max(batch_bytes // 1010, 1)))
    directory.mkdir(parents=True)
    offset = written = 0
    while written < byte_count:
        base = offset
        with (
            (directory / file_name(base, LOG)).open("wb") as log,
            (directory / file_name(base, OFFSET_INDEX)).open("wb") as index,
        ):
            position = indexed = 0
            while position + len(whole) <= SEGMENT_BYTES and written < byte_count:
                stamp(whole, 0, base_offset=offset, leader_epoch=0)
                next_offset = read_header(whole).next_offset
                if position - indexed > INDEX_INTERVAL_BYTES:
                    entry = OffsetEntry(next_offset - 1 - base, position)
                    index.write(entry.relative_offset.to_bytes(4, "big") + entry.position.to_bytes(4, "big"))
                    indexed = position
                log.write(whole)
                position += len(whole)
                written += len(whole)
                offset = next_offset
    return offset


def make_cluster(root: Path, byte_count: int, batch_bytes: int) -> None:
    """Data directories of three brokers, so many bytes in all."""
    each = byte_count // (len(BROKERS) * PARTITIONS)
    first = root / f"broker-{BROKERS[0]}"
    partitions = [TopicPartition("orders", index) for index in range(PARTITIONS)]
    marks = {partition: write_partition(first / str(partition), each, batch_bytes) for partition in partitions}
    (first / HIGH_WATERMARK_CHECKPOINT).write_bytes(encode_offsets(marks))
    for broker in BROKERS:
        directory = root / f"broker-{broker}"
        if directory != first:
            shutil.copytree(first, directory)
        meta = MetaProperties(broker_id=broker, cluster_id="benchmark")
        (directory / META_PROPERTIES).write_bytes(encode_meta_properties(meta))


def segments(root: Path) -> Iterator[Path]:
    """All segment files."""
    yield from sorted(root.glob(f"*/*/*{LOG}"))


def read_all(root: Path) -> float:
    """MB/s of one process that reads every file."""
    buffer = memoryview(bytearray(READ_BYTES))
    started, total = time.perf_counter(), 0
    for path in segments(root):
        with path.open("rb", buffering=0) as file:
            while count := file.readinto(buffer):
                total += count
    return total / MB / (time.perf_counter() - started)


def audit_all(spark: SparkSession, root: Path) -> float:
    """MB/s of an audit that must find nothing."""
    started = time.perf_counter()
    report = audit(spark, AuditPlan(directories=(str(root),)))
    seconds = time.perf_counter() - started
    if report.findings:
        raise RuntimeError(f"the benchmark's own files are not sound: {report.findings[0]}")
    return report.byte_count / MB / seconds


def measure(root: Path, workers: int, rounds: int) -> tuple[Summary, Summary]:
    """Audit and page cache, in turns, after a round that warms both."""
    spark = spark_session("tidelog audit benchmark", master=f"local[{workers}]")
    spark.sparkContext.setLogLevel("ERROR")
    try:
        audits, reads = [], []
        for number in range(rounds + 1):
            speeds = audit_all(spark, root), read_all(root)
            if number:
                audits.append(speeds[0])
                reads.append(speeds[1])
        return Summary(tuple(audits)), Summary(tuple(reads))
    finally:
        spark.stop()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit", description=__doc__)
    parser.add_argument("--sizes", type=float, nargs="+", default=[1.0], metavar="GB", help="of all replicas together")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], metavar="N")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch-bytes", type=int, default=16_384)
    parser.add_argument("--directory", type=Path, help="where the files are made (default: a temporary one)")
    return parser.parse_args()


def main() -> int:
    """Measure and print; returns the exit code."""
    options = _options()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, ", end="")
    print(f"batches of {options.batch_bytes} bytes, load average before: {os.getloadavg()[0]:.1f}", flush=True)
    for size in options.sizes:
        with tempfile.TemporaryDirectory(prefix="tidelog-bench-", dir=options.directory) as temporary:
            root = Path(temporary)
            make_cluster(root, int(size * GB), options.batch_bytes)
            byte_count = sum(path.stat().st_size for path in segments(root))
            for workers in options.workers:
                try:
                    audits, reads = measure(root, workers, options.rounds)
                except (NoJava, SparkMissing) as missing:
                    print(missing, file=sys.stderr)
                    return 1
                part = audits.median / reads.median
                print(
                    f"{byte_count / GB:.2f} GB, {workers} worker(s): audit {audits} MB/s, page cache {reads} MB/s: {part:.2f}x, "
                    f"load {os.getloadavg()[0]:.1f}",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
