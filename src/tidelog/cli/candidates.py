"""What could stand where the cursor is: found by walking the same parsers that would understand the finished line."""

from __future__ import annotations

import argparse
import enum
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple


class Wanted(enum.Enum):
    """Things that no parser lists."""

    FILE = "file"
    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional id"
    PROPERTY = "property"  # a setting of the broker or the client that is run, as KEY=VALUE
    TOPIC_SETTING = "topic setting"


class Candidate(NamedTuple):
    """A word and what it is for."""

    word: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where the cursor is: the unfinished word, the words that fit, and what else would."""

    prefix: str
    candidates: tuple[Candidate, ...] = ()
    wanted: Wanted | None = None

    @property
    def fitting(self) -> list[Candidate]:
        """The candidates that begin as the unfinished word does."""
        return [each for each in self.candidates if each.word.startswith(self.prefix)]


_WANTED_BY_METAVAR: Final = {
    "FILE": Wanted.FILE,
    "DIR": Wanted.FILE,
    "TOPIC": Wanted.TOPIC,
    "TOPIC|ID": Wanted.TOPIC,
    "TOPIC[:PARTITION]": Wanted.TOPIC,
    "TOPIC[:PARTITION,...]": Wanted.TOPIC,
    "GROUP": Wanted.GROUP,
}
_WANTED_BY_DESTINATION: Final = {
    "properties": Wanted.PROPERTY,
    "transactional_id": Wanted.TRANSACTIONAL_ID,
    "configs": Wanted.TOPIC_SETTING,
    "configs_set": Wanted.TOPIC_SETTING,
    "configs_append": Wanted.TOPIC_SETTING,
}


def words_of(line: str) -> list[str]:
    """The words of a command line after the program's name, the last one being the unfinished one, perhaps empty."""
    try:
        words = shlex.split(line)
    except ValueError:  # a quotation that is not closed yet
        words = line.split()
    return words[1:] + ([""] if line[-1:].isspace() or len(words) < 2 else [])


def place_of(parser: argparse.ArgumentParser, words: Sequence[str]) -> Place:
    """What fits as the last of the words."""
    *before, prefix = words
    pending: argparse.Action | None = None
    positionals = _positionals(parser)
    for word in before:
        if pending is not None:
            pending = None
        elif word.startswith("-") and len(word) > 1:
            option = _option(parser, word)
            pending = option if option is not None and _takes_value(option) and "=" not in word else None
        elif positionals and isinstance(positionals[0], argparse._SubParsersAction):  # noqa: SLF001  # argparse has no other name for it
            parser = positionals[0].choices.get(word, parser)
            positionals = _positionals(parser)
        elif len(positionals) > 1:
            positionals = positionals[1:]
    if pending is not None:
        return _value_place(pending, prefix)
    if prefix.startswith("-"):
        return Place(prefix, tuple(_options(parser)))
    return _value_place(positionals[0], prefix) if positionals else Place(prefix)


def _value_place(action: argparse.Action, prefix: str) -> Place:
    if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001  # as above
        listed = action._get_subactions()  # noqa: SLF001  # the only place where argparse keeps what a command is for
        return Place(prefix, tuple(Candidate(each.dest, each.help or "") for each in listed))
    if action.choices is not None:
        return Place(prefix, tuple(Candidate(str(choice), "") for choice in action.choices))
    return Place(prefix, wanted=_WANTED_BY_METAVAR.get(str(action.metavar)) or _WANTED_BY_DESTINATION.get(action.dest))


def _positionals(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if not action.option_strings]  # noqa: SLF001  # argparse shows them nowhere else


def _options(parser: argparse.ArgumentParser) -> list[Candidate]:
    """Every option by its long name, or the only one it has."""
    return [
        Candidate(action.option_strings[-1], (action.help or "").replace("%%", "%"))
        for action in parser._actions  # noqa: SLF001  # as above
        if action.option_strings and action.help != argparse.SUPPRESS
    ]


def _option(parser: argparse.ArgumentParser, word: str) -> argparse.Action | None:
    name = word.partition("=")[0]
    return next((action for action in parser._actions if name in action.option_strings), None)  # noqa: SLF001  # as above


def _takes_value(action: argparse.Action) -> bool:
    return action.nargs != 0
