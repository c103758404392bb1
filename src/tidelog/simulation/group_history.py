"""What the members of groups were told, and what operators did to them: who owned what, what was committed, what was shown as committed.

Everything has a number in the order in which it happened on the clients' machines, so that checkers can tell what was before what.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from tidelog.model import Offset, TopicPartition

NOTHING_COMMITTED: Final = -1
NO_EPOCH: Final = -1
EPOCH_MAX: Final = 1 << 31


class Protocol(enum.Enum):
    """How the members of a group agree."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Owner(NamedTuple):
    """Who owns partitions: a process, and what the coordinator knows it by. A static member keeps its identity from process to process."""

    process: str
    identity: str


class How(enum.Enum):
    """How a partition was given up."""

    REVOKED = "revoked"  # told to by the coordinator, as a member in good standing
    LOST = "lost"  # others may have had it already
    GONE = "gone"  # the process ended


class Gained(NamedTuple):
    """A member was told that partitions are its own now, in this generation (classic) or member epoch (KIP-848)."""

    group: str
    owner: Owner
    epoch: int
    partitions: tuple[TopicPartition, ...]
    asleep: tuple[str, ...] = ()
    """Processes that were stopped by a signal then, and cannot have been told anything since."""


class Released(NamedTuple):
    """A member has given partitions up."""

    group: str
    owner: Owner
    epoch: int
    partitions: tuple[TopicPartition, ...]
    how: How


class Fate(enum.Enum):
    """What became of a commit, as far as its client knows."""

    PENDING = "pending"
    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(slots=True, kw_only=True, eq=False)
class Commit:
    """An offset somebody wanted committed. A client may renew its epoch while it waits, so there are two: when it asked, and in the end."""

    by: str
    offset: Offset
    asked: int
    epoch: int = NO_EPOCH
    epoch_in_the_end: int = EPOCH_MAX
    answered: int | None = None
    fate: Fate = Fate.PENDING
    is_reset: bool = False
    """An operator's, which a group takes only while it has no members."""

    def is_acknowledged_before(self, moment: int) -> bool:
        """Whether its client had been told so."""
        return self.fate is Fate.ACKNOWLEDGED and self.answered is not None and self.answered < moment

    def is_over_after(self, other: Commit) -> bool:
        """Whether this one took effect before `other`, which was acknowledged, or never."""
        if self.fate is Fate.ACKNOWLEDGED and self.answered is not None and other.asked > self.answered:
            return True
        if other.is_reset:
            return not self.is_reset and self.asked < other.asked
        return not self.is_reset and self.epoch_in_the_end < other.epoch


class Shown(NamedTuple):
    """A client was shown what is committed; it had asked at `asked`."""

    group: str
    topic_partition: TopicPartition
    offset: Offset
    asked: int
    answered: int
    to: str


Place: TypeAlias = tuple[str, TopicPartition]


class GroupHistory:
    """The groups of one run."""

    def __init__(self) -> None:
        self.protocols: dict[str, Protocol] = {}
        self.read_by: dict[str, tuple[TopicPartition, ...]] = {}
        self.ownership: list[Gained | Released] = []
        self.commits: dict[Place, list[Commit]] = {}
        self.answers: list[tuple[Place, Commit]] = []  # acknowledged ones, as they were
        self.shown: list[Shown] = []
        self.processed: dict[Place, dict[Offset, bytes]] = {}
        self._held: dict[tuple[str, Owner], dict[TopicPartition, None]] = {}
        self.asleep: dict[str, None] = {}  # processes that a signal has stopped
        self._moment = 0

    def now(self) -> int:
        """A number for this moment, larger than any before."""
        self._moment += 1
        return self._moment

    def begin(self, group: str, protocol: Protocol, partitions: Iterable[TopicPartition]) -> None:
        """A group that lives to the end and reads these partitions."""
        self.protocols[group] = protocol
        self.read_by[group] = tuple(partitions)

    # Who owns what.

    def gain(self, group: str, owner: Owner, epoch: int, partitions: Iterable[TopicPartition]) -> None:
        """A member was given partitions."""
        gained = tuple(partitions)
        self._held.setdefault((group, owner), {}).update(dict.fromkeys(gained))
        self.ownership.append(Gained(group, owner, epoch, gained, tuple(self.asleep)))

    def release(self, group: str, owner: Owner, epoch: int, partitions: Iterable[TopicPartition], how: How) -> None:
        """A member has given partitions up."""
        released = tuple(partitions)
        held = self._held.get((group, owner), {})
        for topic_partition in released:
            held.pop(topic_partition, None)
        self.ownership.append(Released(group, owner, epoch, released, how))

    def end(self, process: str) -> None:
        """A process is no more, and owns nothing."""
        self.asleep.pop(process, None)
        for (group, owner), held in self._held.items():
            if owner.process == process and held:
                self.release(group, owner, EPOCH_MAX, tuple(held), How.GONE)

    def held(self, group: str) -> Iterator[tuple[Owner, tuple[TopicPartition, ...]]]:
        """What the processes of a group believe to own."""
        for (name, owner), partitions in self._held.items():
            if name == group and partitions:
                yield owner, tuple(partitions)

    # What is committed.

    def ask(self, group: str, topic_partition: TopicPartition, commit: Commit) -> Commit:
        """Somebody is about to commit."""
        self.commits.setdefault((group, topic_partition), []).append(commit)
        return commit

    def answer(self, group: str, topic_partition: TopicPartition, commit: Commit, fate: Fate, epoch: int) -> None:
        """What its client was told; `epoch` is the client's at that time."""
        commit.answered, commit.fate, commit.epoch_in_the_end = self.now(), fate, epoch
        if fate is Fate.ACKNOWLEDGED:
            self.answers.append(((group, topic_partition), commit))

    def show(self, group: str, topic_partition: TopicPartition, offset: Offset, *, asked: int, to: str) -> None:
        """Somebody was shown what is committed."""
        self.shown.append(Shown(group, topic_partition, offset, asked, self.now(), to))

    def last_committed(self, group: str, topic_partition: TopicPartition) -> Offset:
        """What was acknowledged last."""
        commits = self.commits.get((group, topic_partition), [])
        told = [commit for commit in commits if commit.fate is Fate.ACKNOWLEDGED]
        return max(told, key=lambda commit: commit.answered or 0).offset if told else NOTHING_COMMITTED

    def may_be_shown(self, place: Place, asked: int) -> dict[Offset, str]:
        """What may be committed for whoever asked at a moment, and has been answered just now; and who committed it.

        That is what was acknowledged last before, anything that was committed meanwhile, and whatever nobody knows the fate of. Something
        acknowledged excludes all that took effect before it.
        """
        commits = self.commits.get(place, [])
        told = [commit for commit in commits if commit.is_acknowledged_before(asked)]
        possible = [
            commit
            for commit in commits
            if commit.fate is not Fate.REFUSED
            and not any(commit.is_over_after(one) for one in told if one is not commit)
        ]
        found = {commit.offset: f"{commit.by} ({commit.fate.value})" for commit in possible}
        return found if told else {NOTHING_COMMITTED: "nobody", **found}

    # What is done with records.

    def process(self, group: str, topic_partition: TopicPartition, offset: Offset, value: bytes) -> None:
        """A member has dealt with a record."""
        self.processed.setdefault((group, topic_partition), {})[offset] = value
