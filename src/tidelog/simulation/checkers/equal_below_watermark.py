"""I3: two replicas of a partition hold the same batches below both their high watermarks.

Under unclean elections (`may_lose`) that is not so at every moment: a replica that knows more than the new leader has a high watermark
above what the leader holds, until its first fetch cuts it. But two logs whose newest batches are of one leader epoch are both copies of
that leader's log, which is compared for such topics instead; after healing it is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

from tidelog.simulation.checkers.agreement import Agreement
from tidelog.simulation.checkers.changes import Changes
from tidelog.simulation.observer import ReplicaView, Snapshot


class EqualBelowWatermark:
    """Compares each pair of replicas of a topic of one id."""

    name = "I3 replicas are equal below the high watermark"

    def __init__(self, may_lose: Callable[[str], bool] = lambda _: False) -> None:
        self._may_lose = may_lose
        self._changes = Changes()
        self._agreement = Agreement()

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """Pairs that differ."""
        for topic_partition in self._changes.since_last(snapshot):
            may_lose = self._may_lose(topic_partition.topic)
            for one, other in combinations(snapshot.replicas.get(topic_partition, ()), 2):
                if one.topic_id == other.topic_id and (not may_lose or _are_copies(one, other)):
                    difference = self._agreement.difference(one, other, min(one.high_watermark, other.high_watermark))
                    if difference is not None:
                        yield difference


def _are_copies(one: ReplicaView, other: ReplicaView) -> bool:
    return one.newest_batch_epoch == other.newest_batch_epoch
