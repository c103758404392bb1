"""I9: every open transaction ends in time, so that the last stable offset moves on.

When faults are over and writers have stopped, transactions that are still open are ended by their time-out, and the last stable offset
comes to the high watermark on every replica, in every partition. Transactions that were prepared are ended by their owners first.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.simulation.checkers.ending import Ending
from tidelog.simulation.observer import Snapshot


def undecided(snapshot: Snapshot) -> Iterator[str]:
    """Partitions in which a transaction is open, or its marker not committed."""
    for topic_partition, views in snapshot.replicas.items():
        for view in views:
            if topic_partition in snapshot.states and view.last_stable_offset < view.high_watermark:
                yield (
                    f"{topic_partition} is stable up to {view.last_stable_offset} on broker {view.broker_id}, and committed up "
                    f"to {view.high_watermark}"
                )


class TransactionsEnded:
    """Nothing is undecided in the end."""

    name = "I9 every transaction ends"

    def verdict(self, ending: Ending) -> Iterator[str]:
        """Partitions with something undecided, by what the brokers say and by what lies in the logs."""
        yield from undecided(ending.snapshot)
        for topic_partition, logs in ending.transaction_logs.items():
            for broker_id, log in logs.items():
                for logged in log.transactions:
                    if logged.is_committed is None:
                        yield (
                            f"{topic_partition} on broker {broker_id} has no marker for what producer {logged.producer_id} "
                            f"began at {logged.first_offset}"
                        )
