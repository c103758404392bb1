"""Which leader epoch began at which offset: what replicas compare to find where their logs part (KIP-101, KIP-279).

Pure; the log writes `entries` to its checkpoint file. Invariant: epochs strictly increase and so do start offsets.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from operator import itemgetter
from typing import Final, NamedTuple

from tidelog.model import NO_LEADER_EPOCH, NO_OFFSET, LeaderEpoch, Offset
from tidelog.storage.checkpoints import EpochStart


class EpochEndOffset(NamedTuple):
    """Where an epoch ends: the offset of the first record of a later one, or the log end offset."""

    leader_epoch: LeaderEpoch
    end_offset: Offset


UNDEFINED: Final = EpochEndOffset(NO_LEADER_EPOCH, NO_OFFSET)

_epoch_of: Final = itemgetter(0)
_start_of: Final = itemgetter(1)


class LeaderEpochCache:
    """The epoch history of one log. Methods that change it return whether they did, so that the owner knows what to write."""

    __slots__ = ("_entries", "latest")

    def __init__(self, entries: Iterable[EpochStart] = ()) -> None:
        self._entries: list[EpochStart] = []
        self.latest: LeaderEpoch = NO_LEADER_EPOCH
        """The newest epoch, -1 while there is none."""
        for entry in entries:
            self.assign(*entry)

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        """The history, oldest first."""
        return tuple(self._entries)

    def assign(self, leader_epoch: LeaderEpoch, start_offset: Offset) -> bool:
        """Epoch `leader_epoch` begins at `start_offset`; entries that contradict it go."""
        entries = self._entries
        if leader_epoch < 0 or start_offset < 0:
            return False
        if entries and leader_epoch == entries[-1].leader_epoch and start_offset >= entries[-1].start_offset:
            return False
        while entries and (entries[-1].leader_epoch >= leader_epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochStart(leader_epoch, start_offset))
        self.latest = leader_epoch
        return True

    def truncate_from_end(self, end_offset: Offset) -> bool:
        """Forget epochs that begin at or after `end_offset`, which the log no longer reaches."""
        entries = self._entries
        before = len(entries)
        while entries and entries[-1].start_offset >= end_offset:
            entries.pop()
        self._note_latest()
        return len(entries) != before

    def truncate_from_start(self, start_offset: Offset) -> bool:
        """Forget epochs that end at or before `start_offset`; the one that covers it now begins there."""
        entries = self._entries
        covering = bisect_right(entries, start_offset, key=_start_of) - 1
        if covering < 0 or (covering == 0 and entries[0].start_offset == start_offset):
            return False
        entries[: covering + 1] = [EpochStart(entries[covering].leader_epoch, start_offset)]
        return True

    def clear(self) -> bool:
        """Forget everything."""
        changed = bool(self._entries)
        self._entries.clear()
        self._note_latest()
        return changed

    def end_offset_for(self, leader_epoch: LeaderEpoch, log_end_offset: Offset) -> EpochEndOffset:
        """The largest epoch not above `leader_epoch` and where it ends; undefined (-1, -1) above the newest epoch."""
        if leader_epoch < 0 or leader_epoch > self.latest:
            return UNDEFINED
        if leader_epoch == self.latest:
            return EpochEndOffset(leader_epoch, log_end_offset)
        above = bisect_right(self._entries, leader_epoch, key=_epoch_of)
        end_offset = self._entries[above].start_offset
        if above == 0:
            return EpochEndOffset(leader_epoch, end_offset)
        return EpochEndOffset(self._entries[above - 1].leader_epoch, end_offset)

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        """The epoch in which the record at `offset` was written; -1 if that is before the history begins."""
        covering = bisect_right(self._entries, offset, key=_start_of) - 1
        return NO_LEADER_EPOCH if covering < 0 else self._entries[covering].leader_epoch

    def _note_latest(self) -> None:
        self.latest = self._entries[-1].leader_epoch if self._entries else NO_LEADER_EPOCH
