"""R09: the epochs a log knows are those of its records, and a leader's log knows the epoch it leads in.

Replicas find out by their epochs where their logs part. An epoch that was not noted when it began (KAFKA-7415), or that outlived its
records, misleads only a replica that asks at the wrong moment; so the epochs are looked at, not what comes of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tidelog.simulation.checkers.changes import Changes
from tidelog.simulation.observer import ReplicaView, Snapshot


class EpochsAreNoted:
    """Looks at every replica that has changed."""

    name = "R09 epochs are noted"

    def __init__(self) -> None:
        self._changes = Changes()

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """Histories that cannot be, and leaders that have not noted theirs."""
        for topic_partition in self._changes.since_last(snapshot):
            for view in snapshot.replicas.get(topic_partition, ()):
                reason = _objection(view)
                if reason is not None:
                    yield f"{topic_partition}: broker {view.broker_id} {reason}; its epochs are {list(view.epochs)}"


def _objection(view: ReplicaView) -> str | None:
    epochs = view.epochs
    newest = epochs[-1][0] if epochs else -1
    if any(later[0] <= earlier[0] or later[1] <= earlier[1] for earlier, later in pairwise(epochs)):
        return "has epochs out of order"
    if epochs and epochs[-1][1] > view.log_end_offset:
        return f"knows an epoch that begins after its log ends, at {view.log_end_offset}"
    if view.is_leader and newest != view.leader_epoch:
        return f"leads in epoch {view.leader_epoch}, and has not noted that"
    if not view.log.is_rotten and view.newest_batch_epoch > newest:
        return f"has a batch of epoch {view.newest_batch_epoch}, and has not noted that"
    return None
