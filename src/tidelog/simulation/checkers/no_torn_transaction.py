"""I8: of every transaction, all records are seen or none, in all partitions alike; so the total of all accounts never changes.

Claimed of what a fresh reader of what is committed is given in the end, of each reader that has read to the end, and of the logs: no
transaction was committed in one partition and aborted in another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tidelog.model import TopicPartition
from tidelog.simulation.checkers.ending import Ending
from tidelog.simulation.transaction_history import TransactionHistory


class NoTornTransaction:
    """Compares what was written with what is seen."""

    name = "I8 no transaction is torn"

    def verdict(self, ending: Ending) -> Iterator[str]:
        """Transactions of which only a part is seen."""
        history = ending.history.transactions
        fresh = [value for found in ending.committed.values() for value in found.values()]
        yield from _torn(history, "a fresh reader", fresh, ending.committed)
        for reader, readings in history.readings_by_reader():
            topics = {reading.topic_partition.topic for reading in readings}
            places = [one for one in ending.committed if one.topic in topics]
            yield from _torn(history, reader, [reading.value for reading in readings], places)
        yield from _decided_differently(ending)


def _torn(
    history: TransactionHistory, reader: str, values: Iterable[bytes], places: Iterable[TopicPartition]
) -> Iterator[str]:
    """Among the partitions that were read."""
    seen, read = set(values), set(places)
    total = 0
    for transaction in history.transactions.values():
        entries = {value: entry for value, entry in transaction.entries.items() if entry.topic_partition in read}
        missing = [value for value in entries if value not in seen]
        if missing and len(missing) < len(entries):
            yield (
                f"{reader} was given {len(entries) - len(missing)} of {len(entries)} records of {transaction.name} "
                f"({transaction.fate.value}), and not {missing[0]!r}"
            )
        total += sum(entry.amount for value, entry in entries.items() if value in seen)
    if total != 0:
        yield f"{reader} finds {total} in all accounts together, which was 0 in the beginning"


def _decided_differently(ending: Ending) -> Iterator[str]:
    decisions: dict[str, tuple[TopicPartition, bool]] = {}
    for topic_partition, logs in ending.transaction_logs.items():
        for logged in (each for log in logs.values() for each in log.transactions):
            for name in _names(ending.history.transactions, logged.values):
                if logged.is_committed is None:
                    continue
                where, is_committed = decisions.setdefault(name, (topic_partition, logged.is_committed))
                if is_committed is not logged.is_committed:
                    how = {True: "committed", False: "aborted"}
                    yield (
                        f"{name} is {how[is_committed]} in {where} and {how[logged.is_committed]} in {topic_partition}"
                    )


def _names(history: TransactionHistory, values: Mapping[int, bytes]) -> list[str]:
    found = (history.transaction_of(value) for value in values.values())
    return list(dict.fromkeys(transaction.name for transaction in found if transaction is not None))
