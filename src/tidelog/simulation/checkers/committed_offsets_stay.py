"""What a group has committed stays: whoever asks is shown what was acknowledged last, or what was committed after it.

Committed offsets do not go back by themselves: a commit that is acknowledged lies not below one that was acknowledged before it was asked
for. Only an operator's reset, or a commit nobody was told the fate of, which may take effect late, explains it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.model import Offset
from tidelog.simulation.checkers.ending import Ending
from tidelog.simulation.group_history import NOTHING_COMMITTED, Commit, Fate, GroupHistory, Place
from tidelog.simulation.observer import Snapshot


class CommittedOffsetsStay:
    """Holds what clients are shown against what clients were told."""

    name = "committed offsets stay"

    def __init__(self, history: GroupHistory) -> None:
        self._history = history
        self._seen_answers = 0
        self._seen_shown = 0
        self._highest: dict[Place, Commit] = {}  # of those acknowledged since the last reset

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """What happened since the last look."""
        del snapshot
        answers = self._history.answers[self._seen_answers :]
        self._seen_answers += len(answers)
        for place, commit in answers:
            yield from self._went_back(place, commit)
        shown = self._history.shown[self._seen_shown :]
        self._seen_shown += len(shown)
        for one in shown:
            possible = self._history.may_be_shown((one.group, one.topic_partition), one.asked)
            if one.offset not in possible:
                yield f"{one.to} was shown that {one.group} has {one.offset} of {one.topic_partition}; {_told(possible)}"

    def _went_back(self, place: Place, commit: Commit) -> Iterator[str]:
        before = self._highest.get(place)
        if before is None or commit.is_reset or commit.offset >= before.offset:
            self._highest[place] = commit
            return
        if before.answered is None or before.answered > commit.asked or self._is_explained(place, commit, before):
            return
        yield (
            f"{place[0]} committed {before.offset} of {place[1]} ({before.by}, epoch {before.epoch}), "
            f"then {commit.offset} ({commit.by}, epoch {commit.epoch})"
        )

    def _is_explained(self, place: Place, commit: Commit, before: Commit) -> bool:
        """Whether something of which nobody knows when it took effect may have moved the group back."""
        return any(
            other.fate in (Fate.UNKNOWN, Fate.PENDING)
            and other.offset <= commit.offset
            and not other.is_over_after(before)
            for other in self._history.commits[place]
        )


class OffsetsSurvive:
    """The same when everything is over: as a fresh client is shown it, and as the records of every replica say it."""

    name = "committed offsets survive"

    def verdict(self, ending: Ending) -> Iterator[str]:
        """Offsets that are not what clients were told."""
        groups = ending.history.groups
        for place in groups.commits:
            group, topic_partition = place
            possible = groups.may_be_shown(place, groups.now())
            committed = ending.committed_offsets.get(group, {}).get(topic_partition, NOTHING_COMMITTED)
            if committed not in possible:
                yield f"in the end {group} has {committed} of {topic_partition}; {_told(possible)}"
            for broker_id, stored in ending.stored_offsets.get(group, {}).items():
                if stored.get(topic_partition, NOTHING_COMMITTED) != committed:
                    yield (
                        f"broker {broker_id} has stored {stored.get(topic_partition)} as what {group} committed of "
                        f"{topic_partition}; its coordinator says {committed}"
                    )


def _told(possible: dict[Offset, str]) -> str:
    return "it may be " + " or ".join(f"{offset} of {by}" for offset, by in sorted(possible.items()))
