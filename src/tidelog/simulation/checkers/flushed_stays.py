"""I13, the other half: what a broker has flushed is there when it starts again.

Copies hide it when one broker loses what it called durable, so the loss of a record is too late a sign. Claimed of every log that a new
life of a broker opens: it ends no earlier than what its former life called flushed. Where every message is flushed before it counts, that
is all that may be acknowledged; else it is the recovery point. Not claimed of disks that were replaced in between, nor of logs with rot,
nor of logs that their new life has cut already, nor of replicas that were moved away meanwhile, nor of what the former life has itself cut
off since the last look: a broker may die in the middle of that, when nobody can look at its replicas, so its disk is listened to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final, NamedTuple, Protocol

from tidelog.model import BrokerId, Offset, TopicId, TopicPartition
from tidelog.partition import Partition
from tidelog.simulation.disk import SimulatedDisk
from tidelog.simulation.disk_faults import Operation
from tidelog.simulation.observer import Snapshot
from tidelog.storage.names import LOG

_SHORTENING: Final = frozenset({"truncate", "unlink", "rename"})


class Machine(Protocol):
    """Where a broker runs."""

    @property
    def incarnation(self) -> int:
        """Which of its processes runs."""
        ...

    @property
    def disk(self) -> SimulatedDisk:
        """What outlives them."""
        ...


class Starter(Protocol):
    """A broker that comes and goes."""

    @property
    def broker_id(self) -> BrokerId:
        """Who it is."""
        ...

    @property
    def node(self) -> Machine:
        """Where it runs."""
        ...

    def partitions(self) -> Iterable[Partition]:
        """Its replicas."""
        ...


class _Kept(NamedTuple):
    """What one life of a broker knows of one log."""

    life: int
    harm_count: int
    directory: str
    topic_id: TopicId | None
    flushed_to: Offset


class FlushedStays:
    """Remembers of every log how far it was flushed, also of brokers that are down."""

    name = "I13 what was flushed stays"

    def __init__(self, brokers: Iterable[Starter]) -> None:
        self._brokers = brokers
        self._kept: dict[tuple[BrokerId, TopicPartition], _Kept] = {}
        for broker in brokers:
            broker.node.disk.on_operation(partial(self._on_operation, broker))

    def look(self, snapshot: Snapshot) -> Iterator[str]:
        """Logs that came back shorter than they were flushed."""
        self._forget_moved(snapshot)
        for broker in self._brokers:
            for partition in broker.partitions():
                key = (broker.broker_id, partition.topic_partition)
                now, before = _kept(broker, partition), self._kept.get(key)
                if now == before:
                    continue  # Nor has a bit turned since: that would be harm.
                self._kept.pop(key, None)
                if not _is_rotten(broker.node.disk, partition):
                    self._kept[key] = now
                if before is not None and _is_shorter(before, now, partition):
                    yield (
                        f"{partition.topic_partition}: broker {broker.broker_id} had flushed up to {before.flushed_to} and came "
                        f"back with a log that ends at {partition.log.log_end_offset}"
                    )

    def _on_operation(self, broker: Starter, operation: Operation) -> None:
        """A life that shortens a log itself has nothing to keep of it until it is looked at again."""
        if operation.name not in _SHORTENING:
            return
        for key, kept in list(self._kept.items()):
            if key[0] == broker.broker_id and kept.life == broker.node.incarnation and _is_part(operation.path, kept):
                del self._kept[key]

    def _forget_moved(self, snapshot: Snapshot) -> None:
        for key in list(self._kept):
            broker_id, topic_partition = key
            state = snapshot.states.get(topic_partition)
            if state is None or broker_id not in state.assignment:
                del self._kept[key]


def _kept(broker: Starter, partition: Partition) -> _Kept:
    log = partition.log
    is_flushed_first = log.config.flush_messages == 1
    return _Kept(
        life=broker.node.incarnation,
        harm_count=broker.node.disk.harm_count,
        directory=log.directory,
        topic_id=log.topic_id,
        flushed_to=log.settled_end_offset if is_flushed_first else log.recovery_point,
    )


def _is_part(path: str, kept: _Kept) -> bool:
    """Whether a file or directory holds batches of a log."""
    return path == kept.directory or (path.endswith(LOG) and path.startswith(f"{kept.directory}/"))


def _is_rotten(disk: SimulatedDisk, partition: Partition) -> bool:
    """Whether a start may have to cut the log where a bit has turned."""
    if not disk.harm_count:
        return False
    files = [disk.peek(segment.path(LOG)) for segment in partition.log.segments]
    return any(file is not None and file.is_rotten for file in files)


def _is_shorter(before: _Kept, now: _Kept, partition: Partition) -> bool:
    is_same_log = before.topic_id == now.topic_id and before.harm_count == now.harm_count
    is_reborn = before.life != now.life and partition.log.cut_count == 0
    return is_same_log and is_reborn and partition.log.log_end_offset < before.flushed_to
