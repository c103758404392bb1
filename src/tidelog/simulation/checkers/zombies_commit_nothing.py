"""A member of the past commits nothing: once a later generation, or epoch, has committed an offset of a partition, no earlier one does."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.simulation.group_history import Commit, GroupHistory, Place
from tidelog.simulation.observer import Snapshot


class ZombiesCommitNothing:
    """Compares the epochs of acknowledged commits."""

    name = "zombies commit nothing"

    def __init__(self, history: GroupHistory) -> None:
        self._history = history
        self._seen = 0
        self._newest: dict[Place, Commit] = {}

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """Commits since the last look that should have been refused."""
        del snapshot
        answers = self._history.answers[self._seen :]
        self._seen += len(answers)
        for place, commit in answers:
            if commit.is_reset:
                continue
            newest = self._newest.get(place)
            if newest is None or commit.epoch >= newest.epoch:
                self._newest[place] = commit
            elif newest.is_acknowledged_before(commit.asked) and commit.epoch_in_the_end < newest.epoch:
                yield (
                    f"{commit.by} committed {commit.offset} of {place[1]} for {place[0]} in epoch {commit.epoch_in_the_end}, "
                    f"after {newest.by} had in epoch {newest.epoch}"
                )
