"""When everything is over, every log can be read, and a consumer has read every partition: what is not looked at is no verdict.

Nothing excuses a log that cannot be read then: links are mended, everybody runs, and the injector has replaced a disk whose rot was left.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.simulation.checkers.ending import Ending


class EverythingIsRead:
    """Looks for gaps in what the other checkers are given."""

    name = "everything can be read in the end"

    def verdict(self, ending: Ending) -> Iterator[str]:
        """What nobody could read."""
        for (broker_id, topic_partition), why in ending.unreadable.items():
            yield f"broker {broker_id} cannot read its log of {topic_partition} {why}"
        for topic_partition, state in ending.snapshot.states.items():
            if topic_partition not in ending.consumed:
                yield f"{topic_partition} is led by nobody of whom a consumer could read it"
            is_transactional = ending.history.is_transactional(topic_partition.topic)
            if is_transactional and topic_partition not in ending.committed:
                yield f"{topic_partition} is led by nobody of whom a consumer could read what is committed"
            for broker_id in state.assignment:
                if (broker_id, topic_partition) not in ending.contents:
                    yield f"broker {broker_id} has no log of {topic_partition}, which is assigned to it"
                elif is_transactional and broker_id not in ending.transaction_logs.get(topic_partition, {}):
                    yield f"broker {broker_id} has a log of {topic_partition} whose transactions were not read"
