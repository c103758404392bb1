"""The numbers of the idempotent producer, by example and against a model of the broker."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.client.deliveries import T0, T1, Noted, idempotent, limits, record
from tidelog.client.accumulator import Accumulator, RetryCause
from tidelog.client.batch import OutgoingBatch, RecordMetadata
from tidelog.client.errors import ClientClosed
from tidelog.client.sequencing import Sequencer
from tidelog.model import ProducerIdentity, TopicPartition
from tidelog.records.batch import read_header
from tidelog.records.record import read_records


def filled(count: int) -> tuple[Accumulator, Sequencer]:
    """So many batches of one record, after a first one with which the broker has come to know the producer."""
    accumulator, sequencer = idempotent()
    accumulator.append(T0, record(), 0)
    accumulator.acknowledge(accumulator.drain([T0])[0])
    for _ in range(count):
        accumulator.append(T0, record(), 0)
    return accumulator, sequencer


def drain_all(accumulator: Accumulator, partition: TopicPartition = T0) -> list[OutgoingBatch]:
    drained = []
    while batches := accumulator.drain(accumulator.ready(0).partitions and [partition]):
        drained += batches
    return drained


def numbers(batches: list[OutgoingBatch]) -> list[tuple[int, int]]:
    headers = [read_header(batch.encode()) for batch in batches]
    return [(header.producer_epoch, header.base_sequence) for header in headers]


def test_nothing_is_sent_before_the_producer_id_is_known() -> None:
    sequencer = Sequencer()
    accumulator, _ = idempotent()
    accumulator = Accumulator(accumulator._limits, sequencer)  # noqa: SLF001
    accumulator.append(T0, record(), 0)
    assert accumulator.ready(100).partitions == []
    sequencer.adopt(ProducerIdentity(9, 0))
    assert accumulator.ready(100).partitions == [T0]


def test_batches_are_numbered_in_order_per_partition() -> None:
    accumulator, _ = filled(3)
    accumulator.append(T1, record(), 0)
    assert numbers(drain_all(accumulator)) == [(0, 1), (0, 2), (0, 3)]
    assert numbers(drain_all(accumulator, T1)) == [(0, 0)]


def test_at_most_five_batches_of_a_partition_are_unacknowledged() -> None:
    accumulator, _ = filled(7)
    sent = drain_all(accumulator)
    assert len(sent) == 5
    accumulator.acknowledge(sent[0])
    assert numbers(drain_all(accumulator)) == [(0, 6)]


def test_a_batch_is_not_left_more_than_five_behind() -> None:
    """The broker would have forgotten it when it is retried at a new leader, and say that it is not there."""
    accumulator, _ = filled(5)
    oldest, *others = drain_all(accumulator)
    for batch in others:
        accumulator.acknowledge(batch)
    accumulator.append(T0, record(), 0)
    assert drain_all(accumulator) == []
    accumulator.acknowledge(oldest)
    assert len(drain_all(accumulator)) == 1


def test_one_batch_goes_first_until_the_broker_knows_the_producer() -> None:
    accumulator, _ = idempotent()
    for _ in range(3):
        accumulator.append(T0, record(), 0)
    (first,) = drain_all(accumulator)
    accumulator.acknowledge(first)
    assert len(drain_all(accumulator)) == 2


def test_sequence_wraps_to_zero_after_the_largest_int() -> None:
    batch = filled(1)[0].drain([T0])[0]
    assert batch.number(ProducerIdentity(9, 0), 2**31 - 1) == 0


def test_retries_go_one_at_a_time_lowest_number_first_with_the_same_numbers() -> None:
    accumulator, _ = filled(3)
    first, second, third = drain_all(accumulator)
    for batch in (third, first, second):
        accumulator.retry(batch, RetryCause.UNCERTAIN, at_ms=0)
    assert drain_all(accumulator) == [first]
    accumulator.acknowledge(first)
    assert drain_all(accumulator) == [second]
    assert numbers([first, second, third]) == [(0, 1), (0, 2), (0, 3)]


def test_new_batches_wait_behind_a_retry() -> None:
    accumulator, _ = filled(1)
    (first,) = drain_all(accumulator)
    accumulator.append(T0, record(), 0)
    accumulator.retry(first, RetryCause.REFUSED, at_ms=0)
    assert accumulator.drain([T0]) == [first]


def test_out_of_order_behind_an_unanswered_batch_is_only_early() -> None:
    accumulator, sequencer = filled(2)
    first, second = drain_all(accumulator)
    accumulator.retry(second, RetryCause.OUT_OF_SEQUENCE, at_ms=0)
    assert sequencer.identity == ProducerIdentity(9, 0)
    accumulator.acknowledge(first)
    assert drain_all(accumulator) == [second]
    assert numbers([second]) == [(0, 2)]


def test_out_of_order_for_the_first_in_line_takes_a_new_epoch_from_zero() -> None:
    accumulator, sequencer = filled(2)
    first, second = drain_all(accumulator)
    accumulator.retry(first, RetryCause.OUT_OF_SEQUENCE, at_ms=0)
    assert drain_all(accumulator) == []
    accumulator.retry(second, RetryCause.OUT_OF_SEQUENCE, at_ms=0)
    assert sequencer.identity == ProducerIdentity(9, 1)
    assert drain_all(accumulator) == [first]
    assert numbers([first, second]) == [(1, 0), (1, 1)]


def test_a_doubtful_batch_is_retried_under_its_old_number_before_a_new_epoch() -> None:
    accumulator, sequencer = filled(2)
    expiring, doubtful = drain_all(accumulator)
    accumulator.retry(expiring, RetryCause.UNCERTAIN, at_ms=0)
    expiring.deadline_ms = 10
    accumulator.retry(doubtful, RetryCause.UNCERTAIN, at_ms=0)
    assert accumulator.expire(10) == [expiring]
    accumulator.append(T0, record(), 0)
    assert drain_all(accumulator) == [doubtful]
    assert numbers([doubtful]) == [(0, 2)]
    accumulator.acknowledge(doubtful)
    assert sequencer.identity == ProducerIdentity(9, 1)
    assert numbers(drain_all(accumulator)) == [(1, 0)]


def test_a_failed_batch_leaves_a_gap_that_a_new_epoch_closes() -> None:
    accumulator, _ = filled(2)
    failed, following = drain_all(accumulator)
    accumulator.give_up(failed)
    failed.fail(ClientClosed("refused"))
    accumulator.retry(following, RetryCause.OUT_OF_SEQUENCE, at_ms=0)
    assert drain_all(accumulator) == [following]
    assert numbers([following]) == [(1, 0)]


def test_other_partitions_finish_under_the_old_epoch_and_then_start_over() -> None:
    accumulator, _ = filled(1)
    accumulator.append(T1, record(), 0)
    (broken,), (other,) = drain_all(accumulator), drain_all(accumulator, T1)
    accumulator.retry(broken, RetryCause.OUT_OF_SEQUENCE, at_ms=0)
    accumulator.append(T1, record(), 0)
    assert drain_all(accumulator, T1) == []
    accumulator.retry(other, RetryCause.UNCERTAIN, at_ms=0)
    assert numbers(accumulator.drain([T1])) == [(0, 0)]
    accumulator.acknowledge(other)
    assert numbers(accumulator.drain([T1])) == [(1, 0)]


def test_an_exhausted_epoch_needs_a_new_producer_id() -> None:
    accumulator, sequencer = filled(1)
    sequencer.adopt(ProducerIdentity(9, 32767))
    (batch,) = drain_all(accumulator)
    assert numbers([batch]) == [(32767, 0)]
    accumulator.retry(batch, RetryCause.OUT_OF_SEQUENCE, at_ms=0)
    assert sequencer.needs_identity
    assert drain_all(accumulator) == []
    sequencer.adopt(ProducerIdentity(10, 0))
    assert numbers(drain_all(accumulator)) == [(0, 0)]
    assert batch.identity == ProducerIdentity(10, 0)


def test_halves_of_a_split_batch_share_its_numbers() -> None:
    accumulator, _ = idempotent(batch_size_bytes=500)
    for _ in range(3):
        accumulator.append(T0, record(), 0)
    (batch,) = drain_all(accumulator)
    accumulator.split(batch)
    (left,) = drain_all(accumulator)
    accumulator.acknowledge(left)
    (right,) = drain_all(accumulator)
    assert numbers([left, right]) == [(0, 0), (0, 1)]


class ModelBroker:
    """The broker's side of idempotence (kafka-semantics 4.2), reduced to one producer and partition."""

    def __init__(self) -> None:
        self.log: list[int] = []
        self._epoch = -1
        self._cached: list[tuple[int, int, int]] = []  # base sequence, last sequence, base offset

    def append(self, batch: OutgoingBatch) -> int | None:
        """The base offset, or None for "out of order"."""
        header = read_header(batch.encode())
        base, last = header.base_sequence, header.base_sequence + header.record_count - 1
        for cached_base, cached_last, offset in self._cached:
            if (header.producer_epoch, base, last) == (self._epoch, cached_base, cached_last):
                return offset
        if header.producer_epoch < self._epoch:
            return None
        is_new_epoch = header.producer_epoch > self._epoch
        expected = 0 if is_new_epoch else self._cached[-1][1] + 1
        if base != expected and self._epoch != -1:
            return None
        if is_new_epoch:
            self._epoch, self._cached = header.producer_epoch, []
        offset = len(self.log)
        self.log += [int(each.value or b"") for each in read_records(batch.encode(), max_bytes=1000)]
        self._cached = [*self._cached, (base, last, offset)][-5:]
        return offset


