"""By which connection somebody was last heard of, to tell what comes late from what comes again.

Who gives a connection up sends on by a new one. What the old one still brings, out of some buffer on the way, is older than anything that
has come by the new one, though nothing in it says so.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

Sender = TypeVar("Sender", bound=Hashable)

SENDERS_MAX: Final = 10_000
"""Those that were heard of last; whoever is forgotten is not protected until the next word."""


class MailOrder(Generic[Sender]):
    """The newest connection of every sender."""

    __slots__ = ("_newest",)

    def __init__(self) -> None:
        self._newest: dict[Sender, int] = {}

    def __len__(self) -> int:
        return len(self._newest)

    def is_in_order(self, sender: Sender, connection: int) -> bool:
        """Something came by a connection, which are numbered as they come: False if its sender has used a later one."""
        if self._newest.get(sender, connection) > connection:
            return False
        self._newest.pop(sender, None)  # It goes to the end, where those are that were heard of last.
        self._newest[sender] = connection
        if len(self._newest) > SENDERS_MAX:
            del self._newest[next(iter(self._newest))]
        return True
