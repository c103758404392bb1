"""A partition has one owner in its group.

What the protocols promise: in one generation of a classic group, a partition is given to one member. And a member in good standing that is
told to give a partition up still had it for itself: nobody else was given it before. Who is fenced, or was put out because it was silent for
too long, may learn of it late, and even then hear first what it was given long ago; until it does, two may believe to own a partition, and
only one of them can commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.model import TopicPartition
from tidelog.simulation.group_history import Gained, GroupHistory, How, Owner, Protocol, Released
from tidelog.simulation.observer import Snapshot


class _Holding(NamedTuple):
    """Since when somebody has a partition, and who else has got it since."""

    epoch: int
    given_to: Gained | None = None


class OneOwner:
    """Follows what members were told. A static member is one owner, whichever process it is."""

    name = "a partition has one owner"

    def __init__(self, history: GroupHistory) -> None:
        self._history = history
        self._seen = 0
        self._given: dict[tuple[str, int, TopicPartition], str] = {}  # to whom in which generation
        self._holders: dict[tuple[str, TopicPartition], dict[Owner, _Holding]] = {}

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """What happened since the last look."""
        del snapshot
        events = self._history.ownership[self._seen :]
        self._seen += len(events)
        for event in events:
            for topic_partition in event.partitions:
                if isinstance(event, Gained):
                    yield from self._gained(event, topic_partition)
                else:
                    yield from self._released(event, topic_partition)

    def _gained(self, event: Gained, topic_partition: TopicPartition) -> Iterator[str]:
        if self._history.protocols.get(event.group) is Protocol.CLASSIC:
            first = self._given.setdefault((event.group, event.epoch, topic_partition), event.owner.identity)
            if first != event.owner.identity:
                yield (
                    f"{topic_partition} was given to {first} and to {event.owner.identity} "
                    f"in generation {event.epoch} of {event.group}"
                )
        holders = self._holders.setdefault((event.group, topic_partition), {})
        for other, holding in holders.items():
            # What was given in an earlier epoch has been taken away since, only its member has not heard of that.
            is_asleep = (
                other.process in event.asleep
            )  # and was put out, perhaps, without having heard what it was told before
            if other.identity != event.owner.identity and event.epoch >= holding.epoch and not is_asleep:
                holders[other] = holding._replace(given_to=holding.given_to or event)
        holders[event.owner] = _Holding(event.epoch)

    def _released(self, event: Released, topic_partition: TopicPartition) -> Iterator[str]:
        holding = self._holders.get((event.group, topic_partition), {}).pop(event.owner, None)
        after = None if holding is None else holding.given_to
        if after is None or event.how is not How.REVOKED:
            return
        # A member of an earlier generation may follow a coordinator that is none any more.
        if self._history.protocols.get(event.group) is Protocol.CLASSIC and event.epoch < after.epoch:
            return
        yield (
            f"{topic_partition} was given to {after.owner.process} in epoch {after.epoch} of {event.group} "
            f"before {event.owner.process}, in epoch {event.epoch}, was told to give it up"
        )
