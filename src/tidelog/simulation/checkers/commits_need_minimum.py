"""Nothing is committed by fewer replicas than min.insync.replicas asks for.

Where a leader commits alone, the others stay eligible to lead (KIP-966), since nothing that they lack can have been committed. A leader
that breaks this loses nothing by itself; somebody has to die at the right moment for that. So the leader is watched, not the loss.

Claimed of what a leader knows: the ISR it was told and the settings it has heard. Between two looks at which both are the same and the
ISR is too small, its high watermark stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from tidelog.model import BrokerId, LeaderEpoch, Offset, TopicPartition
from tidelog.partition import Partition
from tidelog.simulation.observer import Snapshot


class Life(Protocol):
    """A process, told from those before and after it."""

    @property
    def incarnation(self) -> int:
        """Which one it is."""
        ...


class Leaders(Protocol):
    """A broker that can be looked into."""

    @property
    def broker_id(self) -> BrokerId:
        """Who it is."""
        ...

    @property
    def node(self) -> Life:
        """Where it runs."""
        ...

    def partitions(self) -> Iterable[Partition]:
        """Its replicas."""
        ...


class _Reign(NamedTuple):
    """What must be the same for two looks to be compared."""

    life: int
    leader_epoch: LeaderEpoch
    partition_epoch: int
    minimum: int


class CommitsNeedMinimum:
    """Remembers the high watermark of every leader whose ISR is too small."""

    name = "I5 nothing is committed by too few"

    def __init__(self, brokers: Iterable[Leaders]) -> None:
        self._brokers = brokers
        self._short: dict[tuple[BrokerId, TopicPartition], tuple[_Reign, Offset]] = {}

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """Watermarks that moved all the same."""
        del snapshot
        before, self._short = self._short, {}
        for broker in self._brokers:
            for partition in broker.partitions():
                reign = _too_small(broker, partition)
                if reign is None:
                    continue
                key = (broker.broker_id, partition.topic_partition)
                self._short[key] = (reign, partition.high_watermark)
                known, high_watermark = before.get(key, (None, 0))
                if known == reign and partition.high_watermark > high_watermark:
                    yield (
                        f"{partition.topic_partition}: broker {broker.broker_id} in epoch {reign.leader_epoch} committed "
                        f"from {high_watermark} to {partition.high_watermark} with the ISR {list(partition.isr)}, "
                        f"of which at least {reign.minimum} are wanted"
                    )


def _too_small(broker: Leaders, partition: Partition) -> _Reign | None:
    leadership = partition.leadership
    if leadership is None or not partition.is_leader:
        return None
    minimum = min(partition.log.config.min_insync_replicas, leadership.original_count)
    if len(partition.isr) >= minimum:
        return None
    return _Reign(broker.node.incarnation, leadership.leader_epoch, leadership.partition_epoch, minimum)
