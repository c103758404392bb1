"""Idempotent producers: each value lies in the logs once at most, and one producer's values in the order in which it sent them.

With I1 that is exactly once for every value that was acknowledged. A value whose fate the producer was not told may be there or not, but
in its place. Not claimed where unclean elections are allowed, nor of producers without idempotence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidelog.model import BrokerId, Offset, TopicPartition
from tidelog.simulation.checkers.ending import Ending


class DeliveredOnce:
    """Reads the numbers in the values."""

    name = "idempotent values are delivered once and in order"

    def verdict(self, ending: Ending) -> Iterator[str]:
        """Values that are there twice, or too late."""
        numbered = frozenset(ending.history.numbered)
        places: dict[tuple[BrokerId, bytes], tuple[TopicPartition, Offset]] = {}
        for topic_partition in sorted(ending.snapshot.states):
            if not ending.history.is_promised(topic_partition.topic):
                continue
            for broker_id, found in ending.replicas(topic_partition):
                last: dict[str, int] = {}
                for offset, producer, number, value in _values_of(numbered, found):
                    first = places.setdefault((broker_id, value), (topic_partition, offset))
                    where = f"{value!r} at offset {offset} of {topic_partition} on broker {broker_id}"
                    if first != (topic_partition, offset):
                        yield f"{where} is there a second time; it is at offset {first[1]} of {first[0]}"
                    elif number < last.get(producer, -1):
                        yield f"{where} comes after number {last[producer]} of its producer"
                    last[producer] = number


def _values_of(numbered: frozenset[str], found: Mapping[Offset, bytes]) -> Iterator[tuple[Offset, str, int, bytes]]:
    for offset, value in sorted(found.items()):
        producer, slash, number = value.decode(errors="replace").rpartition("/")
        if slash and producer in numbered:
            yield offset, producer, int(number), value
