"""I3: two replicas of a partition hold the same batches below both their high watermarks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from tidelog.simulation.observer import ReplicaView, Snapshot


class EqualBelowWatermark:
    """Compares each pair."""

    name = "I3 replicas are equal below the high watermark"

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """Pairs that differ."""
        for views in snapshot.replicas.values():
            for one, other in combinations(views, 2):
                yield from _difference(one, other)


def _difference(one: ReplicaView, other: ReplicaView) -> Iterator[str]:
    end = min(one.high_watermark, other.high_watermark)
    start = max(one.log_start_offset, other.log_start_offset)
    ours = [batch for batch in one.below(end) if batch.base_offset >= start]
    theirs = [batch for batch in other.below(end) if batch.base_offset >= start]
    if ours == theirs:
        return
    for mine, yours in zip(ours, theirs, strict=False):
        if mine != yours:
            yield f"{one.topic_partition}: broker {one.broker_id} has {mine}, broker {other.broker_id} has {yours}"
            return
    yield (
        f"{one.topic_partition}: below {end}, broker {one.broker_id} has {len(ours)} batches, "
        f"broker {other.broker_id} has {len(theirs)}"
    )
