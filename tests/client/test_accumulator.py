"""Records gathered into batches: lingering, memory, retries, expiry, splits."""

from __future__ import annotations

import pytest

from tests.client.deliveries import T0, T1, Noted, limits, record
from tidelog.client.accumulator import Accumulator, RetryCause
from tidelog.client.batch import RecordMetadata
from tidelog.client.errors import ClientClosed, RecordTooLarge
from tidelog.model import TopicPartition
from tidelog.records.batch import read_header
from tidelog.records.record import read_records


def test_a_batch_lingers_for_more_records() -> None:
    accumulator = Accumulator(limits(), None)
    assert accumulator.append(T0, record(), 100)
    assert not accumulator.append(T0, record(), 102)
    assert accumulator.ready(104).partitions == []
    assert accumulator.ready(104).next_look_ms == 105
    assert accumulator.ready(105).partitions == [T0]


def test_a_full_batch_does_not_linger_and_says_so() -> None:
    accumulator = Accumulator(limits(), None)
    accumulator.append(T0, record(b"x" * 100), 100)
    assert accumulator.append(T0, record(b"x" * 100), 100)
    assert accumulator.ready(100).partitions == [T0]


def test_urgency_ends_lingering() -> None:
    accumulator = Accumulator(limits(linger_ms=50), None)
    accumulator.append(T0, record(), 100)
    assert accumulator.ready(100, is_urgent=True).partitions == [T0]


def test_a_record_larger_than_batch_size_travels_alone() -> None:
    accumulator = Accumulator(limits(batch_size_bytes=100), None)
    for value in (b"a", b"b" * 300, b"c"):
        accumulator.append(T0, record(value), 0)
    counts = [accumulator.drain([T0])[0].record_count for _ in range(3)]
    assert counts == [1, 1, 1]


def test_what_is_drained_is_a_batch_a_broker_can_read() -> None:
    accumulator = Accumulator(limits(), None)
    for value in (b"a", b"b"):
        accumulator.append(T0, record(value), 0)
    (batch,) = accumulator.drain([T0])
    assert [each.value for each in read_records(batch.encode(), max_bytes=1000)] == [b"a", b"b"]


def test_records_that_could_never_be_sent_are_refused() -> None:
    with pytest.raises(RecordTooLarge, match=r"max\.request\.size"):
        Accumulator(limits(), None).has_room(record(b"x" * 1000))
    with pytest.raises(RecordTooLarge, match=r"buffer\.memory"):
        Accumulator(limits(buffer_memory_bytes=50), None).has_room(record())


def test_memory_is_taken_until_the_batch_is_acknowledged() -> None:
    accumulator = Accumulator(limits(buffer_memory_bytes=400), None)
    accumulator.append(T0, record(b"x" * 200), 0)
    assert not accumulator.has_room(record(b"x" * 200))
    (batch,) = accumulator.drain([T0])
    assert not accumulator.has_room(record(b"x" * 200))
    accumulator.acknowledge(batch)
    assert accumulator.has_room(record(b"x" * 200))
    assert accumulator.used_bytes == 0


def test_one_request_takes_one_batch_per_partition_as_many_as_fit() -> None:
    accumulator = Accumulator(limits(batch_size_bytes=0, request_size_bytes_max=900), None)
    partitions = [TopicPartition("t", index) for index in range(3)]
    for partition in partitions:
        accumulator.append(partition, record(b"x" * 300), 0)
        accumulator.append(partition, record(b"x" * 300), 0)
    drained = accumulator.drain(partitions)
    assert len({batch.topic_partition for batch in drained}) == len(drained) == 2


def test_requests_begin_with_another_partition_every_time() -> None:
    accumulator = Accumulator(limits(batch_size_bytes=0, request_size_bytes_max=100), None)
    for _ in range(4):
        accumulator.append(T0, record(), 0)
        accumulator.append(T1, record(), 0)
    assert {accumulator.drain([T0, T1])[0].topic_partition for _ in range(2)} == {T0, T1}


def test_a_retried_batch_keeps_its_place_and_waits_for_its_backoff() -> None:
    accumulator = Accumulator(limits(batch_size_bytes=0), None)
    for value in (b"a", b"b"):
        accumulator.append(T0, record(value), 0)
    (first,) = accumulator.drain([T0])
    accumulator.retry(first, RetryCause.UNCERTAIN, at_ms=50)
    assert accumulator.ready(49).partitions == []
    assert accumulator.ready(50).partitions == [T0]
    assert accumulator.drain([T0]) == [first]


def test_no_record_joins_a_batch_that_was_sent() -> None:
    accumulator = Accumulator(limits(), None)
    accumulator.append(T0, record(), 0)
    (batch,) = accumulator.drain([T0])
    accumulator.retry(batch, RetryCause.REFUSED, at_ms=0)
    accumulator.append(T0, record(), 0)
    assert batch.record_count == 1


