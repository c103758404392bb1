"""The words and options of one command, taken one by one; what nobody took was not understood."""

from __future__ import annotations

import re
from typing import Final

from tidelog.simulation.scenario.language import Command
from tidelog.simulation.scenario.stage import CannotDo

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|min)")
_UNITS: Final = {"ms": 1.0, "s": 1_000.0, "min": 60_000.0}
_YES: Final = {"yes": True, "no": False}


class WrongCommand(CannotDo):
    """The command itself is wrong, whatever the cluster does."""


def milliseconds(text: str) -> float:
    """500ms, 3s or 1min. Raises WrongCommand."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise WrongCommand(f"{text!r} is no time; write 500ms, 3s or 1min")
    return float(found[1]) * _UNITS[found[2]]


class Arguments:
    """What is left of a command."""

    def __init__(self, command: Command, usage: str) -> None:
        self._words = list(command.words)
        self._options = dict(command.options)
        self._usage = usage

    def wrong(self, message: str) -> WrongCommand:
        """What to raise about this command."""
        return WrongCommand(f"{message}; usage: {self._usage}")

    def word(self, what: str) -> str:
        """The next word, which must be there."""
        if not self._words:
            raise self.wrong(f"{what} is missing")
        return self._words.pop(0)

    def literal(self, *words: str) -> None:
        """The next words, which must be these."""
        for word in words:
            if self.word(repr(word)) != word:
                raise self.wrong(f"{word!r} is missing")

    def one_of(self, what: str, accepted: tuple[str, ...]) -> str:
        """The next word, which must be one of these."""
        word = self.word(what)
        if word not in accepted:
            raise self.wrong(f"{word!r} is none of {', '.join(accepted)}")
        return word

    def has(self, word: str) -> bool:
        """Whether a word is among those left; it is taken."""
        if word not in self._words:
            return False
        self._words.remove(word)
        return True

    def after(self, keyword: str) -> str | None:
        """The word behind a keyword; both are taken."""
        if keyword not in self._words:
            return None
        place = self._words.index(keyword)
        if place + 1 == len(self._words):
            raise self.wrong(f"nothing follows {keyword!r}")
        _, word = self._words[place : place + 2]
        del self._words[place : place + 2]
        return word

    def rest(self, what: str | None) -> tuple[str, ...]:
        """All words that are left; at least one, if there is a name for what is missing otherwise."""
        if not self._words and what is not None:
            raise self.wrong(f"{what} is missing")
        words, self._words = tuple(self._words), []
        return words

    def option(self, name: str) -> str | None:
        """The value of name=value; it is taken."""
        return self._options.pop(name, None)

    def yes(self, name: str, *, default: bool) -> bool:
        """The value of name=yes or name=no."""
        value = self.option(name)
        if value is None:
            return default
        if value not in _YES:
            raise self.wrong(f"{name} is yes or no, not {value}")
        return _YES[value]

    def duration_ms(self, name: str, default_ms: float) -> float:
        """The value of name=500ms, name=3s or name=1min."""
        value = self.option(name)
        return default_ms if value is None else milliseconds(value)

    def settings(self) -> dict[str, str]:
        """The options that are settings, known by a dot in their names."""
        found = {name: value for name, value in self._options.items() if "." in name}
        self._options = {name: value for name, value in self._options.items() if name not in found}
        return found

    def finish(self) -> None:
        """Nothing may be left."""
        left = [*self._words, *(f"{name}={value}" for name, value in self._options.items())]
        if left:
            raise self.wrong(f"{left[0]!r} is not understood")
