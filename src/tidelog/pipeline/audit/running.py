"""An audit from beginning to end: read the claims, read the segments once on Spark, hold everything against everything."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidelog.model import TopicPartition
from tidelog.pipeline.audit import checks
from tidelog.pipeline.audit.claims import Claims, LogClaims, read_claims
from tidelog.pipeline.audit.copies import difference
from tidelog.pipeline.audit.findings import Check, Finding
from tidelog.pipeline.audit.jobs import OnProgress, collected
from tidelog.pipeline.audit.ranges import LogKey, Measured, findings_of, ranges_of
from tidelog.pipeline.audit.report import Report
from tidelog.pipeline.audit.transactions import OpenTransaction, judge, read_coordinators
from tidelog.pipeline.segments.columns import as_ddl
from tidelog.pipeline.segments.directories import DirectoryRefused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

_COLUMNS: Final = (
    "replica", "topic", "partition", "segment", "segment_base_offset", "position", "size", "base_offset", "last_offset",
    "leader_epoch", "crc", "crc_ok", "digest", "record_count", "producer_id", "producer_epoch", "base_sequence",
    "is_transactional", "control_type", "has_delete_horizon", "reason",
)  # fmt: skip


class BeingWritten(Exception):
    """Files changed while they were read; the message names one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlan:
    """What to audit. No topics are all of them; `compacted` are topics that are compacted though nothing in their files shows it."""

    directories: tuple[str, ...]
    topics: tuple[str, ...] | None = None
    compacted: tuple[str, ...] = ()
    replica_count: int | None = None
    is_live: bool = False


def audit(spark: SparkSession, plan: AuditPlan, on_progress: OnProgress | None = None) -> Report:
    """Do it. Raises DirectoryRefused, and BeingWritten unless a live cluster was expected."""
    claims = read_claims(plan.directories, plan.topics, plan.compacted)
    check_found(claims, plan)
    # Of a cluster at work: whatever a coordinator calls ended now has its markers in the segments that are read after this.
    early = read_coordinators(claims.transaction_logs) if plan.is_live else None
    batches = _batches(spark, claims, plan)
    try:
        run = _Run(spark, claims, plan, batches, on_progress)
        found, opened = run.findings(), run.open_transactions()
    finally:
        batches.unpersist()
    if not plan.is_live:
        check_unchanged(claims.logs)
    coordinators = early or (read_coordinators(claims.transaction_logs) if opened else None)
    hanging = [judge(each, coordinators) for each in opened] if coordinators else []
    findings = [*claims.findings, *found, *(each for each in hanging if each is not None)]
    return Report(
        directories=claims.directories,
        ranges=tuple(run.ranges),
        findings=tuple(sorted((each for each in findings if not each.check.is_note), key=lambda each: each.place)),
        torn_tails=tuple(sorted((each for each in findings if each.check.is_note), key=lambda each: each.place)),
        known_open=sum(each is None for each in hanging),
    )


