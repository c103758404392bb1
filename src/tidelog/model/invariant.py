"""What may never happen, checked also under `python -O`."""

from __future__ import annotations


class InvariantBroken(Exception):
    """A bug of ours: the node that meets it stops rather than go on with a broken state."""


def invariant(condition: bool, claim: str) -> None:
    """Stop the node when `claim`, which the code relies on, does not hold."""
    if not condition:
        raise InvariantBroken(claim)
