"""The parser of every command and verb: help that keeps its examples, errors that say where help is."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from tidelog.cli.failure import EXIT_USAGE

_HELP_COLUMN: Final = 34


class Help(argparse.RawDescriptionHelpFormatter):
    """Texts stay as they are written; commands are listed without the word COMMAND above them."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=_HELP_COLUMN)

    def _format_action(self, action: argparse.Action) -> str:
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001  # argparse has no other name for it
            return "".join(self._format_action(each) for each in action._get_subactions())  # noqa: SLF001  # nor for these
        return super()._format_action(action)


class Parser(argparse.ArgumentParser):
    """Says where help is to be had when it did not understand. Verbs get parsers of the same kind by themselves."""

    def __init__(
        self,
        *,
        prog: str | None = None,
        description: str | None = None,
        epilog: str | None = None,
        formatter_class: Callable[[str], argparse.HelpFormatter] = Help,
    ) -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            formatter_class=formatter_class,  # type: ignore[arg-type]  # typeshed wants a protocol whose methods are private
            allow_abbrev=False,
        )

    def parse_known_args(  # type: ignore[override]  # typeshed has overloads for namespaces of other types
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """What a verb does not know is its own mistake, not one of the command around it, whose help would not help."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        """Say what was not understood and where help is."""
        sys.stderr.write(f"{self.prog}: {message}\ntry: {self.prog} --help\n")
        raise SystemExit(EXIT_USAGE)
