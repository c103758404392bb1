"""Run a broker, or a cluster of several, in the foreground until Ctrl-C or SIGTERM.

When all serve it prints one line to stdout: ready bootstrap=HOST:PORT[,HOST:PORT...]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import add_properties_argument, whole_number
from tidelog.cli.hints import other_clients, program
from tidelog.cli.plan import STDERR, Plan, add_log_format_argument, given_settings
from tidelog.cli.registry_address import add_registry_argument

if TYPE_CHECKING:
    from tidelog.cli.serving import Ready

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 9092
DEFAULT_DATA: Final = "tidelog-data"
BROKER_ID: Final = 1
INTERNAL_REPLICAS_MAX: Final = 3
INTERNAL_MIN_ISR_MAX: Final = 2
METRICS_ANYWHERE: Final = f"http://{DEFAULT_HOST}:0"
PORT_ADVICE: Final = "--port P chooses another port, --port 0 any free one"
HOST_ADVICE: Final = "--host HOST chooses another address of this machine"
BROKERS_MAX: Final = 30
"""On one machine: each is a process with an event loop of its own, so more than cores only share them, and each takes some 50 MB."""
_SIGN_OF_USE: Final = "meta.properties"  # every log directory has one from its first start on

_EXAMPLES: Final = """\
examples:
  tidelog up                                  127.0.0.1:9092, data in ./tidelog-data, kept for the next time
  tidelog up --brokers 3                      a cluster on ports 9092, 9093 and 9094; topics have 3 replicas
  tidelog up --port 0 --data /tmp/scratch     any free port; read it from the ready line
  tidelog up --host 0.0.0.0 -X advertised.listeners=PLAINTEXT://broker.example:9092
  tidelog up -X log.flush.interval.messages=1 every acknowledged record is on the disk, not only in the page cache
  tidelog up --ephemeral --port 0             for a test: nothing is left behind
  tidelog up --config server.properties       Kafka's own names; KAFKA_NUM_PARTITIONS=3 in the environment wins over the
                                              file, -X and the options above win over both
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tidelog up`."""
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--brokers", type=whole_number(low=1, high=BROKERS_MAX, what="a number of brokers, each of which wants a core"),
        default=1, metavar="N",
        help="how many brokers to run, each a process of its own. Unless settings say otherwise, topics then have as many replicas, "
        "3 at most; with 3 replicas min.insync.replicas is 2 (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--no-restart", action="store_true", help="of several brokers, do not start one again 2 s after it died"
    )
    parser.add_argument("--host", help=f"address to listen on (default: {DEFAULT_HOST})")
    parser.add_argument(
        "--port", type=whole_number(low=0, high=65535, what="a port"),
        help=f"port of the first broker, the others have those above it; 0 picks free ones (default: {DEFAULT_PORT})",
    )  # fmt: skip
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--data", type=Path, metavar="DIR",
        help=f"directory for everything that must survive; made if missing, used again if not (default: ./{DEFAULT_DATA})",
    )  # fmt: skip
    place.add_argument(
        "--ephemeral", action="store_true", help="keep nothing: a temporary directory, removed at the end"
    )
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="settings in the syntax of Kafka's server.properties"
    )
    add_registry_argument(parser, "where brokers coordinate (default: DIR/registry.sqlite)")
    add_properties_argument(
        parser, "setting of the broker by its Kafka name, e.g. -X num.partitions=3; may be repeated"
    )
    parser.add_argument(
        "--log-file", default=None, metavar="FILE",
        help="where the broker's log goes; - is stderr (default: DIR/logs/broker-N.log, and warnings also to stderr)",
    )  # fmt: skip
    add_log_format_argument(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until told to stop."""
    if not options.ephemeral:
        return _serve(options)
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="tidelog-", ignore_cleanup_errors=True) as directory:
        options.data = Path(directory)
        return _serve(options)


def _serve(options: argparse.Namespace) -> int:
    if options.brokers > 1:
        from tidelog.cli.cluster_up import serve_cluster

        return serve_cluster(options)
    plan = plan_from(options)
    had_data = is_used(plan)
    from tidelog.cli.serving import serve

    def announce(ready: Ready, plan: Plan) -> None:
        sys.stdout.write(f"ready bootstrap={ready.bootstrap}\n")
        if sys.stdout.isatty():
            sys.stdout.write(welcome(ready, plan, is_ephemeral=options.ephemeral, had_data=had_data))
        sys.stdout.flush()

    return serve(plan, announce=announce)


def is_used(plan: Plan) -> bool:
    """Whether a broker has had this data before."""
    try:
        return any((Path(directory.strip()) / _SIGN_OF_USE).exists() for directory in plan.data.split(","))
    except OSError:
        return False  # The broker will say what is wrong with it.


def plan_from(options: argparse.Namespace) -> Plan:
    """Turn options into a plan for one broker. Raises WrongUsage."""
    given = given_settings(options.config)
    data = data_of(options)
    explicit = {**given.properties, **_said(options, data), **dict(options.properties)}
    ground = _ground(data)
    if {"log.dirs", "log.dir"} & set(explicit):
        del (
            ground["log.dirs"],
            ground["tidelog.registry.path"],
        )  # the registry lies in the first log directory by itself
    if "broker.id" in explicit:  # the older name of node.id
        del ground["node.id"]
    return Plan(
        properties={**ground, **explicit},
        passed_over=given.passed_over,
        log_file=_log_file(options.log_file, data),
        log_format=options.log_format,
        port_advice=PORT_ADVICE,
        host_advice=HOST_ADVICE,
    )


def data_of(options: argparse.Namespace) -> Path:
    """The directory for everything."""
    return Path(DEFAULT_DATA if options.data is None else options.data).absolute()


def _ground(data: Path) -> dict[str, str]:
    """What holds unless a file or an option says otherwise."""
    return {
        "node.id": str(BROKER_ID),
        "log.dirs": str(data / f"broker-{BROKER_ID}"),
        "tidelog.registry.path": str(data / "registry.sqlite"),
        "listeners": f"PLAINTEXT://{DEFAULT_HOST}:{DEFAULT_PORT}",
        "metrics.listeners": METRICS_ANYWHERE,
        **coordinator_defaults(1),
    }


def coordinator_defaults(broker_count: int) -> dict[str, str]:
    """Groups and transactions as people expect them of brokers they try out: served by as many as there are, and without a wait."""
    replicas, min_isr = str(min(broker_count, INTERNAL_REPLICAS_MAX)), str(min(broker_count, INTERNAL_MIN_ISR_MAX))
    return {
        "offsets.topic.replication.factor": replicas,
        "tidelog.offsets.topic.min.insync.replicas": min_isr,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": min_isr,
        "group.initial.rebalance.delay.ms": "0",
    }


def _said(options: argparse.Namespace, data: Path) -> dict[str, str]:
    """What the options say; an option that is not there says nothing, so that a file can."""
    said = {}
    if options.data is not None:
        ground = _ground(data)
        said = {name: ground[name] for name in ("log.dirs", "tidelog.registry.path")}
    if options.host is not None or options.port is not None:
        host = DEFAULT_HOST if options.host is None else options.host
        said["listeners"] = f"PLAINTEXT://{bracketed(host)}:{DEFAULT_PORT if options.port is None else options.port}"
    if options.registry is not None:
        said["zookeeper.connect"] = options.registry
    return said


def welcome(ready: Ready, plan: Plan, *, is_ephemeral: bool = False, had_data: bool = False) -> str:
    """What a person at a terminal would like to know next."""
    first = ready.bootstrap.partition(",")[0]
    kept = "removed at the end" if is_ephemeral else "used again" if had_data else "new"
    name = program()
    to_try = [
        f"echo 'hello, world' | {name} produce -b {first} -t hello",
        f"{name} consume -b {first} -t hello -e",
        *other_clients(first),
    ]
    lines = "".join(f"  {line}\n" for line in to_try)
    return f"""
data     {plan.data} ({kept})
log      {plan.log_shown}
metrics  {" ".join(ready.metrics) or "not shown"}

try, in another terminal:
{lines}
Ctrl-C stops the broker; {"nothing is left behind" if is_ephemeral else "the data stays"}.
"""


def _log_file(asked: str | None, data: Path) -> Path | None:
    if asked == STDERR:
        return None
    return data / "logs" / f"broker-{BROKER_ID}.log" if asked is None else Path(asked).absolute()


def bracketed(host: str) -> str:
    """A host as addresses have it."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
