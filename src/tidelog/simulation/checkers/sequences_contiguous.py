"""I7: in every log, the batches of one producer id and epoch are numbered without a duplicate and without a gap.

A producer's first batch in a log has number 0, and so has the first of each of its epochs, which only go up. Where the beginning of the
log is gone, a producer that was not seen yet may begin with any number, for what came before it may have been deleted. Not claimed of
topics that compaction has thinned out, nor of offsets that coordinators write in the name of producers, which are not numbered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tidelog.model import NO_PRODUCER_ID, ProducerId
from tidelog.simulation.checkers.changes import Changes
from tidelog.simulation.observer import ReplicaView, Snapshot, StoredBatch

_UNNUMBERED: Final = "__consumer_offsets"
_SEQUENCES: Final = 1 << 31  # after the largest comes 0


class _Next(NamedTuple):
    producer_epoch: int
    sequence: int


class _Progress:
    """What was found in the first batches of one log."""

    __slots__ = ("count", "producers")

    def __init__(self) -> None:
        self.count = 0
        self.producers: dict[ProducerId, _Next] = {}


class SequencesContiguous:
    """Reads every batch of every log once."""

    name = "I7 sequences are contiguous"

    def __init__(self) -> None:
        self._logs: dict[int, _Progress] = {}
        self._changes = Changes()

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """Batches that their producer's last one does not lead to."""
        for topic_partition in self._changes.since_last(snapshot):
            views = snapshot.replicas.get(topic_partition, ())
            for view in views:
                if not view.rewritable_below and topic_partition.topic != _UNNUMBERED:
                    yield from self._go_on(view)

    def _go_on(self, view: ReplicaView) -> Iterator[str]:
        progress = self._logs.setdefault(view.log.number, _Progress())
        for batch in view.log.batches[progress.count : view.batch_count]:
            if batch.producer_id != NO_PRODUCER_ID and not batch.is_control:
                known = progress.producers.get(batch.producer_id)
                is_from_start = view.log.batches[0].base_offset == 0
                if not _may_follow(known, batch, is_from_start=is_from_start):
                    yield f"{view.topic_partition} on broker {view.broker_id}: {batch} comes after {_told(known)}"
                progress.producers[batch.producer_id] = _after(batch)
        progress.count = view.batch_count


def _may_follow(known: _Next | None, batch: StoredBatch, *, is_from_start: bool) -> bool:
    if known is None:
        return batch.base_sequence == 0 or not is_from_start
    if batch.producer_epoch == known.producer_epoch:
        return batch.base_sequence == known.sequence
    return batch.producer_epoch > known.producer_epoch and batch.base_sequence == 0


def _after(batch: StoredBatch) -> _Next:
    count = batch.last_offset - batch.base_offset + 1
    return _Next(batch.producer_epoch, (batch.base_sequence + count) % _SEQUENCES)


def _told(known: _Next | None) -> str:
    if known is None:
        return "nothing of its producer"
    return f"batches of epoch {known.producer_epoch} up to sequence {known.sequence - 1}"
