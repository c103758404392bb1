"""Spark: `python -m benchmarks.spark [LOAD...]`, our source and sink beside Spark's own Kafka connector, on the same brokers.

source: a batch query over a topic, all columns and two of them. sink: large micro-batches to a topic, ours exactly once, the connector's at
least once. overhead: micro-batches of a row per partition, from topic to topic. Both are in one session, warm, and take turns.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import Final

from benchmarks.loads import Reading
from benchmarks.spark_bed import CONNECTOR, MASTER, OURS, TUNED, Side, bed, in_mode
from benchmarks.spark_loads import LOADS, Case, Scale
from benchmarks.statistics import Summary, ratio
from tests.compatibility.apache_kafka import ToolMissing, version
from tests.compatibility.spark_connector import CONNECTOR_POM
from tidelog.pipeline.java import NoJava
from tidelog.pipeline.session import SparkMissing

ROUNDS_MIN: Final = 3
ROWS_MIN: Final = 500_000
MODES: Final = ("batch", "2pc", "at-least-once")


def _measure(case: Case, sides: list[Side], *, warmup: int, rounds: int) -> dict[str, dict[str, list[Reading]]]:
    results: dict[str, dict[str, list[Reading]]] = defaultdict(lambda: defaultdict(list))
    case.check(sides)
    for number in range(warmup + rounds):
        for side in sides if number % 2 == 0 else reversed(sides):
            for one in case.run(side):
                if number >= warmup:
                    results[one.name][side.name].append(one)
    return results


def _report(case: Case, sides: list[Side], results: dict[str, dict[str, list[Reading]]]) -> None:
    for name, by_side in results.items():
        summaries = {side.name: Summary(tuple(one.value for one in by_side[side.name])) for side in sides}
        one = by_side[sides[0].name][0]
        better = "higher" if one.is_better_high else "lower"
        cells = [f"{side.name} {summaries[side.name]}" for side in sides]
        print(f"{case.title}: {name:<21} {one.unit:<6} {'   '.join(cells)}   ({better} is better)")
        bar = "" if case.bar is None else f", wanted at least {case.bar}x"
        for side, rival in product(sides, sides):
            if side.form == "tidelog" and rival.form == "kafka":
                print(f"    {side.name} / {rival.name}: {ratio(summaries[side.name], summaries[rival.name])}{bar}")
    sys.stdout.flush()


def _sides(load: str, options: argparse.Namespace) -> list[Side]:
    ours = [OURS] if load == "source" else [in_mode(mode) for mode in options.modes]
    return [*ours, CONNECTOR, *([TUNED] if options.tuned else [])]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("loads", nargs="*", choices=[[], *LOADS], metavar="LOAD", help=f"which of {', '.join(LOADS)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=2, help="rounds before those, for compilers and caches")
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    parser.add_argument("--rows", type=int, default=2_000_000, help="of 100 bytes per round; half as many of 1 kB")
    parser.add_argument("--micro-batches", type=int, default=4, help="into which those rows are divided for the sink")
    parser.add_argument("--small-micro-batches", type=int, default=40, help="per round, for the overhead")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=["batch"], help="of our sink")
    parser.add_argument("--tuned", action="store_true", help="the connector once more, with the sizes that ours has")
    return parser.parse_args()


def main() -> int:
    """Measure and print; returns the exit code."""
    options = _options()
    scale = Scale(
        rows=options.rows, micro_batches=options.micro_batches, small_micro_batches=options.small_micro_batches
    )
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {MASTER}, ", end="")
    print(f"{options.brokers} broker(s), connector {version(CONNECTOR_POM)}, ", end="")
    print(f"load average before: {os.getloadavg()[0]:.1f}", flush=True)
    if options.rounds < ROUNDS_MIN or options.rows < ROWS_MIN:
        print(f"a trial: fewer than {ROUNDS_MIN} rounds or {ROWS_MIN:,} rows compare nothing but starts", flush=True)
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as temporary:
        try:
            with bed(Path(temporary), options.brokers) as made:
                for load in options.loads or LOADS:
                    print(f"{load}: {LOADS[load].__doc__}", flush=True)
                    sides = _sides(load, options)
                    for case in LOADS[load](made, scale):
                        results = _measure(case, sides, warmup=options.warmup, rounds=options.rounds)
                        _report(case, sides, results)
        except (ToolMissing, NoJava, SparkMissing) as missing:
            print(missing, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
