"""Records waiting to be sent, gathered into batches per partition. Pure: told the time, returns what to do.

Bounded by buffer.memory; a batch leaves it when acknowledged, failed or expired. Within a partition batches leave in the order their
records came, also after retries (with idempotence always; without it where one request is in flight at a time, as in Kafka).
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tidelog.client.batch import EncodedBatch, EncodedRecords, GatheredBatch, OutgoingBatch, OutgoingRecord, Place
from tidelog.client.errors import RecordTooLarge
from tidelog.client.sequencing import Sequencer
from tidelog.model import TopicPartition, invariant
from tidelog.records.batch import HEADER_SIZE
from tidelog.records.compression import Codec


@dataclass(frozen=True, slots=True, kw_only=True)
class AccumulatorLimits:
    """How much is gathered, and how long it may wait."""

    codec: Codec
    batch_size_bytes: int
    linger_ms: float
    buffer_memory_bytes: int
    request_size_bytes_max: int
    delivery_timeout_ms: float
    keeps_one_in_flight: bool = False  # without idempotence, order survives retries only so
    is_transactional: bool = False  # the batches are


class Readiness(NamedTuple):
    """Partitions with something to send now, and when to look again because a batch has waited long enough or too long."""

    partitions: list[TopicPartition]
    next_look_ms: float | None


class RetryCause(enum.Enum):
    """How an attempt ended that is worth another one."""

    REFUSED = enum.auto()  # the broker says that it did not append
    UNCERTAIN = enum.auto()  # it may have
    OUT_OF_SEQUENCE = enum.auto()  # its sequence check says that the batch is not in the log, and not next


class _Queue:
    """One partition: batches not on the wire, in order; the last one may still take records."""

    __slots__ = ("batches", "on_wire")

    def __init__(self) -> None:
        self.batches: deque[OutgoingBatch] = deque()
        self.on_wire: list[OutgoingBatch] = []


class Accumulator:
    """The producer's memory. `sequencer` is None for producers without idempotence."""

    def __init__(self, limits: AccumulatorLimits, sequencer: Sequencer | None) -> None:
        self._limits = limits
        self._sequencer = sequencer
        self._queues: dict[TopicPartition, _Queue] = {}
        self._used_bytes = 0
        self._appended_count = 0
        self._rotation = 0

    @property
    def used_bytes(self) -> int:
        """Memory taken by everything not yet acknowledged or given up."""
        return self._used_bytes

    @property
    def appended_count(self) -> int:
        """Records ever appended: a point in the stream that `is_settled_up_to` can be asked about."""
        return self._appended_count

    def is_settled_up_to(self, appended_count: int) -> bool:
        """Whether everyone who waits for one of the first so many records has been told."""
        return all(batch.is_settled or batch.ordinal >= appended_count for batch in self._all_batches())

    def has_room(self, record: OutgoingRecord | EncodedRecords) -> bool:
        """Whether it fits into buffer.memory now. Raises RecordTooLarge for what could never be sent."""
        size = HEADER_SIZE + record.size_estimate_bytes
        for setting, limit in (
            ("max.request.size", self._limits.request_size_bytes_max),
            ("buffer.memory", self._limits.buffer_memory_bytes),
        ):
            if size > limit:
                raise RecordTooLarge(size_bytes=size, setting=setting, limit_bytes=limit)
        return self._used_bytes + size <= self._limits.buffer_memory_bytes

    def needs_new_batch(self, topic_partition: TopicPartition, record: OutgoingRecord, now_ms: float) -> bool:
        """Whether appending the record would begin a batch (the moment a sticky partitioner moves on)."""
        return self._open_batch(topic_partition, record, now_ms) is None

    def append(self, topic_partition: TopicPartition, record: OutgoingRecord | EncodedRecords, now_ms: float) -> bool:
        """Take what has room; returns whether the sender should look (a batch began, or became full).

        An encoded batch waits for no more records, and those that come go into another one.
        """
        if isinstance(record, EncodedRecords):
            self._take(EncodedBatch(topic_partition, record, self._place(now_ms)))
            self._appended_count += record.record_count
            return True
        batch = self._open_batch(topic_partition, record, now_ms)
        is_new = batch is None
        if batch is None:
            batch = GatheredBatch(topic_partition, self._place(now_ms), codec=self._limits.codec)
            self._take(batch)
        self._appended_count += 1
        before = batch.size_bytes
        batch.append(record)
        self._used_bytes += batch.size_bytes - before
        return is_new or batch.size_bytes >= self._limits.batch_size_bytes

    def ready(self, now_ms: float, *, is_urgent: bool = False) -> Readiness:
        """What can be sent now; `is_urgent` (someone flushes, or waits for memory) ends all lingering."""
        partitions: list[TopicPartition] = []
        looks_ms = [batch.deadline_ms for batch in self._all_batches() if not batch.is_settled]
        for topic_partition, queue in self._queues.items():
            batch = self._candidate(topic_partition, queue)
            if batch is None:
                continue
            ready_at_ms = self._ready_at_ms(batch, queue, is_urgent=is_urgent)
            if ready_at_ms <= now_ms:
                partitions.append(topic_partition)
            else:
                looks_ms.append(ready_at_ms)
        return Readiness(partitions, min(looks_ms, default=None))

    def drain(self, partitions: Iterable[TopicPartition]) -> list[OutgoingBatch]:
        """Take one batch of each ready partition for one request, as many as fit, beginning with another one every time."""
        wanted = list(partitions)
        self._rotation += 1
        start = self._rotation % len(wanted) if wanted else 0
        drained: list[OutgoingBatch] = []
        size = 0
        for topic_partition in wanted[start:] + wanted[:start]:
            queue = self._queues[topic_partition]
            batch = self._candidate(topic_partition, queue)
            if batch is None:
                continue
            if drained and size + batch.size_bytes > self._limits.request_size_bytes_max:
                break
            size += batch.size_bytes
            self._put_on_wire(queue, batch)
            drained.append(batch)
        return drained

    def acknowledge(self, batch: OutgoingBatch) -> None:
        """The batch on the wire is in the log; forget it."""
        self._take_off_wire(batch)
        if self._sequencer is not None:
            self._sequencer.on_acknowledged(batch)
        self._release(batch)

    def give_up(self, batch: OutgoingBatch) -> None:
        """The batch on the wire will not be tried again; forget it."""
        self._take_off_wire(batch)
        self._drop(batch)

    def retry(self, batch: OutgoingBatch, cause: RetryCause, *, at_ms: float) -> None:
        """Put a batch back at its place, to be sent again not before `at_ms`; one that expired on the wire is given up instead."""
        if batch.is_settled:
            self.give_up(batch)
            return
        self._take_off_wire(batch)
        batch.retry_at_ms = at_ms
        self._put_back(batch)
        if self._sequencer is None:
            return
        if cause is RetryCause.OUT_OF_SEQUENCE:
            self._sequencer.on_out_of_sequence(batch)
        else:
            self._sequencer.on_retry(batch, is_uncertain=cause is RetryCause.UNCERTAIN)

    def split(self, batch: OutgoingBatch) -> None:
        """Put a batch back as two smaller ones; one that expired on the wire is given up instead."""
        if batch.is_settled:
            self.give_up(batch)
            return
        halves = batch.split()
        self._take_off_wire(batch)
        if self._sequencer is not None:
            self._sequencer.on_split(batch, halves)
        for half in halves:
            self._used_bytes += half.size_bytes
            self._put_back(half)
        self._used_bytes -= batch.size_bytes

    def expire(self, now_ms: float) -> list[OutgoingBatch]:
        """Batches past their delivery timeout that nobody has been told about.

        Those waiting are forgotten at once; those on the wire stay until their request ends, because their numbers are in use until then.
        """
        expired: list[OutgoingBatch] = []
        for queue in list(self._queues.values()):
            expired += [batch for batch in queue.on_wire if batch.deadline_ms <= now_ms and not batch.is_settled]
            for batch in [batch for batch in queue.batches if batch.deadline_ms <= now_ms]:
                expired.append(batch)
                queue.batches.remove(batch)
                self._drop(batch)
        return expired

    def abandon(self) -> list[OutgoingBatch]:
        """Forget everything, at the end of the producer's life; returns what nobody has been told about."""
        batches = list(self._all_batches())
        for batch in batches:
            batch.is_on_wire = False
        self._queues.clear()
        self._used_bytes = 0
        return [batch for batch in batches if not batch.is_settled]

    def _all_batches(self) -> Iterator[OutgoingBatch]:
        for queue in self._queues.values():
            yield from queue.on_wire
            yield from queue.batches

    def _place(self, now_ms: float) -> Place:
        return Place(
            created_ms=now_ms,
            deadline_ms=now_ms + self._limits.delivery_timeout_ms,
            ordinal=self._appended_count,
            is_transactional=self._limits.is_transactional,
        )

    def _take(self, batch: OutgoingBatch) -> None:
        self._queues.setdefault(batch.topic_partition, _Queue()).batches.append(batch)
        self._used_bytes += batch.size_bytes

    def _open_batch(
        self, topic_partition: TopicPartition, record: OutgoingRecord, now_ms: float
    ) -> GatheredBatch | None:
        queue = self._queues.get(topic_partition)
        batch = queue.batches[-1] if queue is not None and queue.batches else None
        if not isinstance(batch, GatheredBatch):
            return None
        fits = batch.size_bytes + record.size_estimate_bytes <= self._limits.batch_size_bytes
        # A batch expires as a whole, so one that has waited long for its broker would take a fresh record down with it.
        is_young = now_ms - batch.created_ms <= self._limits.linger_ms + self._limits.delivery_timeout_ms / 10
        return batch if fits and is_young and not batch.attempts else None

    def _candidate(self, topic_partition: TopicPartition, queue: _Queue) -> OutgoingBatch | None:
        if self._sequencer is not None:
            return self._sequencer.next_to_send(topic_partition, queue.batches)
        if self._limits.keeps_one_in_flight and queue.on_wire:
            return None
        return queue.batches[0] if queue.batches else None

    def _ready_at_ms(self, batch: OutgoingBatch, queue: _Queue, *, is_urgent: bool) -> float:
        if batch.attempts:
            return batch.retry_at_ms
        is_full = batch.size_bytes >= self._limits.batch_size_bytes or len(queue.batches) > 1
        waits = isinstance(batch, GatheredBatch) and not (is_full or is_urgent)
        return batch.created_ms + self._limits.linger_ms if waits else batch.created_ms

    def _put_on_wire(self, queue: _Queue, batch: OutgoingBatch) -> None:
        queue.batches.remove(batch)
        queue.on_wire.append(batch)
        if self._sequencer is not None:
            self._sequencer.on_sent(batch)
        batch.is_on_wire = True
        batch.attempts += 1

    def _take_off_wire(self, batch: OutgoingBatch) -> None:
        queue = self._queues.get(batch.topic_partition)
        invariant(queue is not None and batch in queue.on_wire, "only a batch on the wire can be answered")
        if queue is not None:
            queue.on_wire.remove(batch)
        batch.is_on_wire = False

    def _put_back(self, batch: OutgoingBatch) -> None:
        batches = self._queues[batch.topic_partition].batches
        index = next((i for i, other in enumerate(batches) if other.ordinal > batch.ordinal), len(batches))
        batches.insert(index, batch)

    def _drop(self, batch: OutgoingBatch) -> None:
        if self._sequencer is not None and batch.identity is not None:
            self._sequencer.on_given_up(batch)
        self._release(batch)

    def _release(self, batch: OutgoingBatch) -> None:
        self._used_bytes -= batch.size_bytes
        queue = self._queues.get(batch.topic_partition)
        if queue is not None and not queue.batches and not queue.on_wire:
            del self._queues[batch.topic_partition]
