"""Offsets of a log follow each other without holes, from its start to its end.

Not claimed of topics that compaction has thinned out, nor of files that a fault has damaged.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.simulation.checkers.changes import Changes
from tidelog.simulation.observer import ReplicaView, Snapshot


class NoHoles:
    """Remembers how far each log was found whole."""

    name = "offsets have no holes"

    def __init__(self) -> None:
        self._whole: dict[int, int] = {}  # batches of a log, by its number, that follow each other
        self._changes = Changes()

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """Logs with offsets that nobody has."""
        for topic_partition in self._changes.since_last(snapshot):
            views = snapshot.replicas.get(topic_partition, ())
            for view in views:
                if not view.rewritable_below and not view.log.is_rotten:
                    yield from self._between(view)
                    yield from _at_the_ends(view)

    def _between(self, view: ReplicaView) -> Iterator[str]:
        batches = view.log.batches
        for place in range(max(1, self._whole.get(view.log.number, 0)), view.batch_count):
            before, batch = batches[place - 1], batches[place]
            if batch.base_offset != before.last_offset + 1:
                yield f"{_where(view)}: {before} is followed by {batch}"
                return
        self._whole[view.log.number] = view.batch_count


def _at_the_ends(view: ReplicaView) -> Iterator[str]:
    first = view.log.index_at(view.log_start_offset)
    if first >= view.batch_count:
        if view.log_start_offset != view.log_end_offset:
            yield f"{_where(view)} begins at {view.log_start_offset} and ends at {view.log_end_offset}, but holds nothing"
        return
    batches = view.log.batches
    if batches[first].base_offset > view.log_start_offset:
        yield f"{_where(view)} begins at {view.log_start_offset}, its first batch is {batches[first]}"
    if batches[view.batch_count - 1].last_offset + 1 != view.log_end_offset:
        yield f"{_where(view)} ends at {view.log_end_offset}, its last batch is {batches[view.batch_count - 1]}"


def _where(view: ReplicaView) -> str:
    return f"{view.topic_partition} on broker {view.broker_id}"
