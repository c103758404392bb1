"""Run one broker from a configuration file, for a supervisor: systemd, a container, a shell script.

Logs go to stderr. When it serves it prints one line to stdout: ready bootstrap=HOST:PORT
SIGTERM and SIGINT stop it cleanly. Exits with 0 after a clean stop, 1 when it could not serve, 2 when a setting is wrong.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import add_properties_argument
from tidelog.cli.plan import STDERR, Plan, add_log_format_argument, given_settings

if TYPE_CHECKING:
    from tidelog.cli.serving import Ready

_EXAMPLES: Final = """\
examples:
  tidelog broker --config server.properties
  tidelog broker --config server.properties -X num.partitions=6 -X log.dirs=/var/lib/tidelog
  KAFKA_LOG_RETENTION_HOURS=24 tidelog broker --config server.properties
  tidelog broker --config server.properties --log-format json 2>> broker.log

settings have Kafka's names (docs/configuration.md). -X wins over the environment, the environment over the file:
num.partitions is KAFKA_NUM_PARTITIONS there, _ standing for a dot, __ for an underscore, ___ for a dash.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tidelog broker`."""
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--config", type=Path, required=True, metavar="FILE", help="settings in the syntax of Kafka's server.properties"
    )
    add_properties_argument(
        parser, "setting of the broker by its Kafka name, e.g. -X num.partitions=3; may be repeated"
    )
    parser.add_argument(
        "--log-file", default=STDERR, metavar="FILE", help="where the log goes instead; rotated at 16 MiB"
    )
    add_log_format_argument(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until told to stop."""
    plan = plan_from(options)
    from tidelog.cli.serving import serve

    return serve(plan, announce=_announce)


def plan_from(options: argparse.Namespace) -> Plan:
    """Turn options into a plan. Raises WrongUsage."""
    given = given_settings(options.config)
    return Plan(
        properties={**given.properties, **dict(options.properties)},
        passed_over=given.passed_over,
        log_file=None if options.log_file == STDERR else Path(options.log_file).absolute(),
        log_format=options.log_format,
        port_advice="listeners=PLAINTEXT://HOST:PORT chooses another port",
        host_advice="listeners=PLAINTEXT://HOST:PORT chooses another address of this machine",
    )


def _announce(ready: Ready, _plan: Plan) -> None:
    sys.stdout.write(f"ready bootstrap={ready.bootstrap}\n")
    sys.stdout.flush()
