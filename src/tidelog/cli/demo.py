"""See everything at work on this machine: brokers, a stream of orders, and a Spark pipeline that reads, writes and counts exactly once."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import add_format_argument, add_quiet_argument, checked, whole_number
from tidelog.cli.failure import WrongUsage

if TYPE_CHECKING:
    from tidelog.pipeline.demo.running import ShopPlan

BROKERS: Final = 3
PORT: Final = 9092
SHOP_RATE: Final = 500
PROOF_RATE: Final = 200
PROOF_SECONDS: Final = 60
SHOP_MASTER: Final = "local[2]"
PROOF_MASTER: Final = "local[2,4]"
RATE_MAX: Final = 20_000
SECONDS_MAX: Final = 86_400
SEED_MAX: Final = (1 << 63) - 1
MODES: Final = ("batch", "2pc", "at-least-once")
_MASTER: Final = re.compile(
    r"local(\[(\d+|\*)(,\d+)?\])?|local-cluster\[\d+,\d+,\d+\]|spark://[^\s/]+:\d+(,[^\s/]+:\d+)*"
)

_EXAMPLES: Final = """\
examples:
  tidelog demo shop                           until Ctrl-C; nothing is left behind
  tidelog demo shop --data ./shop --rate 2000 keeps everything, and goes on there the next time
  tidelog demo shop --seconds 60 --format json | jq -c '.queries[] | [.name, .rows_per_s, .lag]'
  tidelog demo exactly-once                   kill -9 of brokers, executors and the driver, then count
  tidelog demo exactly-once --seed 7 --mode 2pc --format json
  tidelog demo exactly-once --mode at-least-once
                                              the control: the same kills, and records are doubled

needs Spark: pip install 'tidelog[spark]'; docs/pipeline.md tells what happens
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tidelog demo` and of its verbs."""
    parser.epilog = _EXAMPLES
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    _add_shop(verbs.add_parser("shop", help="watch a shop: orders in, revenue out", epilog=_EXAMPLES))
    _add_proof(
        verbs.add_parser("exactly-once", help="kill parts of it at random, and count what came out", epilog=_EXAMPLES)
    )


def _add_shop(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--brokers", type=whole_number(low=1, high=9, what="a number of brokers"), default=BROKERS, metavar="N",
        help=f"how many brokers to run (default: {BROKERS})",
    )  # fmt: skip
    _add_seconds(parser, None, "stop after so many seconds (default: at Ctrl-C)")
    parser.add_argument(
        "--port", type=whole_number(low=0, high=65535, what="a port"), default=PORT,
        help=f"port of the first broker, the others have those above it; 0 picks free ones (default: {PORT})",
    )  # fmt: skip
    _add_common(parser, rate=SHOP_RATE, master=SHOP_MASTER)
    parser.add_argument(
        "--data", type=Path, metavar="DIR",
        help="directory for everything; made if missing, used again if not (default: a temporary one, removed at the end)",
    )  # fmt: skip
    parser.set_defaults(run=_run_shop)


def _add_proof(parser: argparse.ArgumentParser) -> None:
    _add_seconds(parser, PROOF_SECONDS, f"seconds of orders and kills (default: {PROOF_SECONDS})")
    _add_common(parser, rate=PROOF_RATE, master=PROOF_MASTER)
    parser.add_argument(
        "--data", type=Path, metavar="DIR",
        help="an empty directory for everything, kept (default: a temporary one, kept only if something is wrong)",
    )  # fmt: skip
    add_quiet_argument(parser)
    parser.set_defaults(run=_run_proof)


def _add_seconds(parser: argparse.ArgumentParser, default: int | None, text: str) -> None:
    parser.add_argument(
        "--seconds", type=whole_number(low=1, high=SECONDS_MAX, what="a number of seconds"), default=default,
        metavar="N", help=text,
    )  # fmt: skip


def _add_common(parser: argparse.ArgumentParser, *, rate: int, master: str) -> None:
    parser.add_argument(
        "--rate", type=whole_number(low=1, high=RATE_MAX, what="a number of orders a second"), default=rate,
        metavar="R", help=f"orders a second (default: {rate})",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=whole_number(low=0, high=SEED_MAX, what="a seed"), metavar="S",
        help="decides the orders, and who is killed when (default: a fresh one, which is told)",
    )  # fmt: skip
    parser.add_argument(
        "--mode", choices=MODES, default=MODES[0],
        help="how micro-batches are committed: in one transaction each, in one per task that is finished in two phases, or in none "
        f"(default: {MODES[0]})",
    )  # fmt: skip
    parser.add_argument(
        "--master", type=checked(master_of), default=master,
        help="where Spark runs: local[THREADS], local[THREADS,TRIES], local-cluster[EXECUTORS,CORES,MB] or spark://HOST:PORT "
        f"(default: {master})",
    )  # fmt: skip
    add_format_argument(parser)


def master_of(text: str) -> str:
    """A Spark master that can run the demo. Raises ValueError."""
    if not _MASTER.fullmatch(text):
        raise ValueError(
            f"{text!r} is no Spark master: local[2], local[2,4], local-cluster[2,1,1024], spark://HOST:PORT"
        )
    return text


def _run_shop(options: argparse.Namespace) -> int:
    from tidelog.cli.spark_wanted import check_spark

    check_spark()
    from tidelog.cli.demo_shop import run_shop

    return run_shop(options, _plan(options, brokers=options.brokers, port=options.port))


def _run_proof(options: argparse.Namespace) -> int:
    if options.data is not None and options.data.exists() and any(options.data.iterdir()):
        raise WrongUsage(f"--data {options.data}: not empty; what it holds would be counted, too")
    from tidelog.cli.spark_wanted import check_spark

    check_spark()
    from tidelog.cli.demo_exactly_once import run_proof

    return run_proof(options, _plan(options, brokers=BROKERS, port=0))


def _plan(options: argparse.Namespace, *, brokers: int, port: int) -> ShopPlan:
    """What was asked for; the directory is said later, if it is not said yet."""
    from tidelog.pipeline.demo.running import ShopPlan
    from tidelog.runtime.real import RealRandomness

    return ShopPlan(
        data=Path() if options.data is None else options.data.absolute(),
        broker_count=brokers,
        port=port,
        master=options.master,
        commit_mode=options.mode,
        orders_per_second=options.rate,
        seed=RealRandomness().below(1 << 32) if options.seed is None else options.seed,
    )
