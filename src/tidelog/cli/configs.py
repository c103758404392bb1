"""Show and change the settings of topics and brokers while they run."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import add_format_argument, checked, finish_verb, key_value
from tidelog.cli.config_changes import Change, Operation, Resource, parse_resource
from tidelog.cli.failure import EXIT_OK, WrongUsage
from tidelog.cli.output import OutputFormat, Row, write_rows

if TYPE_CHECKING:
    from tidelog.client import Cluster, ConsumerConfig
    from tidelog.runtime import Runtime
    from tidelog.wire.messages.describe_configs import DescribeConfigsResourceResult

COLUMNS: Final = ("name", "value", "source")
_SOURCES: Final = {1: "topic", 2: "broker", 3: "all brokers", 4: "static", 5: "default", 6: "logger"}
_SOURCE_OF_DEFAULTS: Final = 5

_EXAMPLES: Final = """\
examples:
  tidelog configs describe topic orders                      what was set; --all also what was not
  tidelog configs describe broker 1 --all --format json
  tidelog configs alter topic orders --set retention.ms=86400000 --unset cleanup.policy
  tidelog configs alter topic orders --append cleanup.policy=compact
  tidelog configs alter broker default --set log.retention.ms=3600000 --dry-run
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tidelog configs` and of its verbs."""
    parser.epilog = _EXAMPLES
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)

    describing = verbs.add_parser("describe", help="show settings and where they come from", epilog=_EXAMPLES)
    _add_resource(describing)
    describing.add_argument("-a", "--all", action="store_true", help="also those that have their default")
    add_format_argument(describing)
    finish_verb(describing, _describe)

    altering = verbs.add_parser("alter", help="change settings; those not named stay as they are", epilog=_EXAMPLES)
    _add_resource(altering)
    _add_changes(altering)
    altering.add_argument("--dry-run", action="store_true", help="only check whether it could be done")
    finish_verb(altering, _alter)


def _add_resource(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=("topic", "broker"), help="whose settings")
    parser.add_argument(
        "name", metavar="TOPIC|ID", help="a topic's name; a broker's number, or default for all brokers"
    )


def _add_changes(parser: argparse.ArgumentParser) -> None:
    for option, text in (
        ("--set", "give a setting a value"),
        ("--append", "add to a setting that is a list"),
        ("--subtract", "take away from a setting that is a list"),
    ):
        parser.add_argument(
            option, dest=f"configs_{option.removeprefix('--')}", action="append", default=[], metavar="KEY=VALUE",
            type=checked(key_value), help=f"{text}; may be repeated",
        )  # fmt: skip
    parser.add_argument(
        "--unset", dest="configs_unset", action="append", default=[], metavar="KEY",
        help="go back to the default; may be repeated",
    )  # fmt: skip


def changes_of(options: argparse.Namespace) -> list[Change]:
    """What the options want changed."""
    changes = [Change(Operation.SET, name, value) for name, value in options.configs_set]
    changes += [Change(Operation.APPEND, name, value) for name, value in options.configs_append]
    changes += [Change(Operation.SUBTRACT, name, value) for name, value in options.configs_subtract]
    changes += [Change(Operation.DELETE, name) for name in options.configs_unset]
    return changes


def _resource(options: argparse.Namespace) -> Resource:
    try:
        return parse_resource(options.kind, options.name)
    except ValueError as error:
        raise WrongUsage(str(error)) from None


async def _describe(options: argparse.Namespace, cluster: Cluster, _config: ConsumerConfig, _runtime: Runtime) -> int:
    resource = _resource(options)
    from tidelog.cli.administration import describe_configs

    found = await describe_configs(cluster, resource)
    rows = [config_row(each) for each in found if options.all or each.config_source != _SOURCE_OF_DEFAULTS]
    write_rows(sys.stdout, OutputFormat(options.format), COLUMNS, rows)
    return EXIT_OK


def config_row(config: DescribeConfigsResourceResult) -> Row:
    """A setting as it is shown."""
    return {
        "name": config.name,
        "value": "(hidden)" if config.is_sensitive else config.value,
        "source": _SOURCES.get(config.config_source, str(config.config_source)),
        "is_read_only": config.read_only,
        "documentation": config.documentation,
        "synonyms": [
            {"name": each.name, "value": each.value, "source": _SOURCES.get(each.source, str(each.source))}
            for each in config.synonyms
        ],
    }


async def _alter(options: argparse.Namespace, cluster: Cluster, _config: ConsumerConfig, _runtime: Runtime) -> int:
    resource, changes = _resource(options), changes_of(options)
    if not changes:
        raise WrongUsage("nothing to change: --set, --unset, --append or --subtract says what")
    from tidelog.cli.administration import alter_configs

    (await alter_configs(cluster, resource, changes, is_dry_run=options.dry_run)).check(str(resource))
    sys.stdout.write(f"{'could alter' if options.dry_run else 'altered'} {resource}\n")
    return EXIT_OK
