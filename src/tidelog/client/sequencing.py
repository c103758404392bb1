"""The idempotent producer's numbers, without IO: which batch may be sent next, and how to go on after a gap.

Every batch of a partition is numbered in the order it is first sent. The broker takes number n only after n - 1, so a retry neither
duplicates nor overtakes. When numbers are lost for good (a batch failed or expired, or the broker forgot), the partition needs a new
producer epoch, in which numbers begin at 0 again (KIP-360). That step is taken only when it cannot duplicate:

1. Batch A expires unanswered, batch B was sent after it and its connection broke. Both may be in the log, or neither.
2. Numbering B anew now would write it twice if it is. So B is retried under its old number first.
3. Either the broker recognises B (acknowledged), or it answers "out of order": then B is certainly not in the log and may be renumbered.

The old epoch is thereby also fenced: a copy of A still in the network is refused once anything of the new epoch is in the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from tidelog.client.batch import OutgoingBatch, ProducerIdentity
from tidelog.client.config import IN_FLIGHT_MAX_IDEMPOTENT
from tidelog.model import TopicPartition, invariant

_EPOCH_MAX: Final = 32767


class _PartitionSequence:
    """The numbering of one partition. `unacknowledged` is in order of number; members are on the wire or wait for a retry."""

    __slots__ = ("identity", "is_known", "needs_new_epoch", "next_sequence", "unacknowledged")

    def __init__(self, identity: ProducerIdentity) -> None:
        self.identity = identity
        self.next_sequence = 0
        self.unacknowledged: deque[OutgoingBatch] = deque()
        self.needs_new_epoch = False
        # Whether the broker has acknowledged anything under this identity. Before, it takes any number as the first (KIP-360), so a
        # second batch could be appended in place of a first that was refused; one batch at a time goes out until then.
        self.is_known = False

    @property
    def is_quiet(self) -> bool:
        """Whether the fate of every numbered batch under this epoch is known."""
        return not any(batch.is_on_wire or batch.is_uncertain for batch in self.unacknowledged)

    def renumber(self, identity: ProducerIdentity) -> None:
        self.identity = identity
        self.needs_new_epoch = False
        self.is_known = False
        self.next_sequence = 0
        for batch in self.unacknowledged:
            self.next_sequence = batch.number(identity, self.next_sequence)


class Sequencer:
    """Numbers the batches of one producer."""

    def __init__(self) -> None:
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
        has_room = len(partition.unacknowledged) < (IN_FLIGHT_MAX_IDEMPOTENT if partition.is_known else 1)
        return batch if has_room and not has_stale_identity else None

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
        partition.unacknowledged.append(batch)

    def on_acknowledged(self, batch: OutgoingBatch) -> None:
        """The batch is in the log."""
        partition = self._partitions[batch.topic_partition]
        partition.unacknowledged.remove(batch)
        partition.is_known = True
        self._bump_if_quiet(partition)

    def on_given_up(self, batch: OutgoingBatch) -> None:
        """The batch was failed or has expired: its numbers will never be used, so the partition needs a new epoch."""
        partition = self._partitions[batch.topic_partition]
        partition.unacknowledged.remove(batch)
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
        unacknowledged = self._partitions[batch.topic_partition].unacknowledged
        index = unacknowledged.index(batch)
        unacknowledged.remove(batch)
        for offset, half in enumerate(halves):
            unacknowledged.insert(index + offset, half)

    def _bump_if_quiet(self, partition: _PartitionSequence) -> None:
        if not (partition.needs_new_epoch and partition.is_quiet) or self._identity is None:
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
