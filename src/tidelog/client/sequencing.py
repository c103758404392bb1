"""The idempotent producer's numbers, without IO: which batch may be sent next, and how to go on after a gap.

Every batch of a partition is numbered in the order it is first sent. The broker takes number n only after n - 1, so a retry neither
duplicates nor overtakes. When numbers are lost for good (a batch failed or expired, or the broker forgot), the partition needs a new
producer epoch, in which numbers begin at 0 again (KIP-360). That step is taken only when it cannot duplicate:

1. Batch A expires unanswered, batch B was sent after it and its connection broke. Both may be in the log, or neither.
2. Numbering B anew now would write it twice if it is. So B is retried under its old number first.
3. Either the broker recognises B (acknowledged), or it answers "out of order": then B is certainly not in the log and may be renumbered.

The old epoch is thereby also fenced: a copy of A still in the network is refused once anything of the new epoch is in the log.

A transactional producer does not choose its epochs: its coordinator does. There a gap ends the transaction, not the epoch, and `has_gap`
tells that the next transaction needs another one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from tidelog.client.batch import OutgoingBatch
from tidelog.client.config import IN_FLIGHT_MAX_IDEMPOTENT
from tidelog.model import ProducerIdentity, TopicPartition, invariant

_EPOCH_MAX: Final = 32767


class _PartitionSequence:
    """The numbering of one partition. `unacknowledged` is in order of number; members are on the wire or wait for a retry."""

    __slots__ = ("_overtaken_by", "identity", "is_known", "needs_new_epoch", "next_sequence", "unacknowledged")

    def __init__(self, identity: ProducerIdentity) -> None:
        self.identity = identity
        self.next_sequence = 0
        self.unacknowledged: deque[OutgoingBatch] = deque()
        # Beside each, how many were numbered after it, before the next one here, and are acknowledged already.
        self._overtaken_by: list[int] = []
        self.needs_new_epoch = False
        # Whether the broker has acknowledged anything under this identity. Before, it takes any number as the first (KIP-360), so a
        # second batch could be appended in place of a first that was refused; one batch at a time goes out until then.
        self.is_known = False

    @property
    def is_quiet(self) -> bool:
        """Whether the fate of every numbered batch under this epoch is known."""
        return not any(batch.is_on_wire or batch.is_uncertain for batch in self.unacknowledged)

    @property
    def has_room(self) -> bool:
        """Whether one more may be sent. A broker knows the last five only, and must know the oldest when that is retried."""
        if not self.is_known:
            return not self.unacknowledged
        return len(self.unacknowledged) + sum(self._overtaken_by) < IN_FLIGHT_MAX_IDEMPOTENT

    def add(self, batch: OutgoingBatch) -> None:
        self.unacknowledged.append(batch)
        self._overtaken_by.append(0)

    def remove(self, batch: OutgoingBatch) -> None:
        index = self.unacknowledged.index(batch)
        self.unacknowledged.remove(batch)
        overtaken_by = self._overtaken_by.pop(index)
        if index > 0:
            self._overtaken_by[index - 1] += overtaken_by + 1

    def split(self, batch: OutgoingBatch, halves: Sequence[OutgoingBatch]) -> None:
        index = self.unacknowledged.index(batch)
        self.unacknowledged.remove(batch)
        for offset, half in enumerate(halves):
            self.unacknowledged.insert(index + offset, half)
        self._overtaken_by[index:index] = [0] * (len(halves) - 1)

    def renumber(self, identity: ProducerIdentity) -> None:
        self._overtaken_by = [0] * len(self.unacknowledged)
        self.identity = identity
        self.needs_new_epoch = False
        self.is_known = False
        self.next_sequence = 0
        for batch in self.unacknowledged:
            self.next_sequence = batch.number(identity, self.next_sequence)


class Sequencer:
    """Numbers the batches of one producer. One that `may_bump` begins new epochs by itself."""

    def __init__(self, *, may_bump: bool = True) -> None:
        self._may_bump = may_bump
        self._identity: ProducerIdentity | None = None
        self._partitions: dict[TopicPartition, _PartitionSequence] = {}

    @property
    def needs_identity(self) -> bool:
        """Whether InitProducerId must be asked before anything can be sent."""
        return self._identity is None

    @property
    def identity(self) -> ProducerIdentity | None:
        """The current producer id and epoch."""
        return self._identity

    @property
    def has_gap(self) -> bool:
        """Whether some partition can go on only under another identity."""
        return any(partition.needs_new_epoch for partition in self._partitions.values())

    def is_first_in_line(self, batch: OutgoingBatch) -> bool:
        """Whether everything that was numbered before the batch is settled: it is what the broker must take next."""
        return self._partitions[batch.topic_partition].unacknowledged[0] is batch

    def adopt(self, identity: ProducerIdentity) -> None:
        """Go on under a producer id the cluster has just given us."""
        self._identity = identity
        self._renumber_quiet_partitions(identity)

    def next_to_send(self, topic_partition: TopicPartition, queue: Sequence[OutgoingBatch]) -> OutgoingBatch | None:
        """The batch of the partition's queue that may be sent now, if any.

        Retries go one at a time, lowest number first; new batches wait while a new epoch is needed or an older one is still in use.
        """
        partition = self._partitions.get(topic_partition)
        if self._identity is None or not queue:
            return None
        if partition is None:
            return queue[0]
        if partition.needs_new_epoch:
            doubtful = next((batch for batch in partition.unacknowledged if batch.is_uncertain), None)
            return doubtful if doubtful is not None and not doubtful.is_on_wire else None
        batch = queue[0]
        if batch.identity is not None:
            return batch if partition.unacknowledged[0] is batch else None
        has_stale_identity = partition.identity != self._identity and bool(partition.unacknowledged)
        return batch if partition.has_room and not has_stale_identity else None

    def on_sent(self, batch: OutgoingBatch) -> None:
        """A batch chosen by `next_to_send` goes out; number it unless it is a retry."""
        if batch.identity is not None:
            return
        invariant(self._identity is not None, "nothing is sent before the producer id is known")
        identity = self._identity or ProducerIdentity(-1, -1)
        partition = self._partitions.get(batch.topic_partition)
        if partition is None:
            partition = self._partitions[batch.topic_partition] = _PartitionSequence(identity)
        if partition.identity != identity:
            partition.renumber(identity)
        partition.next_sequence = batch.number(identity, partition.next_sequence)
        partition.add(batch)

    def on_acknowledged(self, batch: OutgoingBatch) -> None:
        """The batch is in the log."""
        partition = self._partitions[batch.topic_partition]
        partition.remove(batch)
        partition.is_known = True
        self._bump_if_quiet(partition)

    def on_given_up(self, batch: OutgoingBatch) -> None:
        """The batch was failed or has expired: its numbers will never be used, so the partition needs a new epoch."""
        partition = self._partitions[batch.topic_partition]
        partition.remove(batch)
        partition.needs_new_epoch = True
        self._bump_if_quiet(partition)

    def on_out_of_sequence(self, batch: OutgoingBatch) -> None:
        """The broker's sequence check refused the batch. For the first in line that is a real gap; the others are only early."""
        partition = self._partitions[batch.topic_partition]
        batch.is_uncertain = False
        if partition.unacknowledged[0] is batch:
            partition.needs_new_epoch = True
        self._bump_if_quiet(partition)

    def on_retry(self, batch: OutgoingBatch, *, is_uncertain: bool) -> None:
        """An attempt ended otherwise; `is_uncertain` unless the broker said that it did not append."""
        batch.is_uncertain = batch.is_uncertain or is_uncertain
        self._bump_if_quiet(self._partitions[batch.topic_partition])

    def on_split(self, batch: OutgoingBatch, halves: Sequence[OutgoingBatch]) -> None:
        """The batch is replaced by its halves, which have its numbers."""
        self._partitions[batch.topic_partition].split(batch, halves)

    def _bump_if_quiet(self, partition: _PartitionSequence) -> None:
        if not (partition.needs_new_epoch and partition.is_quiet and self._may_bump) or self._identity is None:
            return
        producer_id, producer_epoch = self._identity
        if partition.identity != self._identity:
            # Another partition has moved the producer on already.
            partition.renumber(self._identity)
        elif producer_epoch == _EPOCH_MAX:
            self._identity = None
        else:
            self._identity = ProducerIdentity(producer_id, producer_epoch + 1)
            self._renumber_quiet_partitions(self._identity)

    def _renumber_quiet_partitions(self, identity: ProducerIdentity) -> None:
        for partition in self._partitions.values():
            if partition.needs_new_epoch and partition.is_quiet:
                partition.renumber(identity)
