"""I4: on every replica, log start <= last stable offset <= high watermark <= log end."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.simulation.checkers.changes import Changes
from tidelog.simulation.observer import Snapshot


class BoundsHold:
    """Looks at each replica by itself."""

    name = "I4 bounds hold"

    def __init__(self) -> None:
        self._changes = Changes()

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """Replicas whose offsets are out of order."""
        for topic_partition in self._changes.since_last(snapshot):
            for view in snapshot.replicas.get(topic_partition, ()):
                if not view.log_start_offset <= view.last_stable_offset <= view.high_watermark <= view.log_end_offset:
                    yield (
                        f"{topic_partition} on broker {view.broker_id}: log start {view.log_start_offset}, last stable "
                        f"{view.last_stable_offset}, high watermark {view.high_watermark}, log end {view.log_end_offset}"
                    )
