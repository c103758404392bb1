"""Readers: each is given every record of `safe` once and in order, whoever leads, whatever dies, wherever it reads.

A reader of `unclean` may be given other records for those it had; it only must go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tidelog.client import (
    ConsumedRecord,
    Consumer,
    ConsumerConfig,
    CorruptRecords,
    LogTruncated,
    OffsetOutOfRange,
)
from tidelog.model import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicPartition
from tidelog.runtime import Runtime
from tidelog.simulation.observer import Snapshot
from tidelog.simulation.randomness import SimulatedRandomness
from tidelog.simulation.workloads.history import History
from tidelog.simulation.workloads.topics import SAFE_PARTITIONS
from tidelog.simulation.workloads.workload import PATIENCE, Repeating, Workload

_POLL_MS: Final = 400
# Answers wait for a few records: a fetch for each single one would make the simulation slow, and show nothing more.
_FETCHING: Final[Mapping[str, str]] = {**PATIENCE, "fetch.min.bytes": "1500", "fetch.max.wait.ms": "300"}


class _Position(NamedTuple):
    offset: Offset
    last_epoch: LeaderEpoch


class Reader(Repeating):
    """Reads on from where it is, for ever.

    With `session_polls_max` it stops after so many polls and a new one goes on where it was, as a restarted program would. With a rack it
    reads from the replica that is there. Where auto.offset.reset is `earliest`, a reset shows as a reading that goes back.
    """

    is_reading = True

    def __init__(
        self,
        name: str,
        history: History,
        randomness: SimulatedRandomness,
        settings: Mapping[str, str],
        *,
        partitions: Sequence[TopicPartition] = SAFE_PARTITIONS,
        session_polls_max: int | None = None,
    ) -> None:
        super().__init__(name, randomness, pause_ms=(10, 50))
        self._partitions = tuple(partitions)
        self._history = history
        self._config = ConsumerConfig.from_properties({**_FETCHING, **settings})
        self._session_polls_max = session_polls_max
        self._positions: dict[TopicPartition, _Position] = {}

    async def session(self, runtime: Runtime) -> None:
        """One consumer."""
        polls = 0
        async with Consumer.connect(self._config, runtime) as consumer:
            consumer.assign(self._partitions)
            for topic_partition in self._partitions:
                self._return(consumer, topic_partition)
            while not self.is_stopping and polls < (self._session_polls_max or polls + 1):
                polls += 1
                await self._poll(consumer)

    def lag(self, snapshot: Snapshot) -> Iterator[str]:
        """Partitions of which it has not yet read all that is committed, as far as they have leaders."""
        for leader in snapshot.leaders():
            if leader.topic_partition in self._partitions:
                offset = self._offset(leader.topic_partition)
                if max(offset, leader.log_start_offset) < leader.high_watermark:
                    yield f"{self.name} is at {offset} of {leader.topic_partition}, which is committed up to {leader.high_watermark}"

    async def _poll(self, consumer: Consumer) -> None:
        try:
            records = await consumer.poll(timeout_ms=_POLL_MS)
        except (OffsetOutOfRange, LogTruncated) as error:
            self._lost(consumer, error)
            await self.pause()
            return
        except CorruptRecords as error:  # A flipped bit. Another replica has the records as they were.
            self._return(consumer, error.topic_partition)
            self.failures += 1
            await self.pause()
            return
        for record in records:
            self._take(record)

    def _take(self, record: ConsumedRecord) -> None:
        self.steps += 1
        self._positions[record.topic_partition] = _Position(record.offset + 1, record.leader_epoch)
        self._history.read(self.name, record.topic_partition, record.offset, record.value or b"")

    def _lost(self, consumer: Consumer, error: OffsetOutOfRange | LogTruncated) -> None:
        """Records may be gone because a client had them deleted; for no other reason."""
        topic_partition = error.topic_partition
        if self._offset(topic_partition) < self._history.deleted_before(topic_partition):
            consumer.seek_to_beginning(topic_partition)
            return
        self._history.protest(self.name, str(error))
        self.stop()

    def _return(self, consumer: Consumer, topic_partition: TopicPartition) -> None:
        position = self._positions.get(topic_partition)
        if position is None:
            consumer.seek_to_beginning(topic_partition)
        else:
            consumer.seek(topic_partition, position.offset, last_epoch=position.last_epoch)

    def _offset(self, topic_partition: TopicPartition) -> Offset:
        return self._positions.get(topic_partition, _Position(0, NO_LEADER_EPOCH)).offset


def laggards(workloads: Iterable[Workload], snapshot: Snapshot) -> Iterator[str]:
    """Readers that are not yet at the end of what is committed."""
    for workload in workloads:
        yield from workload.lag(snapshot)
