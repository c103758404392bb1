"""How far two logs were found to hold the same batches, so that each batch is compared once."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.model import Offset
from tidelog.simulation.observer import ReplicaView, StoredBatch


class _Reached(NamedTuple):
    """Both logs are equal below an offset; where the next batches are to be found in each."""

    end_offset: Offset
    next_in_one: int
    next_in_other: int


class Agreement:
    """Compares replicas of one partition with each other, each pair from where it was left.

    Where compaction runs, either replica may lack batches, or hold them with fewer records, below its active segment. Logs whose bytes
    a fault has changed are not compared.
    """

    def __init__(self) -> None:
        self._reached: dict[tuple[int, int], _Reached] = {}

    def difference(self, one: ReplicaView, other: ReplicaView, end_offset: Offset) -> str | None:
        """The first batch below an offset that not both hold, above both log starts."""
        if one.log.is_rotten or other.log.is_rotten:
            return None
        key = (one.log.number, other.log.number)
        reached = self._reached.get(key)
        if reached is None:
            start = max(one.log_start_offset, other.log_start_offset)
            if end_offset <= start:
                return None
            reached = _Reached(start, one.log.index_at(start), other.log.index_at(start))
        elif end_offset <= reached.end_offset:
            return None
        one_next, other_next = reached.next_in_one, reached.next_in_other
        while True:
            mine, yours = _batch(one, one_next, end_offset), _batch(other, other_next, end_offset)
            if mine is None and yours is None:
                self._reached[key] = _Reached(end_offset, one_next, other_next)
                return None
            steps = _steps(one, mine, other, yours)
            if steps == (0, 0):
                return (
                    f"{one.topic_partition}: below {end_offset}, broker {one.broker_id}, which ends at "
                    f"{one.log_end_offset}, has {mine}, broker {other.broker_id}, which ends at {other.log_end_offset}, "
                    f"has {yours}"
                )
            one_next, other_next = one_next + steps[0], other_next + steps[1]


def _batch(view: ReplicaView, index: int, end_offset: Offset) -> StoredBatch | None:
    if index >= view.batch_count:
        return None
    batch = view.log.batches[index]
    return batch if batch.last_offset < end_offset else None


def _steps(
    one: ReplicaView, mine: StoredBatch | None, other: ReplicaView, yours: StoredBatch | None
) -> tuple[int, int]:
    """How far to go on in each log; nowhere if they differ."""
    if mine == yours:
        return 1, 1
    if mine is not None and yours is not None and mine.base_offset == yours.base_offset:
        is_compacted = mine.last_offset < max(one.rewritable_below, other.rewritable_below)
        return (1, 1) if is_compacted and mine.is_rewritten(yours) else (0, 0)
    if mine is not None and (yours is None or mine.base_offset < yours.base_offset):
        return (1, 0) if mine.last_offset < other.rewritable_below else (0, 0)
    if yours is not None:
        return (0, 1) if yours.last_offset < one.rewritable_below else (0, 0)
    return 0, 0
