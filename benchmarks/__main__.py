"""Runs every load against every target, taking turns, and prints medians, spreads and ratios."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

from benchmarks.lifecycle import LIFECYCLES, STARTS
from benchmarks.loads import LOADS, Reading, Scale, own_topic
from benchmarks.statistics import Summary, ratio
from benchmarks.targets import Target, kafka, tidelog
from tests.compatibility.apache_kafka import ToolMissing


def main() -> int:
    """Measure and print; returns the exit code."""
    options = _options()
    scale = Scale(throughput_bytes=options.megabytes * 1_000_000, request_count=options.requests)
    with (
        tempfile.TemporaryDirectory(prefix="tidelog-bench-", dir=options.directory) as directory,
        ExitStack() as running,
    ):
        targets = [running.enter_context(tidelog(Path(directory), *options.up))]
        if options.kafka:
            try:
                targets.append(running.enter_context(kafka(Path(directory))))
            except ToolMissing as missing:
                print(missing, file=sys.stderr)
                return 1
        load = os.getloadavg()[0]
        print(
            f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, load average before: {load:.1f}"
        )
        print("the load generators share the machine with the broker; reads come from the page cache")
        print(f"{options.rounds} rounds after {options.warmup} to warm up; median ± half the range\n", flush=True)
        chosen = options.loads or [*LOADS, *LIFECYCLES]
        for name in [load for load in chosen if load in LOADS]:
            print(f"{name}: {LOADS[name].__doc__}")
            _report([target.name for target in targets], _measure(targets, name, scale, options))
        names = [target.name for target in targets]
        running.close()  # The rest starts brokers of its own, on a machine that has nothing else to do.
        for name in [load for load in chosen if load in LIFECYCLES]:
            print(f"{name}: {LIFECYCLES[name].__doc__}")
            _report(names, _measure_lifecycle(names, name, Path(directory) / "own", options))
    return 0


Results = dict[str, dict[str, list[Reading]]]
_LIFECYCLE_ROUNDS = 3


def _measure(targets: list[Target], load: str, scale: Scale, options: argparse.Namespace) -> Results:
    """Readings by name and target. Targets take turns, so that a slow minute of the machine hits all of them."""
    results: Results = defaultdict(lambda: defaultdict(list))
    for number in range(options.warmup + options.rounds):
        for target in targets if number % 2 == 0 else reversed(targets):
            with own_topic(target, f"bench-{load}-{number}") as topic:
                readings = LOADS[load](target, topic, scale)
            for reading in readings if number >= options.warmup else []:
                results[reading.name][target.name].append(reading)
    return results


def _measure_lifecycle(targets: list[str], load: str, directory: Path, options: argparse.Namespace) -> Results:
    results: Results = defaultdict(lambda: defaultdict(list))
    for number in range(min(options.rounds, _LIFECYCLE_ROUNDS)):
        for target in targets if number % 2 == 0 else reversed(targets):
            for reading in LIFECYCLES[load](STARTS[target], target, directory):
                results[reading.name][target].append(reading)
    return results


def _report(targets: list[str], results: Results) -> None:
    for name, by_target in results.items():
        one = by_target[targets[0]][0]
        summaries = [Summary(tuple(reading.value for reading in by_target[target])) for target in targets]
        cells = [f"{target} {summary}" for target, summary in zip(targets, summaries, strict=True)]
        compared = f"   ratio {ratio(summaries[0], summaries[1])}" if len(summaries) > 1 else ""
        better = "higher" if one.is_better_high else "lower"
        print(f"{name:<26} {one.unit:<9} {'   '.join(cells)}{compared}   ({better} is better)", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "loads",
        nargs="*",
        choices=[[], *LOADS, *LIFECYCLES],
        metavar="LOAD",
        help=f"which of {', '.join([*LOADS, *LIFECYCLES])} (default: all)",
    )
    parser.add_argument(
        "--kafka", action="store_true", help="measure Apache Kafka beside it (fetched with Maven, needs Java)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="counted runs per target (default: 5)")
    parser.add_argument(
        "--warmup", type=int, default=4, help="runs before those, for compilers and caches (default: 4)"
    )
    parser.add_argument("--megabytes", type=int, default=200, help="bytes per throughput run (default: 200)")
    parser.add_argument("--requests", type=int, default=5_000, help="requests per latency run (default: 5000)")
    parser.add_argument("--directory", help="where the brokers keep their data meanwhile (default: the system's)")
    parser.add_argument(
        "--up", action="append", default=[], metavar="OPTION", help="passed to `tidelog up`, e.g. --up=-Xa=b"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
