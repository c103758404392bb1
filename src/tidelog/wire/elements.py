"""How many things one request may list.

Decoding costs about a microsecond per array element and a third of one per tagged field, however few bytes they take, so bytes alone do
not bound the time that a request holds the loop. The bound is twice the partitions a broker is made for.
"""

from __future__ import annotations

from typing import Final

from tidelog.wire.errors import MalformedMessage

REQUEST_ELEMENTS_MAX: Final = 20_000
TAGS_MAX: Final = 16
"""Most tagged fields of one struct; no struct of the protocol has half as many."""

_FIXED_PER_ELEMENT: Final = 4  # Numbers are decoded faster than structs and strings.


def check_elements(count: int) -> None:
    """Raise MalformedMessage if a request lists more than it may."""
    if count > REQUEST_ELEMENTS_MAX:
        raise MalformedMessage(f"{count} elements or more, where {REQUEST_ELEMENTS_MAX} are accepted")


class ElementBudget:
    """Counts the elements of one message at a time, over all its arrays."""

    __slots__ = ("_spent",)

    def __init__(self) -> None:
        self._spent = 0

    def renew(self) -> None:
        """A new message begins."""
        self._spent = 0

    def spend(self, count: int, *, is_fixed: bool) -> None:
        """An array of `count` elements is about to be decoded. Raises MalformedMessage."""
        self._spent += count // _FIXED_PER_ELEMENT if is_fixed else count
        check_elements(self._spent)
