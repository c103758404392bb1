"""Put production brokers into a simulated world, let faults hit them, and check that nothing happens that may never happen.

Network, disks, clocks and registry are simulated and everything follows from the seed: a run can be repeated to the last byte.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import add_format_argument, add_quiet_argument, checked, whole_number
from tidelog.cli.failure import EXIT_OK, WrongUsage

if TYPE_CHECKING:
    from tidelog.simulation.faults import FaultPlan
    from tidelog.simulation.verdict import Trial

SECONDS: Final = 20
SECONDS_MAX: Final = 86_400
SEED_MAX: Final = (1 << 63) - 1
SEEDS_MAX: Final = 10_000_000
TRUNCATIONS: Final = ("leader-epoch", "high-watermark")

_EXAMPLES: Final = """\
examples:
  tidelog sim run --seed 7                              one run; the seed decides everything
  tidelog sim soak --seeds 1..200                       many, on all cores
  tidelog sim soak --seeds 1..50 --truncation high-watermark
                                                        Kafka before 0.11: watch it lose records
  tidelog sim plan --seed 7 > plan.json                 what the seed does to the cluster, to be edited
  tidelog sim run --seed 7 --faults plan.json           do that instead
  tidelog sim faults                                    what a plan may contain

exits with 1 when something happened that may never happen; docs/simulation.md tells how to read a trace
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tidelog sim` and of its verbs."""
    parser.epilog = _EXAMPLES
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    _add_run(verbs.add_parser("run", help="run one seed, and shrink its plan if it fails", epilog=_EXAMPLES))
    _add_soak(verbs.add_parser("soak", help="run many seeds side by side", epilog=_EXAMPLES))
    plan = verbs.add_parser("plan", help="print the fault plan that a seed draws", epilog=_EXAMPLES)
    _add_seed(plan, is_required=True)
    _add_seconds(plan)
    plan.set_defaults(run=_print_plan)
    faults = verbs.add_parser("faults", help="list the faults a plan may contain", epilog=_EXAMPLES)
    faults.set_defaults(run=_print_faults)


def _add_run(parser: argparse.ArgumentParser) -> None:
    _add_seed(parser, is_required=False)
    _add_common(parser)
    parser.add_argument(
        "--trace", type=Path, metavar="FILE",
        help="write the whole trace there (default: tidelog-sim-SEED.trace, and only if something is wrong)",
    )  # fmt: skip
    parser.add_argument("--no-shrink", action="store_true", help="do not look for a smaller plan that fails alike")
    parser.set_defaults(run=_run_one)


def _add_soak(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seeds", type=checked(seeds_of), required=True, metavar="A..B", help="the first and the last seed, or one"
    )
    _add_common(parser)
    parser.add_argument(
        "--jobs", type=whole_number(low=1, high=1024, what="a number of jobs"), default=cores(), metavar="J",
        help="how many run at a time (default: as many as there are cores)",
    )  # fmt: skip
    parser.add_argument(
        "--stop-at-first", action="store_true", help="end with the first violation (default: go on, report all)"
    )
    parser.add_argument(
        "--traces", type=Path, default=Path(), metavar="DIR", help="where traces of failed seeds go (default: here)"
    )
    parser.set_defaults(run=_run_many)


def _add_common(parser: argparse.ArgumentParser) -> None:
    _add_seconds(parser)
    parser.add_argument("--faults", type=Path, metavar="FILE", help="a fault plan (default: each seed draws its own)")
    parser.add_argument(
        "--truncation", choices=TRUNCATIONS, default=TRUNCATIONS[0],
        help="how followers find where to cut their logs: by leader epochs, or by high watermark, which loses records "
        "(default: leader-epoch)",
    )  # fmt: skip
    add_quiet_argument(parser)
    add_format_argument(parser)


def _add_seed(parser: argparse.ArgumentParser, *, is_required: bool) -> None:
    parser.add_argument(
        "--seed", type=whole_number(low=0, high=SEED_MAX, what="a seed"), required=is_required, metavar="N",
        help="decides everything" if is_required else "decides everything (default: a fresh one, which is told)",
    )  # fmt: skip


def _add_seconds(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds", type=whole_number(low=1, high=SECONDS_MAX, what="a number of seconds"), default=SECONDS,
        metavar="S", help=f"simulated seconds of load and faults (default: {SECONDS})",
    )  # fmt: skip


def seeds_of(text: str) -> range:
    """Read `A..B`, both included, or one seed. Raises ValueError."""
    first, dots, last = text.partition("..")
    try:
        low, high = int(first), int(last if dots else first)
    except ValueError:
        raise ValueError(f"{text!r} is not of the form A..B, e.g. 1..200") from None
    if not 0 <= low <= high <= SEED_MAX:
        raise ValueError(f"{text!r}: seeds go up from 0, e.g. 1..200")
    if high - low >= SEEDS_MAX:
        raise ValueError(f"{text!r} are more than {SEEDS_MAX:,} seeds")
    return range(low, high + 1)


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def plan_from(path: Path | None, *, seconds: int) -> FaultPlan | None:
    """The plan in a file. Raises WrongUsage, also for one whose faults come after the load has ended."""
    from tidelog.simulation.faults import FaultPlan, PlanError

    if path is None:
        return None
    try:
        plan = FaultPlan.from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WrongUsage(f"--faults {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise WrongUsage(f"--faults {path}: not a text in UTF-8") from None
    except PlanError as error:
        raise WrongUsage(f"--faults {path}: {error}") from None
    last_ms = max((fault.at_ms for fault in plan.faults), default=0)
    if last_ms >= seconds * 1000:
        raise WrongUsage(
            f"--faults {path}: the last fault comes at {last_ms} ms, after the {seconds} s of load; use --seconds {last_ms // 1000 + 1}"
        )
    return plan


def _trial(options: argparse.Namespace, seed: int) -> Trial:
    from tidelog.simulation.verdict import Trial

    plan = plan_from(options.faults, seconds=options.seconds)
    return Trial(seed=seed, seconds=options.seconds, plan=plan, truncation=options.truncation)


def _run_one(options: argparse.Namespace) -> int:
    from tidelog.cli.sim_run import run_one
    from tidelog.runtime.real import RealRandomness

    seed = RealRandomness().below(1 << 32) if options.seed is None else options.seed
    return run_one(_trial(options, seed), options)


def _run_many(options: argparse.Namespace) -> int:
    from dataclasses import replace

    from tidelog.cli.sim_soak import run_many

    if not options.traces.is_dir():
        raise WrongUsage(f"--traces {options.traces}: not a directory")
    pattern = _trial(options, 0)
    return run_many((replace(pattern, seed=seed) for seed in options.seeds), options)


def _print_plan(options: argparse.Namespace) -> int:
    from tidelog.simulation.run import plan_of
    from tidelog.simulation.verdict import Trial

    sys.stdout.write(plan_of(Trial(seed=options.seed, seconds=options.seconds)).to_json())
    return EXIT_OK


def _print_faults(options: argparse.Namespace) -> int:
    from tidelog.simulation.faults import describe_menu

    del options
    sys.stdout.write(describe_menu() + "\n")
    return EXIT_OK
