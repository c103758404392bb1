"""Look into the registry, where a cluster keeps who leads what. Nothing is changed."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.cli.arguments import add_format_argument, add_properties_argument, checked
from tidelog.cli.failure import EXIT_OK, CommandFailed, WrongUsage
from tidelog.cli.output import OutputFormat, is_coloured
from tidelog.cli.registry_address import add_registry_argument
from tidelog.cli.up import DEFAULT_DATA

if TYPE_CHECKING:
    from tidelog.cli.registry_tree import ShownNode

WITHIN_MS: Final = 5_000
_EXAMPLES: Final = """\
examples:
  tidelog registry show                                       the top of the tree in ./tidelog-data
  tidelog registry show /brokers -r                           brokers, topics, leaders and in-sync replicas
  tidelog registry show /controller --data /var/lib/tidelog
  tidelog registry show /brokers/topics/orders -r --format json
  tidelog registry show /brokers/ids -r --registry zookeeper://zk1:2181,zk2:2181/tidelog
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tidelog registry` and of its verb."""
    parser.epilog = _EXAMPLES
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    showing = verbs.add_parser("show", help="print nodes with their data, versions and owners", epilog=_EXAMPLES)
    showing.add_argument("path", nargs="?", default="/", type=checked(_path), metavar="PATH", help="(default: /)")
    showing.add_argument("-r", "--recursive", action="store_true", help="with everything below it")
    place = showing.add_mutually_exclusive_group()
    place.add_argument(
        "--data", type=Path, metavar="DIR", default=Path(DEFAULT_DATA),
        help=f"the directory of `tidelog up --data`, or a registry file itself (default: ./{DEFAULT_DATA})",
    )  # fmt: skip
    add_registry_argument(place, "a ZooKeeper ensemble instead")
    add_properties_argument(showing, "setting of a broker that ZooKeeper needs, such as for TLS; may be repeated")
    add_format_argument(showing)
    showing.set_defaults(run=run)


def _path(text: str) -> str:
    if not text.startswith("/") or "//" in text:
        raise ValueError(f"{text!r} is no path; one begins with a slash, such as /brokers/ids")
    return text.rstrip("/") or "/"


def run(options: argparse.Namespace) -> int:
    """Print what is there."""
    from tidelog.cli.loops import run as run_loop
    from tidelog.registry import NoNode, RegistryError, RegistryUnavailable

    read = _read_file(options) if options.registry is None else _read_ensemble(options)
    try:
        nodes = run_loop(read)
    except NoNode:
        raise CommandFailed(f"there is no node {options.path}") from None
    except (RegistryError, RegistryUnavailable) as error:
        raise CommandFailed(str(error)) from None
    _write(nodes, OutputFormat(options.format))
    return EXIT_OK


async def _read_file(options: argparse.Namespace) -> list[ShownNode]:
    from tidelog.cli.registry_file import opened
    from tidelog.cli.registry_tree import read_tree

    path = options.data if options.data.is_file() else options.data / "registry.sqlite"
    if not path.is_file():
        raise CommandFailed(f"there is no registry {path}\n  --data DIR says where `tidelog up` keeps its data")
    with opened(path.absolute()) as nodes:
        return await read_tree(nodes, options.path, is_recursive=options.recursive)


async def _read_ensemble(options: argparse.Namespace) -> list[ShownNode]:
    """ZooKeeper tells nothing without a session; ours is over at once and owns no node."""
    from tidelog.cli.registry import open_registry
    from tidelog.cli.registry_tree import read_tree
    from tidelog.config import BrokerConfig, ConfigError

    patience = {"zookeeper.connection.timeout.ms": str(WITHIN_MS), "zookeeper.session.timeout.ms": str(WITHIN_MS)}
    properties = {"zookeeper.connect": options.registry, **patience, **dict(options.properties)}
    try:
        config = BrokerConfig.from_properties(properties)
    except ConfigError as error:
        raise WrongUsage(str(error)) from None
    registry = open_registry(config)
    try:
        await registry.open_session()
        return await read_tree(registry, options.path, is_recursive=options.recursive)
    finally:
        await registry.close()


def _write(nodes: list[ShownNode], output_format: OutputFormat) -> None:
    from tidelog.cli.registry_tree import as_text

    if output_format is OutputFormat.JSON:
        sys.stdout.write(json.dumps([node.as_row() for node in nodes], indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(as_text(nodes, in_colour=is_coloured(sys.stdout)))
