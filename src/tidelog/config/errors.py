"""What is wrong with a setting, said so that the reader can repair it without the manual."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ConfigError(Exception):
    """A setting has a value that cannot be used; the message names the setting, the value and what is accepted."""

    def __init__(self, name: str, value: str, accepted: str) -> None:
        super().__init__(f"Invalid value {value!r} for configuration {name}: accepted is {accepted}")
        self.name = name
        self.value = value
        self.accepted = accepted


class UnknownSetting(ConfigError):
    """No setting has this name; `did_you_mean` is the nearest one that exists, if any is near."""

    def __init__(self, name: str, did_you_mean: str | None = None) -> None:
        advice = "" if did_you_mean is None else f" (did you mean {did_you_mean}?)"
        Exception.__init__(self, f"Unknown configuration {name!r}{advice}")
        self.name = name
        self.value = ""
        self.accepted = "the name of a setting"
        self.did_you_mean = did_you_mean

    @classmethod
    def among(cls, name: str, known: Iterable[str]) -> UnknownSetting:
        """The error for `name`, with advice taken from the names that exist."""
        near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.75)
        return cls(name, near[0] if near else None)