def test_with_one_in_flight_a_partition_waits_for_its_answer() -> None:
    accumulator = Accumulator(limits(batch_size_bytes=0, keeps_one_in_flight=True), None)
    for value in (b"a", b"b"):
        accumulator.append(T0, record(value), 0)
    (first,) = accumulator.drain([T0])
    assert accumulator.ready(10).partitions == []
    accumulator.acknowledge(first)
    assert accumulator.ready(10).partitions == [T0]


def test_a_batch_expires_with_its_delivery_timeout_wherever_it_is() -> None:
    accumulator = Accumulator(limits(batch_size_bytes=0), None)
    for value in (b"a", b"b"):
        accumulator.append(T0, record(value), 0)
    (on_wire,) = accumulator.drain([T0])
    assert accumulator.expire(999) == []
    expired = accumulator.expire(1000)
    assert len(expired) == 2
    assert on_wire in expired


def test_a_fresh_record_does_not_join_a_batch_that_will_soon_expire() -> None:
    accumulator, fresh = Accumulator(limits(), None), record(b"fresh")
    accumulator.append(T0, record(b"old"), 0)
    assert not accumulator.needs_new_batch(T0, fresh, 105)
    assert accumulator.needs_new_batch(T0, fresh, 106)
    accumulator.append(T0, fresh, 900)
    assert [batch.record_count for batch in accumulator.expire(1000)] == [1]


def test_a_batch_that_expired_on_the_wire_is_told_once_and_not_retried() -> None:
    accumulator, noted = Accumulator(limits(batch_size_bytes=0), None), Noted()
    accumulator.append(T0, record(b"a", noted), 0)
    (batch,) = accumulator.drain([T0])
    for expired in accumulator.expire(1000):
        expired.fail(ClientClosed("too late"))
    accumulator.retry(batch, RetryCause.UNCERTAIN, at_ms=1001)
    batch.succeed(5, -1)
    assert len(noted.outcomes) == 1
    assert accumulator.ready(2000).partitions == []
    assert accumulator.used_bytes == 0


def test_acknowledgement_tells_each_record_its_offset_and_timestamp() -> None:
    accumulator, first, second = Accumulator(limits(), None), Noted(), Noted()
    accumulator.append(T0, record(b"a", first), 0)
    accumulator.append(T0, record(b"b", second), 0)
    (batch,) = accumulator.drain([T0])
    accumulator.acknowledge(batch)
    batch.succeed(40, -1)
    assert first.outcomes == [RecordMetadata(T0, 40, 1000)]
    assert second.outcomes == [RecordMetadata(T0, 41, 1000)]


def test_append_time_replaces_the_senders_timestamp() -> None:
    accumulator, noted = Accumulator(limits(), None), Noted()
    accumulator.append(T0, record(b"a", noted), 0)
    (batch,) = accumulator.drain([T0])
    batch.succeed(40, 7777)
    assert noted.outcomes == [RecordMetadata(T0, 40, 7777)]


def test_a_split_batch_goes_out_in_halves_in_order() -> None:
    accumulator = Accumulator(limits(), None)
    noted = [Noted() for _ in range(3)]
    for index, each in enumerate(noted):
        accumulator.append(T0, record(b"%d" % index, each), 0)
    (batch,) = accumulator.drain([T0])
    accumulator.split(batch)
    left, right = accumulator.drain([T0]) + accumulator.drain([T0])
    assert (left.record_count, right.record_count) == (1, 2)
    right.succeed(11, -1)
    assert noted[2].outcomes == [RecordMetadata(T0, 12, 1000)]
    accumulator.acknowledge(left)
    accumulator.acknowledge(right)
    assert accumulator.used_bytes == 0


def test_settled_up_to_a_point_ignores_what_came_after_it() -> None:
    accumulator = Accumulator(limits(), None)
    accumulator.append(T0, record(), 0)
    point = accumulator.appended_count
    (batch,) = accumulator.drain([T0])
    accumulator.append(T0, record(), 0)
    assert not accumulator.is_settled_up_to(point)
    accumulator.acknowledge(batch)
    assert accumulator.is_settled_up_to(point)
    assert not accumulator.is_settled_up_to(accumulator.appended_count)


def test_abandoning_returns_everything_nobody_was_told_about() -> None:
    accumulator = Accumulator(limits(batch_size_bytes=0), None)
    for value in (b"a", b"b"):
        accumulator.append(T0, record(value), 0)
    accumulator.drain([T0])
    assert len(accumulator.abandon()) == 2
    assert accumulator.used_bytes == 0
    assert accumulator.abandon() == []


def test_both_halves_of_a_transactional_batch_are_transactional() -> None:
    accumulator = Accumulator(limits(is_transactional=True), None)
    for value in (b"a", b"b"):
        accumulator.append(T0, record(value), 0)
    (batch,) = accumulator.drain([T0])
    assert read_header(batch.encode()).is_transactional
    assert all(read_header(half.encode()).is_transactional for half in batch.split())
