"""Finds the command that was named, parses its arguments and turns its outcome into an exit code.

Exit codes: 0 done, 1 failed, 2 misunderstood. Results go to stdout, everything else to stderr.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NoReturn, Protocol, cast

from tidelog import __version__
from tidelog.cli.failure import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE, CommandFailed


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
    Command("up", "tidelog.cli.up", "run a broker in the foreground, ready to try"),
    Command("broker", "tidelog.cli.broker", "run a broker from a configuration file, for a supervisor"),
    Command("produce", "tidelog.cli.produce", "send lines, files or JSON as records"),
    Command("consume", "tidelog.cli.consume", "print the records of a topic"),
    Command("topics", "tidelog.cli.topics", "create, list, describe and delete topics"),
    Command("log", "tidelog.cli.log", "look into the files of a log (Tidelog's or Kafka's)"),
)

_EXAMPLES: Final = """\
examples:
  tidelog up                                      a broker on 127.0.0.1:9092, data in ./tidelog-data
  echo hello | tidelog produce -t greetings       one record per line
  tidelog consume -t greetings -e                 all there is, then exit
  tidelog topics create orders --partitions 6
  tidelog log dump tidelog-data/broker-1/orders-0/*.log

`tidelog COMMAND --help` tells more.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = _parser(_named_command(arguments)).parse_args(arguments)
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
        return EXIT_FAILED
    return code


def _named_command(arguments: Sequence[str]) -> Command | None:
    words = [argument for argument in arguments if not argument.startswith("-")]
    return next((command for command in COMMANDS if words and command.name == words[0]), None)


def _parser(named: Command | None) -> argparse.ArgumentParser:
    """The whole parser, with arguments only for the command that was named: the others are not even imported."""
    parser = _Parser(
        prog="tidelog",
        description="A replicated log that speaks the Kafka wire protocol.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tidelog {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, dest="command")
    for command in COMMANDS:
        subparser = commands.add_parser(
            command.name, help=command.summary, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if command is named:
            module = cast("CommandModule", importlib.import_module(command.module))
            subparser.description = module.__doc__
            module.add_arguments(subparser)
    return parser


class _Parser(argparse.ArgumentParser):
    """Says where help is to be had when it did not understand."""

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{self.prog}: {message}\ntry: {self.prog} --help\n")
        raise SystemExit(EXIT_USAGE)
