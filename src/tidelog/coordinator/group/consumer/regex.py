"""Regular expressions of strangers: matched by RE2, in time that grows with the text alone, and refused where they are too large.

Brokers whose groups subscribe by name do not import the engine. Kafka's is RE2/J, of the same syntax: an expression has to match the whole
name of a topic, internal topics are topics like others, and there are no groups to remember, look-arounds or back-references.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, Protocol

from tidelog.coordinator.group.book import Topics
from tidelog.model import ApiError, ErrorCode

LENGTH_MAX: Final = 4_096
"""Bytes of an expression."""

PROGRAM_SIZE_MAX: Final = 5_000
"""Steps that an expression may expand to, which bounds what it costs to follow all of them at once through a name."""

MEMORY_MAX: Final = 8 << 20
"""Bytes that the engine may use for the states of one expression; RE2's own default."""

REMEMBERED_MAX: Final = 256
"""Expressions that are kept ready; the one that was not used for longest goes first."""


class _Compiled(Protocol):
    """The part of RE2's interface that is used here."""

    programsize: int
    reverseprogramsize: int

    def fullmatch(self, text: bytes) -> object | None: ...


def matching(regex: str, names: Iterable[str]) -> frozenset[str]:
    """The names that it matches as a whole; 10,000 of them take about 50 ms. Raises ApiError if it is none."""
    fullmatch = _compiled(regex).fullmatch
    return frozenset(name for name in names if fullmatch(name.encode()) is not None)


class Matches:
    """What expressions have matched so far: when topics come, only their names are looked at, whichever group asks."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._version: int | None = None
        self._names: frozenset[str] = frozenset()
        self._known: dict[
            str, tuple[frozenset[str], frozenset[str]]
        ] = {}  # names that were looked at, and that matched

    def of(self, regex: str) -> frozenset[str]:
        """The topics that it matches now. Raises ApiError if it is none."""
        if self._topics.version != self._version:
            self._version, self._names = self._topics.version, frozenset(self._topics.names())
        seen, matched = self._known.pop(regex, (frozenset(), frozenset()))
        if seen is not self._names:
            matched = (matched & self._names) | matching(regex, self._names - seen)
        self._known[regex] = (self._names, matched)
        if len(self._known) > REMEMBERED_MAX:
            del self._known[next(iter(self._known))]
        return matched


@lru_cache(maxsize=REMEMBERED_MAX)
def _compiled(regex: str) -> _Compiled:
    import re2  # only brokers that need it load it

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True  # nobody asks for groups, and remembering thousands of them would be slow
    options.max_mem = MEMORY_MAX
    pattern = regex.encode()
    if len(pattern) > LENGTH_MAX:
        raise _invalid(regex[:64] + "...", f"it has more than {LENGTH_MAX} bytes")
    try:
        compiled: _Compiled = re2.compile(pattern, options)
    except re2.error as error:
        said = error.args[0] if error.args else b""
        raise _invalid(regex, said.decode(errors="replace") if isinstance(said, bytes) else str(said)) from error
    if max(compiled.programsize, compiled.reverseprogramsize) > PROGRAM_SIZE_MAX:
        raise _invalid(regex, "it is too large when it is written out")
    return compiled


def _invalid(regex: str, why: str) -> ApiError:
    message = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {why}."
    return ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, message)
