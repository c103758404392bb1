"""The report of an audit: for people the first finding of every partition and a summary, for programs all of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, TextIO

from tidelog.cli.output import OutputFormat, Row, is_coloured, paint, size, write_rows

if TYPE_CHECKING:
    from tidelog.pipeline.audit.findings import Finding
    from tidelog.pipeline.audit.ranges import LogRange
    from tidelog.pipeline.audit.report import Report

COLUMNS: Final = ("partition", "check", "replica", "offset", "position", "more", "file", "what")


def write_report(out: TextIO, output_format: OutputFormat, report: Report, seconds: float) -> None:
    """Write it."""
    if output_format is OutputFormat.JSON:
        out.write(json.dumps(content_of(report, seconds), indent=2, ensure_ascii=False) + "\n")
        return
    if report.findings:
        write_rows(out, output_format, COLUMNS, list(first_findings(report)))
    for note in report.notes:
        out.write(f"note: {note}\n")
    verdict = paint(verdict_of(report), "red" if report.findings else "green", wanted=is_coloured(out))
    out.write(f"{_looked_at(report, seconds)}\n{verdict}\n")


def first_findings(report: Report) -> Iterator[Row]:
    """The first finding of each partition, and how many more there are of it."""
    by_partition: dict[str, list[Finding]] = {}
    for finding in report.findings:
        by_partition.setdefault(_partition(finding), []).append(finding)
    for partition, findings in by_partition.items():
        first = findings[0]
        yield {
            "partition": partition,
            "check": first.check.value,
            "replica": first.replicas,
            "offset": first.offset,
            "position": first.position,
            "more": sum(each.count for each in findings) - 1,
            "file": first.file,
            "what": first.what,
        }


def content_of(report: Report, seconds: float) -> dict[str, object]:
    """Everything, for programs."""
    return {
        "is_sound": not report.findings,
        "seconds": round(seconds, 3),
        "bytes": report.byte_count,
        "batches": report.batch_count,
        "directories": [
            {"path": each.path, "broker": each.broker, "cluster_id": each.cluster_id} for each in report.directories
        ],
        "findings": [_finding(each) for each in report.findings],
        "torn_tails": [_finding(each) for each in report.torn_tails],
        "open_transactions": report.known_open,
        "notes": report.notes,
        "partitions": [_partition_content(members) for members in report.by_partition.values()],
    }


def verdict_of(report: Report) -> str:
    """The last line."""
    if report.findings:
        partitions = len({_partition(finding) for finding in report.findings})
        count = sum(finding.count for finding in report.findings)
        return f"{count} finding{'s' * (count > 1)} in {partitions} place{'s' * (partitions > 1)}"
    is_compared = any(len(members) > 1 for members in report.by_partition.values())
    return (
        "replicas agree, and every log is sound"
        if is_compared
        else "every log is sound; there were no replicas to compare"
    )


def _looked_at(report: Report, seconds: float) -> str:
    brokers = ", ".join(dict.fromkeys(directory.replica for directory in report.directories))
    speed = size(report.byte_count / seconds) if seconds else "-"
    return (
        f"{len(report.by_partition)} partitions, {len(report.ranges)} replicas on broker {brokers}: {report.batch_count:,} batches, "
        f"{size(report.byte_count)} in {seconds:.1f} s ({speed}/s)"
    )


def _partition(finding: Finding) -> str:
    return "-" if finding.topic is None else f"{finding.topic}-{finding.partition}"


def _finding(finding: Finding) -> dict[str, object]:
    return {
        "check": finding.check.value,
        "topic": finding.topic,
        "partition": finding.partition,
        "replicas": list(finding.replicas),
        "offset": finding.offset,
        "file": finding.file,
        "position": finding.position,
        "what": finding.what,
        "count": finding.count,
    }


def _partition_content(members: Sequence[LogRange]) -> dict[str, object]:
    from tidelog.pipeline.audit.report import compared_range

    partition = members[0].claims.topic_partition
    compared = compared_range(members)
    return {
        "topic": partition.topic,
        "partition": partition.index,
        "is_compacted": members[0].is_compacted,
        "compared_from": compared[0] if compared else None,
        "compared_to": compared[1] if compared else None,
        "replicas": [
            {
                "replica": each.claims.replica,
                "directory": each.claims.files.directory.path,
                "log_start_offset": each.start,
                "log_end_offset": each.end_offset,
                "high_watermark": each.claims.high_watermark,
                "segments": len(each.claims.files.segments),
                "bytes": each.claims.size,
                "batches": each.measured.batch_count,
                "records": each.measured.record_count,
            }
            for each in members
        ],
    }
