"""The words fetch sessions are spoken of in (KIP-227), whoever fetches."""

from __future__ import annotations

from typing import Final, NamedTuple
from uuid import UUID

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
"""A full fetch that begins a session."""
FINAL_EPOCH: Final = -1
"""A full fetch that ends the session it names, and begins none."""
EPOCH_MAX: Final = 2**31 - 1


class PartitionKey(NamedTuple):
    """A partition as the client named it: by topic id where it used ids, by name otherwise."""

    topic: str
    topic_id: UUID | None
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody calls on a key


def next_epoch(epoch: int) -> int:
    """The epoch of the request after the one that carried `epoch`."""
    return 1 if epoch == EPOCH_MAX else epoch + 1