class _Run:
    """The queries of one audit, over rows that are read once and kept by Spark."""

    def __init__(
        self,
        spark: SparkSession,
        claims: Claims,
        plan: AuditPlan,
        batches: DataFrame,
        on_progress: OnProgress | None,
    ) -> None:
        self._spark = spark
        self._plan = plan
        self._batches = batches
        self._on_progress = on_progress
        self._paths = {(log.replica, log.topic_partition): log.files.path for log in claims.logs}
        measured = self._collected("reading segments", checks.measured(spark, batches))
        self.ranges = ranges_of(claims.logs, dict(map(_measured, measured)))
        self._logs = checks.logs_frame(spark, self.ranges, is_live=plan.is_live)
        self._ordered = checks.ordered(spark, batches, self._logs)

    def findings(self) -> list[Finding]:
        """Everything but transactions that nobody ended."""
        partitions = checks.partitions_frame(self._spark, self.ranges)
        compared = checks.replica_findings(self._spark, self._batches, self._logs, partitions)
        found = checks.log_findings(self._spark, self._ordered).unionByName(compared)
        rows = self._collected("checking", checks.first_of_each(self._spark, found))
        whole = findings_of(self.ranges, replica_count=self._plan.replica_count, is_live=self._plan.is_live)
        different = [row for row in rows if row["check"] == Check.REPLICAS.value]
        return [*whole, *(self._finding(row) for row in rows if row not in different), *self._differences(different)]

    def open_transactions(self) -> list[OpenTransaction]:
        """Those that no marker follows."""
        if not any(each.measured.has_transactions for each in self.ranges):
            return []
        rows = self._collected("transactions", checks.open_transactions(self._spark, self._batches, self._logs))
        return [
            OpenTransaction(
                topic_partition=_partition(row),
                replica=row["replica"],
                producer_id=row["producer_id"],
                producer_epoch=row["first"]["producer_epoch"],
                first_offset=row["first"]["base_offset"],
                high_watermark=row["hw"],
                file=self._file(row["replica"], _partition(row), row["first"]["segment"]),
                position=row["first"]["position"],
            )
            for row in rows
        ]

    def _differences(self, rows: Sequence[Row]) -> list[Finding]:
        """The first difference of each partition, with all copies of the batch there."""
        if not rows:
            return []
        places = [(row["topic"], row["partition"], row["first"]["offset"]) for row in rows]
        copies = self._collected("differences", checks.copies(self._spark, self._batches, places))
        return [
            difference(
                [copy.asDict() for copy in copies if (copy["topic"], copy["partition"], copy["base_offset"]) == place],
                [each for each in self.ranges if each.claims.topic_partition == _partition(row)],
                count=row["count"],
            )
            for place, row in zip(places, rows, strict=True)
        ]

    def _finding(self, row: Row) -> Finding:
        first = row["first"]
        return Finding(
            check=Check(row["check"]),
            what=first["what"],
            replicas=(row["replica"],),
            topic=row["topic"],
            partition=row["partition"],
            offset=first["offset"],
            file=self._file(row["replica"], _partition(row), first["segment"]),
            position=first["position"],
            count=row["count"],
        )

    def _file(self, replica: str, partition: TopicPartition, segment: str) -> str:
        return f"{self._paths[replica, partition]}/{segment}"

    def _collected(self, what: str, frame: DataFrame) -> list[Row]:
        return collected(self._spark, frame, what, self._on_progress)


def _batches(spark: SparkSession, claims: Claims, plan: AuditPlan) -> DataFrame:
    from pyspark import StorageLevel

    reader = spark.read.format("tidelog-segments").schema(as_ddl(_COLUMNS))
    reader = reader.option("dir", json.dumps([directory.path for directory in claims.directories]))
    if plan.topics is not None:
        reader = reader.option("topic", ",".join(plan.topics))
    return reader.load().persist(StorageLevel.MEMORY_AND_DISK)


def check_found(claims: Claims, plan: AuditPlan) -> None:
    """Whether there is anything to audit. Raises DirectoryRefused."""
    held = {log.topic_partition.topic for log in claims.logs}
    for topic in plan.topics or ():
        if topic not in held:
            raise DirectoryRefused(f"topic {topic}: no log of it is in {_list(plan.directories)}")
    if not held:
        raise DirectoryRefused(f"{_list(plan.directories)}: there is no log of any partition to audit")


def check_unchanged(logs: Iterable[LogClaims]) -> None:
    """Whether the segments are as long as they were when they were listed. Raises BeingWritten."""
    for log in logs:
        for segment in log.files.segments:
            try:
                size = os.stat(segment.path).st_size
            except FileNotFoundError:
                size = -1
            if size != segment.size:
                how = "was deleted" if size < 0 else f"had {segment.size} bytes and has {size} now"
                raise BeingWritten(
                    f"{segment.path} {how}: a broker works there; stop it, or audit with --live what is below the high watermark"
                )


def _measured(row: Row) -> tuple[LogKey, Measured]:
    return (row["replica"], _partition(row)), Measured(
        batch_count=row["batch_count"],
        record_count=row["record_count"],
        end_offset=row["end_offset"],
        last_epoch=row["last_epoch"],
        is_cleaned=row["is_cleaned"],
        vanished_up_to=row["vanished_up_to"],
        has_transactions=row["has_transactions"],
    )


def _partition(row: Row) -> TopicPartition:
    return TopicPartition(row["topic"], row["partition"])


def _list(names: Sequence[str]) -> str:
    return ", ".join(names)
