"""What readers are told was aborted is what the markers in the log say, on every replica; and replicas agree in it."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.simulation.checkers.ending import Ending


class AbortedListsAgree:
    """Compares the index of aborted transactions with the log, and both with the other replicas."""

    name = "aborted transactions are known by the log"

    def verdict(self, ending: Ending) -> Iterator[str]:
        """Replicas whose index says something else."""
        for topic_partition, logs in ending.transaction_logs.items():
            known: set[tuple[tuple[int, int], ...]] = set()
            for broker_id, log in logs.items():
                listed, marked = sorted(log.aborted), sorted(log.aborted_by_markers)
                if listed != marked:
                    yield (
                        f"broker {broker_id} tells readers of {topic_partition} that {listed} (producer, first offset) were "
                        f"aborted; by its log {marked} were"
                    )
                known.add(tuple(listed))
            if len(known) > 1:
                yield f"the replicas of {topic_partition} do not agree in what was aborted: {sorted(known)}"
