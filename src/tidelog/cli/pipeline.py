"""Declared pipelines on Spark: set one up, run it once or always on, see how it gets on, and stop it."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Final

from tidelog.cli.arguments import BOOTSTRAP_VARIABLE, add_format_argument, add_quiet_argument, checked, key_value
from tidelog.cli.failure import EXIT_OK, CommandFailed, WrongUsage
from tidelog.cli.output import OutputFormat, write_rows

MASTER: Final = "local[2]"
_NO_MASTER: Final = re.compile(r"\s|^$|^sc://")
_LOCAL: Final = re.compile(r"local(\[(\d+|\*)(,(\d+|\*))?\])?|local-cluster\[\d+,\d+,\d+\]")

_EXAMPLES: Final = """\
examples:
  tidelog pipeline init orders                  a directory with a pipeline that works
  tidelog pipeline run orders                   read what is there, then end; the next run goes on behind it
  tidelog pipeline run orders --continuous      until Ctrl-C, or until somebody says `tidelog pipeline stop orders`
  tidelog pipeline run orders --full-refresh good
                                                begin anew with all that is written to `good`
  tidelog pipeline run orders --master spark://HOST:7077 --conf spark.executor.memory=2g
  tidelog pipeline list
  tidelog pipeline status orders --format json | jq '.flows[] | [.name, .rows_per_s, .lag]'

needs Spark: pip install 'tidelog[spark]'; docs/declared_pipelines.md tells more
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tidelog pipeline` and of its verbs."""
    parser.epilog = _EXAMPLES
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    init = verbs.add_parser("init", help="make a directory with a pipeline to begin with", epilog=_EXAMPLES)
    init.add_argument(
        "directory", metavar="NAME", type=Path, help="of the pipeline; the directory must not be there yet"
    )
    add_format_argument(init)
    init.set_defaults(run=_run_init)
    _add_run(verbs.add_parser("run", help="run a pipeline, once or always on", epilog=_EXAMPLES))
    listing = verbs.add_parser("list", help="name the pipelines that run here, or have run", epilog=_EXAMPLES)
    add_format_argument(listing)
    listing.set_defaults(run=_run_list)
    for verb, text, work in (
        ("status", "show how a pipeline gets on, or how its last run ended", _run_status),
        ("stop", "end a run in order", _run_stop),
    ):
        one = verbs.add_parser(verb, help=text, epilog=_EXAMPLES)
        one.add_argument(
            "pipeline", metavar="NAME|DIR", nargs="?", default=".", help="which (default: the one of this directory)"
        )
        add_format_argument(one)
        one.set_defaults(run=work)


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "place", metavar="DIR", nargs="?", type=Path, default=Path(),
        help="the directory of the pipeline, or its spec (default: this directory)",
    )  # fmt: skip
    parser.add_argument(
        "--continuous", action="store_true",
        help="run until stopped: append flows and streaming tables as streaming queries; a materialized view is refused",
    )  # fmt: skip
    parser.add_argument(
        "--full-refresh", metavar="NAMES", nargs="?", const="", type=str,
        help="forget what was done, and begin anew: all of it, or only what is written to these tables and sinks, with commas",
    )  # fmt: skip
    parser.add_argument(
        "--master", type=checked(master_of), default=MASTER,
        help=f"where Spark runs: local, local[THREADS], spark://HOST:PORT, yarn, k8s://... (default: {MASTER})",
    )  # fmt: skip
    parser.add_argument(
        "-b", "--bootstrap-server", metavar="HOST:PORT[,...]",
        help=f"brokers, for definition files that read ${BOOTSTRAP_VARIABLE}, as those of `init` do",
    )  # fmt: skip
    parser.add_argument(
        "-X", "--conf", dest="settings", metavar="KEY=VALUE", action="append", default=[], type=checked(key_value),
        help="setting of Spark, over that of the spec; may be repeated",
    )  # fmt: skip
    add_format_argument(parser)
    add_quiet_argument(parser)
    parser.set_defaults(run=_run_run)


def master_of(text: str) -> str:
    """A Spark master, as far as that can be told from its name. Raises ValueError."""
    if _NO_MASTER.search(text) or (text.startswith("local") and not _LOCAL.fullmatch(text)):
        raise ValueError(
            f"{text!r} is no Spark master: local, local[2], local[2,4], local-cluster[2,1,1024], spark://HOST:PORT, yarn, k8s://HOST:PORT"
        )
    return text


def _run_init(options: argparse.Namespace) -> int:
    from tidelog.pipeline.declared.skeleton import NotMade, make_pipeline

    try:
        files = make_pipeline(options.directory)
    except NotMade as failure:
        raise CommandFailed(str(failure)) from None
    if OutputFormat(options.format) is OutputFormat.JSON:
        write_rows(sys.stdout, OutputFormat.JSON, (), [{"file": str(file)} for file in files])
    else:
        sys.stdout.write("".join(f"made {file}\n" for file in files))
        sys.stdout.write(f"{files[-1]} says what to do next; then: tidelog pipeline run {options.directory}\n")
    return EXIT_OK


def _run_run(options: argparse.Namespace) -> int:
    names = options.full_refresh
    if names is not None and options.continuous:
        raise WrongUsage("--full-refresh goes with a triggered run: do one first, then run it with --continuous")
    _check_spark()
    from tidelog.cli.pipeline_run import run_pipeline

    return run_pipeline(options)


def _check_spark() -> None:
    """Say what is missing before anything is started. Raises CommandFailed."""
    import os

    from tidelog.pipeline.java import NoJava, find_java
    from tidelog.pipeline.session import SparkMissing, check_pipelines_installed

    try:
        check_pipelines_installed()
        find_java(os.environ)
    except (SparkMissing, NoJava) as failure:
        raise CommandFailed(str(failure)) from None


def _run_list(options: argparse.Namespace) -> int:
    from tidelog.cli.pipeline_show import show_list

    return show_list(OutputFormat(options.format))


def _run_status(options: argparse.Namespace) -> int:
    from tidelog.cli.pipeline_show import show_status

    return show_status(options.pipeline, OutputFormat(options.format))


def _run_stop(options: argparse.Namespace) -> int:
    from tidelog.cli.pipeline_show import stop

    return stop(options.pipeline, OutputFormat(options.format))