class LossyWorld:
    """A producer's accumulator, the broker, and a wire that may lose requests and answers."""

    def __init__(self) -> None:
        self.accumulator, _ = idempotent()
        self.broker = ModelBroker()
        self.noted: list[Noted] = []
        self._wire: list[OutgoingBatch] = []

    def perform(self, action: str) -> None:
        match action:
            case "send":
                self._send()
            case "expire":
                for batch in self.accumulator.expire(10**6):
                    batch.fail(ClientClosed("expired"))
            case _ if self._wire:
                self._end_attempt(self._wire.pop(0), action)

    def _send(self) -> None:
        if len(self.noted) < 20:
            self.noted.append(Noted())
            self.accumulator.append(T0, record(b"%d" % len(self.noted), self.noted[-1]), 0)
        self._wire += self.accumulator.drain(self.accumulator.ready(0).partitions)

    def _end_attempt(self, batch: OutgoingBatch, how: str) -> None:
        if how == "refuse":
            self.accumulator.retry(batch, RetryCause.REFUSED, at_ms=0)
            return
        offset = None if how == "lose request" else self.broker.append(batch)
        if how in {"lose request", "lose answer"}:
            self.accumulator.retry(batch, RetryCause.UNCERTAIN, at_ms=0)
        elif offset is None:
            self.accumulator.retry(batch, RetryCause.OUT_OF_SEQUENCE, at_ms=0)
        else:
            self.accumulator.acknowledge(batch)
            batch.succeed(offset, -1)


