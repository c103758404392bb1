"""Looking at every replica of a simulated cluster from outside, at one instant, without disturbing it.

Looking again costs what has changed since: a replica that did not move is the very same `ReplicaView` as before, a partition whose
replicas did not move the very same tuple, so that whoever looks on may skip it. Files are read below every fault: a look neither meets
one nor uses one up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter, is_
from typing import Final, NamedTuple, Protocol, TypeAlias

from tidelog.controller import PartitionState
from tidelog.model import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BrokerId,
    LeaderEpoch,
    Offset,
    TopicId,
    TopicPartition,
)
from tidelog.partition import Leadership, Partition
from tidelog.records.batch import BatchHeader, headers
from tidelog.storage import PartitionLog
from tidelog.storage.names import LOG, file_name
from tidelog.storage.segment import Segment

_last_offset: Final = attrgetter("last_offset")


class StoredBatch(NamedTuple):
    """What tells one batch from any other that could lie in its place."""

    base_offset: Offset
    last_offset: Offset
    leader_epoch: LeaderEpoch
    crc: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    is_control: bool = False

    def is_rewritten(self, other: StoredBatch) -> bool:
        """Whether compaction may have made one of the other: it takes records away and keeps the rest of the header."""
        return self._replace(crc=other.crc) == other


class SeenLog:
    """What was seen of one log of one process between two cuts: batches in order, only ever more.

    What checkers have found out about the first batches stays true, so they remember by `number` how far they got.
    """

    __slots__ = ("batches", "is_rotten", "missing", "number")

    def __init__(self, number: int, batches: Iterable[StoredBatch] = ()) -> None:
        self.number = number
        self.batches = list(batches)
        self.is_rotten = False
        """A fault has changed its bytes; what they say now is nobody's fault, and was not read to its end."""
        self.missing = ""
        """The path of a segment that is not there: no fault takes a file from a broker that runs, and the log was not read to its end."""

    def index_at(self, offset: Offset) -> int:
        """Place of the first batch that ends at or after an offset."""
        return bisect_left(self.batches, offset, key=_last_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """One replica as it is now; `life` differs between two processes of one broker."""

    broker_id: BrokerId
    life: int
    topic_partition: TopicPartition
    topic_id: TopicId | None
    is_leader: bool
    leader_epoch: LeaderEpoch
    log_start_offset: Offset
    log_end_offset: Offset
    high_watermark: Offset
    last_stable_offset: Offset
    epochs: tuple[tuple[LeaderEpoch, Offset], ...]  # which leader epoch began where
    rewritable_below: Offset  # below it compaction, on any replica, may have taken records away; 0 where it never ran
    log: SeenLog
    batch_count: int  # of those in `log`; the rest came later

    @property
    def batches(self) -> tuple[StoredBatch, ...]:
        """All from the log start on."""
        return tuple(self.log.batches[self.log.index_at(self.log_start_offset) : self.batch_count])

    def below(self, offset: Offset) -> tuple[StoredBatch, ...]:
        """The batches that lie wholly below an offset."""
        return tuple(batch for batch in self.batches if batch.last_offset < offset)

    @property
    def newest_batch_epoch(self) -> LeaderEpoch:
        """Leader epoch of the last batch, -1 without one."""
        return self.log.batches[self.batch_count - 1].leader_epoch if self.batch_count else NO_LEADER_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The replicas that run, and what the registry says of each partition."""

    now_ms: float
    replicas: Mapping[TopicPartition, tuple[ReplicaView, ...]]
    states: Mapping[TopicPartition, PartitionState]
    changed_since: dict[tuple[int, int], list[TopicPartition]] = field(default_factory=dict, compare=False, repr=False)
    """What `changes` has found out about this snapshot and an earlier one, so that each pair is compared once for all checkers."""

    def is_whole(self, topic_partition: TopicPartition) -> bool:
        """Whether all replicas are in the ISR, lead and follow in one epoch, and end where the leader ends."""
        state, views = self.states[topic_partition], self.replicas.get(topic_partition, ())
        return (
            sorted(state.isr) == sorted(state.assignment) == sorted(view.broker_id for view in views)
            and len({(view.leader_epoch, view.log_end_offset, view.high_watermark) for view in views}) == 1
            and views[0].high_watermark == views[0].log_end_offset
            and sum(view.is_leader for view in views) == 1
        )

    def leaders(self) -> Iterator[ReplicaView]:
        """Every replica that believes to lead."""
        for views in self.replicas.values():
            yield from (view for view in views if view.is_leader)


class PeekedFile(Protocol):
    """A file as it is now."""

    content: bytearray

    @property
    def is_rotten(self) -> bool:
        """Whether a fault has changed bytes of it that are still there."""
        ...


class Peekable(Protocol):
    """A disk that lets an onlooker see below its faults."""

    def peek(self, path: str) -> PeekedFile | None:
        """The file at a path, None where there is none."""
        ...


class Place(NamedTuple):
    """Whose replica is looked at: a process of a broker, and the disk it runs on."""

    broker_id: BrokerId
    life: int
    disk: Peekable


_Stamp: TypeAlias = tuple[Offset, Offset, Offset, int, LeaderEpoch, Leadership | None, TopicId | None]


class _Known:
    """What is known of the replica of one process."""

    __slots__ = ("cut_count", "life", "log", "place", "sealed", "seen", "stamp", "view")

    def __init__(self, life: int, log: PartitionLog, seen: SeenLog) -> None:
        self.life = life
        self.log = log  # Kept, so that no other log can be taken for it.
        self.cut_count = log.cut_count
        self.seen = seen
        self.sealed: Sequence[Segment] = ()
        self.place: tuple[Offset, int] = (-1, 0)  # the segment that was read last, and up to where
        self.stamp: _Stamp | None = None  # which shows that the replica has changed
        self.view: ReplicaView | None = None


class Observer:
    """Reads logs once and remembers them, so that looking often is cheap."""

    def __init__(self) -> None:
        self._known: dict[tuple[BrokerId, TopicPartition], _Known] = {}
        self._log_count = 0
        self._rewritable: dict[tuple[TopicPartition, TopicId | None], Offset] = {}
        self._views: list[ReplicaView] = []
        self._by_partition: Mapping[TopicPartition, tuple[ReplicaView, ...]] = {}

    def replicas(self, found: Iterable[tuple[Place, Partition]]) -> Mapping[TopicPartition, tuple[ReplicaView, ...]]:
        """The views of each partition, in the order of the brokers; the same object as last time if nothing has changed."""
        views = [self.view(place, partition) for place, partition in found]
        if len(views) != len(self._views) or not all(map(is_, views, self._views)):
            self._views = views
            self._by_partition = _grouped(views, self._by_partition)
        return self._by_partition

    def view(self, place: Place, partition: Partition) -> ReplicaView:
        """One replica now; the same object as last time if it has not changed."""
        log = partition.log
        stamp = (
            log.log_end_offset,
            partition.high_watermark,
            log.log_start_offset,
            log.cut_count,
            log.latest_leader_epoch,
            partition.leadership,
            log.topic_id,
        )
        known = self._known.get((place.broker_id, log.topic_partition))
        if known is not None and known.view is not None and known.log is log and known.stamp == stamp:
            return known.view
        known = self._caught_up(known, place, log)
        known.stamp = stamp
        known.view = self._seen_now(known, place, partition)
        return known.view

    def _seen_now(self, known: _Known, place: Place, partition: Partition) -> ReplicaView:
        log = partition.log
        return ReplicaView(
            broker_id=place.broker_id,
            life=place.life,
            topic_partition=partition.topic_partition,
            topic_id=log.topic_id,
            is_leader=partition.is_leader,
            leader_epoch=partition.leader_epoch,
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            epochs=tuple((entry.leader_epoch, entry.start_offset) for entry in log.epochs),
            rewritable_below=self._rewritable_below(log),
            log=known.seen,
            batch_count=len(known.seen.batches),
        )

    def _rewritable_below(self, log: PartitionLog) -> Offset:
        """Compaction leaves the active segment alone, but followers copy what it made; and a policy may change, what it did stays done."""
        key = (log.topic_partition, log.topic_id)
        if log.config.is_compacted:
            self._rewritable[key] = max(self._rewritable.get(key, 0), log.segments[-1].base_offset)
        return self._rewritable.get(key, 0)

    def _caught_up(self, known: _Known | None, place: Place, log: PartitionLog) -> _Known:
        """All that the log holds now is among what was seen; a log that is not the one seen before with more at its end is read anew."""
        if known is None or known.life != place.life or not _goes_on(known, log):
            self._log_count += 1
            known = self._known[place.broker_id, log.topic_partition] = _Known(
                place.life, log, SeenLog(self._log_count)
            )
        if not (known.seen.is_rotten or known.seen.missing):
            _read(known, place.disk)
        known.sealed = tuple(log.segments[:-1])
        return known


def _goes_on(known: _Known, log: PartitionLog) -> bool:
    if known.log is not log or known.cut_count != log.cut_count:
        return False
    segments = log.segments
    if log.config.is_compacted and not all(map(is_, known.sealed, segments)):
        return False  # Compacted segments took the place of others, or old ones went.
    return segments[0].base_offset <= known.place[0]


def _read(known: _Known, disk: Peekable) -> None:
    """See what came since the last look, segment by segment."""
    log, (base_offset, position) = known.log, known.place
    start = len(log.segments)
    while start > 0 and log.segments[start - 1].base_offset >= base_offset:
        start -= 1
    for segment in log.segments[start:]:
        position = position if segment.base_offset == base_offset else 0
        path = f"{log.directory}/{file_name(segment.base_offset, LOG)}"
        file = disk.peek(path)
        if file is None:
            known.seen.missing = path
            return
        if file.is_rotten:
            known.seen.is_rotten = True
            return
        if segment.size > position:
            found = (_stored(header) for _, header in headers(file.content[position : segment.size]))
            known.seen.batches += [batch for batch in found if batch.last_offset >= log.log_start_offset]
        known.place = (segment.base_offset, segment.size)


def _stored(header: BatchHeader) -> StoredBatch:
    return StoredBatch(
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        leader_epoch=header.leader_epoch,
        crc=header.crc,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_control=header.is_control,
    )


def _grouped(
    views: Iterable[ReplicaView], before: Mapping[TopicPartition, tuple[ReplicaView, ...]]
) -> dict[TopicPartition, tuple[ReplicaView, ...]]:
    found: dict[TopicPartition, list[ReplicaView]] = {}
    for view in views:
        found.setdefault(view.topic_partition, []).append(view)
    grouped: dict[TopicPartition, tuple[ReplicaView, ...]] = {}
    for topic_partition, group in found.items():
        known = before.get(topic_partition, ())
        is_same = len(known) == len(group) and all(map(is_, known, group))
        grouped[topic_partition] = known if is_same else tuple(group)
    return grouped
