"""What clients were told, and nothing else: the checkers of the end compare it with what lies in the logs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tidelog.model import Offset, TopicPartition
from tidelog.simulation.checkers.acknowledged_stays import AcknowledgedStays
from tidelog.simulation.checkers.readers_skip_nothing import may_come_next
from tidelog.simulation.group_history import GroupHistory
from tidelog.simulation.transaction_history import TransactionHistory

SAFE: Final = "safe"
UNCLEAN: Final = "unclean"
LEDGER: Final = "ledger"
COPIES: Final = "copies"
OFFSETS: Final = "__consumer_offsets"
TRANSACTIONS: Final = "__transaction_state"
CHURNED: Final = "churn-"  # what the names of churned topics begin with


def is_promised(topic: str) -> bool:
    """Whether what is acknowledged to acks=all there must never be lost."""
    return topic in (SAFE, LEDGER, COPIES, OFFSETS, TRANSACTIONS) or topic.startswith(CHURNED)


class Told(NamedTuple):
    """One record that a client was told of, in the order in which it was told."""

    topic_partition: TopicPartition
    offset: Offset
    value: bytes


class History:
    """The acknowledgements of every producer and the readings of every reader.

    Values are unique and name who wrote them: `producer/number`, with numbers that go up in the order of sending.
    """

    def __init__(self) -> None:
        self.promised = AcknowledgedStays()
        self.acknowledged_count = 0
        self.read_count = 0
        self._acknowledged: dict[str, list[Told]] = {}
        self._readings: dict[str, list[Told]] = {}
        self._positions: dict[tuple[str, TopicPartition], Offset] = {}
        self._numbered: dict[str, None] = {}
        self._deleted_before: dict[TopicPartition, Offset] = {}
        self.groups = GroupHistory()
        self.transactions = TransactionHistory()
        self.protests: list[str] = []  # what clients were told that nobody may ever be told

    # What producers were told.

    def acknowledge(
        self, topic_partition: TopicPartition, offset: Offset, value: bytes, *, producer: str, is_promised: bool
    ) -> None:
        """A broker said that it has the record. Promised: with acks=all, where no unclean election and no single replica can lose it."""
        self.acknowledged_count += 1
        self._acknowledged.setdefault(producer, []).append(Told(topic_partition, offset, value))
        if is_promised:
            known = self.promised.promised.get(topic_partition, {}).get(offset, value)
            if known != value:
                self.protest(
                    producer, f"{value!r} is at offset {offset} of {topic_partition}, where {known!r} is as well"
                )
            self.promised.acknowledge(topic_partition, offset, value)

    def is_promised(self, topic: str) -> bool:
        """Whether what is acknowledged to acks=all there must never be lost."""
        return is_promised(topic)

    def is_transactional(self, topic: str) -> bool:
        """Whether all that is written there is part of a transaction."""
        return topic in (LEDGER, COPIES)

    def number(self, producer: str) -> None:
        """This producer is idempotent: each of its values is in a promised log once at most, in the order of their numbers."""
        self._numbered[producer] = None

    @property
    def numbered(self) -> tuple[str, ...]:
        """The idempotent producers."""
        return tuple(self._numbered)

    def acknowledged_to(self, producer: str) -> tuple[Told, ...]:
        """What this producer was told, in the order in which it heard it."""
        return tuple(self._acknowledged.get(producer, ()))

    # What readers were given.

    def read(self, reader: str, topic_partition: TopicPartition, offset: Offset, value: bytes) -> None:
        """A reader was given a record."""
        self.read_count += 1
        expected, deleted_before = (
            self._positions.get((reader, topic_partition), 0),
            self.deleted_before(topic_partition),
        )
        if is_promised(topic_partition.topic) and not may_come_next(
            offset, expected=expected, deleted_before=deleted_before
        ):
            self.protest(reader, f"offset {offset} of {topic_partition} ({value!r}) came where {expected} was expected")
        self._readings.setdefault(reader, []).append(Told(topic_partition, offset, value))
        self._positions[reader, topic_partition] = offset + 1

    @property
    def readers(self) -> tuple[str, ...]:
        """Everybody who has read something."""
        return tuple(self._readings)

    def readings_of(self, reader: str) -> tuple[Told, ...]:
        """What a reader was given, in that order."""
        return tuple(self._readings.get(reader, ()))

    def protest(self, client: str, sentence: str) -> None:
        """A client was told what no fault explains, e.g. that a record it had read is gone."""
        self.protests.append(f"{client}: {sentence}")

    def positions(self) -> Iterator[tuple[str, TopicPartition, Offset]]:
        """Where each reader stands: the offset after the last record it was given of a partition."""
        for (reader, topic_partition), offset in self._positions.items():
            yield reader, topic_partition, offset

    # What clients have asked to be forgotten.

    def ask_deletion(self, topic_partition: TopicPartition, before: Offset) -> None:
        """A client asks that records below an offset be deleted: from now on they may be there or not."""
        self._deleted_before[topic_partition] = max(before, self.deleted_before(topic_partition))

    def deleted_before(self, topic_partition: TopicPartition) -> Offset:
        """Below this offset nothing is promised any more."""
        return self._deleted_before.get(topic_partition, 0)

    def forget(self, topic: str) -> None:
        """A client asks that the topic be deleted: nothing that was told of it so far is claimed any more."""
        for key in [key for key in self.promised.promised if key.topic == topic]:
            del self.promised.promised[key]
        for key in [key for key in self._deleted_before if key.topic == topic]:
            del self._deleted_before[key]
        for place in [place for place in self._positions if place[1].topic == topic]:
            del self._positions[place]
        for told in (self._acknowledged, self._readings):
            for name, rows in told.items():
                told[name] = [row for row in rows if row.topic_partition.topic != topic]
