"""I4: on every replica, log start <= last stable offset <= high watermark <= log end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from tidelog.simulation.observer import Snapshot


class BoundsHold:
    """Looks at each replica by itself."""

    name = "I4 bounds hold"

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """Replicas whose offsets are out of order."""
        for view in chain.from_iterable(snapshot.replicas.values()):
            offsets = (view.log_start_offset, view.last_stable_offset, view.high_watermark, view.log_end_offset)
            if list(offsets) != sorted(offsets):
                yield (
                    f"{view.topic_partition} on broker {view.broker_id}: log start {offsets[0]}, last stable {offsets[1]}, "
                    f"high watermark {offsets[2]}, log end {offsets[3]}"
                )
