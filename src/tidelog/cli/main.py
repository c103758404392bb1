"""Finds the command that was named, parses its arguments and turns its outcome into an exit code.

Exit codes: 0 done, 1 failed, 2 misunderstood; 130 and 141 when Ctrl-C or the reader of our output ended it, as for any
Unix program. Results go to stdout, everything else to stderr.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, cast

from tidelog import __version__
from tidelog.cli.failure import EXIT_BROKEN_PIPE, EXIT_INTERRUPTED, CommandFailed
from tidelog.cli.parser import Parser


@dataclass(frozen=True, slots=True)
class Command:
    """A word after `tidelog`, the module that knows it, and what it does in a line."""

    name: str
    module: str
    summary: str


class CommandModule(Protocol):
    """What every command's module offers."""

    __doc__: str | None

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments, and with `set_defaults(run=...)` the function (options) -> exit code."""
        ...


COMMANDS: Final = (
    Command("up", "tidelog.cli.up", "run a broker or a cluster in the foreground, ready to try"),
    Command("broker", "tidelog.cli.broker", "run a broker from a file, for a supervisor"),
    Command("produce", "tidelog.cli.produce", "send lines, files or JSON as records"),
    Command("consume", "tidelog.cli.consume", "print the records of a topic"),
    Command("topics", "tidelog.cli.topics", "create, list, describe, alter and delete topics"),
    Command("groups", "tidelog.cli.groups", "list, describe, reset and delete consumer groups"),
    Command("transactions", "tidelog.cli.transactions", "list, describe and end transactions; find hanging ones"),
    Command("configs", "tidelog.cli.configs", "show and change settings of topics and brokers"),
    Command("replicas", "tidelog.cli.replicas", "show every replica: role, offsets, lag, in sync or not"),
    Command("leaders", "tidelog.cli.leaders", "elect leaders of partitions"),
    Command("brokers", "tidelog.cli.brokers", "list and describe brokers"),
    Command("fault", "tidelog.cli.fault", "let brokers that were started for tests fail on purpose"),
    Command("status", "tidelog.cli.status", "show brokers, sizes and what is wrong"),
    Command("metrics", "tidelog.cli.metrics", "show what brokers count and measure"),
    Command("registry", "tidelog.cli.registry_show", "look into the registry where a cluster coordinates"),
    Command("log", "tidelog.cli.log", "look into the files of a log (Tidelog's or Kafka's)"),
    Command("audit", "tidelog.cli.audit", "prove from their files that replicas agree"),
    Command("scenario", "tidelog.cli.scenario", "watch stories about replication, step by step"),
    Command("sim", "tidelog.cli.sim", "prove it: a simulated cluster, faults from a seed, checkers"),
    Command("pipeline", "tidelog.cli.pipeline", "declare pipelines on Spark, run them once or always on"),
    Command("demo", "tidelog.cli.demo", "see a pipeline on Spark, exactly once, and prove it"),
    Command("completion", "tidelog.cli.completion", "make the Tab key complete all this"),
)

_EXAMPLES: Final = """\
examples:
  tidelog up                                      a broker on 127.0.0.1:9092, data in ./tidelog-data
  tidelog up --brokers 3                          a cluster of three on ports 9092 to 9094
  echo hello | tidelog produce -t greetings       one record per line
  tidelog consume -t greetings -e                 all there is, then exit
  tidelog topics create orders --partitions 6
  tidelog log dump tidelog-data/broker-1/orders-0/*.log

`tidelog COMMAND --help` tells more.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = parser_for(arguments).parse_args(arguments)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except CommandFailed as failure:
        sys.stderr.write(f"tidelog: {failure}\n")
        return failure.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output (head, less) has gone: there is nobody left to tell. Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    return code


def parser_for(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """A parser that understands the command these arguments name."""
    return _parser(_named_command(arguments))


def _named_command(arguments: Sequence[str]) -> Command | None:
    words = [argument for argument in arguments if not argument.startswith("-")]
    return next((command for command in COMMANDS if words and command.name == words[0]), None)


def _parser(named: Command | None) -> argparse.ArgumentParser:
    """The whole parser, with arguments only for the command that was named: the others are not even imported."""
    parser = Parser(
        prog="tidelog", description="A replicated log that speaks the Kafka wire protocol.", epilog=_EXAMPLES
    )
    parser.add_argument("--version", action="version", version=f"tidelog {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, dest="command")
    for command in COMMANDS:
        subparser = commands.add_parser(command.name, help=command.summary)
        if command is named:
            module = cast("CommandModule", importlib.import_module(command.module))
            subparser.description = module.__doc__
            module.add_arguments(subparser)
    return parser