ACTIONS = ["send", "answer", "lose answer", "lose request", "refuse", "expire"]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(ACTIONS), max_size=60))
def test_whatever_is_lost_records_are_written_once_in_order_and_acknowledgements_are_true(script: list[str]) -> None:
    world = LossyWorld()
    for action in [*script, *["send", "answer"] * 60]:
        world.perform(action)
    log = world.broker.log
    assert log == sorted(set(log))
    for index, each in enumerate(world.noted, start=1):
        (outcome,) = each.outcomes
        if isinstance(outcome, RecordMetadata):
            assert log[outcome.offset] == index


def test_a_transactional_producer_does_not_choose_its_epochs() -> None:
    sequencer = Sequencer(may_bump=False)
    sequencer.adopt(ProducerIdentity(9, 0))
    accumulator = Accumulator(limits(linger_ms=0, batch_size_bytes=0), sequencer)
    accumulator.append(T0, record(), 0)
    (batch,) = drain_all(accumulator)
    accumulator.give_up(batch)
    assert sequencer.identity == ProducerIdentity(9, 0)
    assert sequencer.has_gap
    accumulator.append(T0, record(), 0)
    assert drain_all(accumulator) == []
    sequencer.adopt(ProducerIdentity(9, 1))
    assert not sequencer.has_gap
    assert numbers(drain_all(accumulator)) == [(1, 0)]


def test_only_the_oldest_unacknowledged_batch_is_first_in_line() -> None:
    accumulator, sequencer = filled(2)
    first, second = drain_all(accumulator)
    assert (sequencer.is_first_in_line(first), sequencer.is_first_in_line(second)) == (True, False)
    accumulator.acknowledge(first)
    assert sequencer.is_first_in_line(second)


def test_a_new_epoch_begins_at_zero_also_where_nothing_went_wrong() -> None:
    accumulator, sequencer = filled(1)
    for batch in drain_all(accumulator):
        accumulator.acknowledge(batch)
    sequencer.adopt(ProducerIdentity(9, 1))
    accumulator.append(T0, record(), 0)
    assert numbers(drain_all(accumulator)) == [(1, 0)]
