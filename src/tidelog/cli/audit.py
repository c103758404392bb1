"""Prove from the files of brokers, Tidelog's or Apache Kafka's, that replicas agree and every log is sound; on Spark, all cores at once."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import add_format_argument, add_quiet_argument, checked, whole_number
from tidelog.cli.demo import master_of
from tidelog.cli.failure import EXIT_FAILED, EXIT_OK, WrongUsage

if TYPE_CHECKING:
    from tidelog.pipeline.audit.report import Report
    from tidelog.pipeline.audit.running import AuditPlan

MASTER: Final = "local[*]"
REPLICAS_MAX: Final = 60
_LOCK_KINDS: Final = ("FLOCK", "POSIX")

_EXAMPLES: Final = """\
examples:
  tidelog audit --data ./tidelog-data                      every broker of `tidelog up --brokers 3`
  tidelog audit --data /a/broker-1 /b/broker-2 /c/broker-3 copies from three machines, side by side
  tidelog audit --data ./tidelog-data --topic orders --format json | jq '.findings[]'
  tidelog audit --data ./tidelog-data --live               while the brokers run: what is below the high watermark
  tidelog audit --data ./tidelog-data --replicas 3         a partition with fewer replicas is a finding

exits with 0 if all is well, with 1 if something was found or the audit failed, with 2 if it cannot be done as asked
needs Spark: pip install 'tidelog[spark]'; docs/audit.md tells what is checked and what is not
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tidelog audit`."""
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--data", nargs="+", action="extend", required=True, metavar="DIR",
        help="data directories of brokers, or a directory that holds them; may be repeated. Several of one broker are one replica",
    )  # fmt: skip
    parser.add_argument(
        "--topic",
        action="append",
        metavar="TOPIC",
        help="only this topic; may be repeated (default: all, internal ones too)",
    )
    parser.add_argument(
        "--compacted", action="append", default=[], metavar="TOPIC",
        help="this topic is compacted, so offsets may be missing; may be repeated (default: as far as the files show it)",
    )  # fmt: skip
    parser.add_argument(
        "--replicas", type=whole_number(low=1, high=REPLICAS_MAX, what="a number of replicas"), metavar="N",
        help="every partition must have so many replicas (default: those that are there are compared)",
    )  # fmt: skip
    parser.add_argument(
        "--live", action="store_true",
        help="brokers may be at work: audit what is below the high watermarks they have written down, and nothing above",
    )  # fmt: skip
    parser.add_argument(
        "--master", type=checked(master_of), default=MASTER,
        help=f"where Spark runs; all its workers must see the directories under the same names (default: {MASTER})",
    )  # fmt: skip
    add_quiet_argument(parser)
    add_format_argument(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Audit, print the report; the exit code says whether anything was found."""
    from tidelog.cli.spark_wanted import check_spark

    check_spark()  # before the next import, which needs what a plain installation lacks
    from tidelog.cli.audit_running import audit_on_spark

    plan = _plan(options)
    _check_directories(plan)
    report, seconds = audit_on_spark(plan, master=options.master, is_quiet=options.quiet)
    _write(report, seconds, options)
    return EXIT_FAILED if report.findings else EXIT_OK


def _plan(options: argparse.Namespace) -> AuditPlan:
    from tidelog.pipeline.audit.running import AuditPlan

    return AuditPlan(
        directories=tuple(options.data),
        topics=None if options.topic is None else tuple(dict.fromkeys(options.topic)),
        compacted=tuple(options.compacted),
        replica_count=options.replicas,
        is_live=options.live,
    )


def _check_directories(plan: AuditPlan) -> None:
    """Refuse what cannot be audited before Spark is started. Raises WrongUsage."""
    from tidelog.cli.lock_holder import lock_holder
    from tidelog.pipeline.audit.claims import read_claims
    from tidelog.pipeline.audit.running import check_found
    from tidelog.pipeline.segments.directories import DirectoryRefused
    from tidelog.storage.names import LOCK

    try:
        claims = read_claims(plan.directories, plan.topics)
        check_found(claims, plan)
    except DirectoryRefused as refused:
        raise WrongUsage(f"--data {refused}") from None
    for directory in claims.directories if not plan.is_live else ():
        holder = lock_holder(Path(directory.path, LOCK), kinds=_LOCK_KINDS)
        if holder is not None:
            raise WrongUsage(
                f"--data {directory.path}: a broker is at work in it ({holder}): stop it, or add --live to audit what is below "
                "the high watermark"
            )


def _write(report: Report, seconds: float, options: argparse.Namespace) -> None:
    from tidelog.cli.audit_report import write_report
    from tidelog.cli.output import OutputFormat

    write_report(sys.stdout, OutputFormat(options.format), report, seconds)
