"""Run a broker in the foreground until Ctrl-C or SIGTERM.

When it serves it prints one line to stdout: ready bootstrap=HOST:PORT
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidelog.cli.arguments import add_properties_argument, whole_number
from tidelog.cli.failure import WrongUsage

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 9092
DEFAULT_DATA: Final = "tidelog-data"
STDERR: Final = "-"
BROKER_ID: Final = 1
LOG_FORMATS: Final = ("text", "json")

_EXAMPLES: Final = """\
examples:
  tidelog up                                  127.0.0.1:9092, data in ./tidelog-data, kept for the next time
  tidelog up --port 0 --data /tmp/scratch     any free port; read it from the ready line
  tidelog up --host 0.0.0.0 -X advertised.listeners=PLAINTEXT://broker.example:9092
  tidelog up -X log.flush.interval.messages=1 every acknowledged record is on the disk, not only in the page cache
  tidelog up --config server.properties       Kafka's own names; -X and the options above win
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What `up` is going to do."""

    properties: Mapping[str, str]
    data: str
    log_file: Path | None
    log_format: str

    @property
    def log_shown(self) -> str:
        """Where the user finds the log."""
        return "stderr" if self.log_file is None else str(self.log_file)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tidelog up`."""
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--brokers", type=whole_number(low=1, high=1000, what="a number of brokers"), default=1, metavar="N",
        help="how many brokers to run (this version: 1)",
    )  # fmt: skip
    parser.add_argument("--host", help=f"address to listen on (default: {DEFAULT_HOST})")
    parser.add_argument(
        "--port", type=whole_number(low=0, high=65535, what="a port"),
        help=f"port to listen on; 0 picks a free one (default: {DEFAULT_PORT})",
    )  # fmt: skip
    parser.add_argument(
        "--data", type=Path, metavar="DIR",
        help=f"directory for everything that must survive; made if missing (default: ./{DEFAULT_DATA})",
    )  # fmt: skip
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="settings in the syntax of Kafka's server.properties"
    )
    add_properties_argument(
        parser, "setting of the broker by its Kafka name, e.g. -X num.partitions=3; may be repeated"
    )
    parser.add_argument(
        "--log-file", default=None, metavar="FILE",
        help="where the broker's log goes; - is stderr (default: DIR/logs/broker-1.log, and warnings also to stderr)",
    )  # fmt: skip
    parser.add_argument(
        "--log-format", choices=LOG_FORMATS, default="text", help="for people or for programs (default: text)"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until told to stop."""
    plan = plan_from(options)
    from tidelog.cli.serving import serve

    return serve(plan, announce=_announce)


def plan_from(options: argparse.Namespace) -> Plan:
    """Turn options into a plan. Raises WrongUsage."""
    if options.brokers != 1:
        raise WrongUsage(
            f"--brokers {options.brokers}: this version runs one broker; several need replication, which is not there yet"
        )
    file = _from_file(options.config)
    data = Path(DEFAULT_DATA if options.data is None else options.data).absolute()
    explicit = {**file, **_said(options, data), **dict(options.properties)}
    properties = {**_ground(data), **explicit}
    if "log.dirs" in explicit and "tidelog.registry.path" not in explicit:
        del properties["tidelog.registry.path"]  # it lies beside the log directories by itself
    if "broker.id" in properties:  # the older name of node.id
        del properties["node.id"]
    return Plan(
        properties=properties,
        data=properties["log.dirs"],
        log_file=_log_file(options.log_file, data),
        log_format=options.log_format,
    )


def _ground(data: Path) -> dict[str, str]:
    """What holds unless a file or an option says otherwise."""
    return {
        "node.id": str(BROKER_ID),
        "log.dirs": str(data / f"broker-{BROKER_ID}"),
        "tidelog.registry.path": str(data / "registry.sqlite"),
        "listeners": f"PLAINTEXT://{DEFAULT_HOST}:{DEFAULT_PORT}",
    }


def _said(options: argparse.Namespace, data: Path) -> dict[str, str]:
    """What the options say; an option that is not there says nothing, so that a file can."""
    said = {}
    if options.data is not None:
        ground = _ground(data)
        said = {name: ground[name] for name in ("log.dirs", "tidelog.registry.path")}
    if options.host is not None or options.port is not None:
        host = DEFAULT_HOST if options.host is None else options.host
        said["listeners"] = f"PLAINTEXT://{_bracketed(host)}:{DEFAULT_PORT if options.port is None else options.port}"
    return said


def welcome(bootstrap: str, plan: Plan) -> str:
    """What a person at a terminal would like to know next."""
    first = bootstrap.partition(",")[0]
    return f"""
data  {plan.data}
log   {plan.log_shown}

try, in another terminal:
  echo 'hello, world' | tidelog produce -b {first} -t hello
  kcat -b {first} -t hello -C -e
  python -c "from confluent_kafka import Producer as P; p = P({{'bootstrap.servers': '{first}'}}); p.produce('hello', b'hi'); p.flush()"

Ctrl-C stops the broker; the data stays.
"""


def _announce(bootstrap: str, plan: Plan) -> None:
    sys.stdout.write(f"ready bootstrap={bootstrap}\n")
    if sys.stdout.isatty():
        sys.stdout.write(welcome(bootstrap, plan))
    sys.stdout.flush()


def _log_file(asked: str | None, data: Path) -> Path | None:
    if asked == STDERR:
        return None
    return data / "logs" / f"broker-{BROKER_ID}.log" if asked is None else Path(asked).absolute()


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _from_file(path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    from tidelog.config import ConfigError, parse_properties

    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUsage(f"--config {path}: {error}") from None
    except ConfigError as error:
        raise WrongUsage(f"--config {path}: {error}") from None
