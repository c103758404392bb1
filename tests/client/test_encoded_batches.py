"""Batches that were encoded elsewhere: sent as they are, but numbered, retried, bounded and committed like all others."""

from __future__ import annotations

import pytest

from tests.client.broker_world import BrokerWorld, producer_config
from tests.client.deliveries import T0, Noted, idempotent, limits, record
from tests.client.test_against_broker import consume
from tests.client.test_under_faults import RECORDS, RECORDS_AFTER, Ordeal
from tests.client.transactions import story as transactions
from tests.tiers import rest_proven
from tidelog.client import BufferExhausted, Producer, RecordMetadata, RecordTooLarge, TopicUnavailable, WrongUse
from tidelog.client.accumulator import Accumulator, RetryCause
from tidelog.client.batch import EncodedRecords, read_encoded
from tidelog.model import ProducerIdentity
from tidelog.records.batch import crc_holds, read_header
from tidelog.records.builder import RecordBatchBuilder
from tidelog.records.compression import Codec
from tidelog.records.record import read_records
from tidelog.runtime import Runtime


def encoded(*values: bytes, codec: Codec = Codec.NONE) -> bytearray:
    builder = RecordBatchBuilder(codec=codec)
    for value in values:
        builder.append(timestamp_ms=1000, key=None, value=value)
    return builder.build()


def records(*values: bytes, delivery: Noted | None = None) -> EncodedRecords:
    return read_encoded(encoded(*values), len(values), delivery or Noted())


def values_in(batch: bytearray | memoryview) -> list[bytes | None]:
    return [each.value for each in read_records(batch, max_bytes=10_000)]


def test_the_bytes_go_out_as_they_came_but_for_who_sends_them() -> None:
    accumulator, _ = idempotent(is_transactional=True)
    mine = records(b"a", b"b")
    accumulator.append(T0, mine, 0)
    (batch,) = accumulator.drain([T0])
    header = read_header(batch.encode())
    assert batch.encode() is mine.data
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 0, 0)
    assert header.is_transactional
    assert crc_holds(batch.encode(), 0, header)
    assert values_in(batch.encode()) == [b"a", b"b"]


def test_numbers_go_on_over_batches_of_both_kinds() -> None:
    accumulator, _ = idempotent()
    accumulator.append(T0, records(b"a", b"b"), 0)
    accumulator.append(T0, record(b"c"), 0)
    accumulator.append(T0, records(b"d"), 0)
    drained = []
    for _ in range(3):
        (batch,) = accumulator.drain([T0])
        drained.append((batch.base_sequence, values_in(batch.encode())))
        accumulator.acknowledge(batch)
    assert drained == [(0, [b"a", b"b"]), (2, [b"c"]), (3, [b"d"])]


def test_a_batch_that_is_numbered_anew_has_a_new_checksum() -> None:
    accumulator, sequencer = idempotent()
    accumulator.append(T0, records(b"a"), 0)
    (batch,) = accumulator.drain([T0])
    accumulator.retry(batch, RetryCause.OUT_OF_SEQUENCE, at_ms=0)
    (again,) = accumulator.drain([T0])
    header = read_header(again.encode())
    assert (header.producer_id, header.producer_epoch) == (9, 1)
    assert sequencer.identity == ProducerIdentity(9, 1)
    assert crc_holds(again.encode(), 0, header)


def test_it_waits_for_no_more_records() -> None:
    accumulator = Accumulator(limits(linger_ms=50), None)
    assert accumulator.append(T0, records(b"a"), 100)
    assert accumulator.ready(100).partitions == [T0]
    accumulator.append(T0, record(b"b"), 100)
    assert [accumulator.drain([T0])[0].record_count for _ in range(2)] == [1, 1]


def test_it_takes_memory_until_it_is_acknowledged() -> None:
    accumulator = Accumulator(limits(buffer_memory_bytes=500), None)
    accumulator.append(T0, records(b"x" * 300), 0)
    assert not accumulator.has_room(records(b"x" * 300))
    accumulator.acknowledge(accumulator.drain([T0])[0])
    assert accumulator.has_room(records(b"x" * 300))
    assert accumulator.used_bytes == 0


def test_one_that_could_never_be_sent_is_refused() -> None:
    with pytest.raises(RecordTooLarge, match=r"max\.request\.size"):
        Accumulator(limits(), None).has_room(records(b"x" * 1000))


def test_halves_keep_the_numbers_and_who_waits_is_told_once_of_the_first_record() -> None:
    accumulator, _ = idempotent()
    noted = Noted()
    accumulator.append(T0, records(b"a", b"b", b"c", delivery=noted), 0)
    accumulator.split(accumulator.drain([T0])[0])
    (first,) = accumulator.drain([T0])
    accumulator.acknowledge(first)
    first.succeed(40, -1)
    assert noted.outcomes == []
    (second,) = accumulator.drain([T0])
    accumulator.acknowledge(second)
    second.succeed(41, -1)
    assert [first.base_sequence, second.base_sequence] == [0, 1]
    assert [values_in(first.encode()), values_in(second.encode())] == [[b"a"], [b"b", b"c"]]
    assert noted.outcomes == [RecordMetadata(T0, 40, 1000)]


def test_who_waits_is_told_once_that_a_half_failed() -> None:
    accumulator, _ = idempotent()
    noted = Noted()
    accumulator.append(T0, records(b"a", b"b", delivery=noted), 0)
    accumulator.split(accumulator.drain([T0])[0])
    for batch in accumulator.abandon():
        batch.fail(WrongUse("given up"))
    assert [str(outcome) for outcome in noted.outcomes] == ["given up"]


def test_what_is_not_one_whole_new_batch_is_refused() -> None:
    whole = encoded(b"a")
    used = RecordBatchBuilder(producer_id=3, producer_epoch=0, base_sequence=0)
    used.append(timestamp_ms=1, key=None, value=b"v")
    for wrong, count in ((b"", 0), (whole[:-1], 1), (whole * 2, 1), (whole, 2), (used.build(), 1)):
        with pytest.raises(WrongUse, match=r"send_batch\(\) takes"):
            read_encoded(wrong, count, Noted())


def test_bytes_that_cannot_be_written_to_are_copied() -> None:
    whole = bytes(encoded(b"a"))
    taken = read_encoded(whole, 1, Noted())
    taken.data[0] = 1
    assert whole[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("codec", list(Codec))
def test_a_broker_takes_them_whatever_the_codec(codec: Codec) -> None:
    async def story(runtime: Runtime) -> None:
        async with Producer.connect(producer_config(), runtime) as producer:
            futures = [await producer.send_batch("t", 0, encoded(b"a", b"b", codec=codec), 2) for _ in range(3)]
            assert [(await future).offset for future in futures] == [0, 2, 4]
        assert [each.value for each in await consume(runtime, 6)] == [b"a", b"b"] * 3

    with BrokerWorld() as world:
        world.create_topic()
        world.tell(story)


@pytest.mark.slow
def test_one_that_the_topic_finds_too_large_is_sent_in_parts() -> None:
    values = [b"%d" % index * 100 for index in range(9)]

    async def story(runtime: Runtime) -> None:
        async with Producer.connect(producer_config(), runtime) as producer:
            metadata = await (await producer.send_batch("t", 0, encoded(*values), len(values)))
        assert metadata.offset == 0
        assert [each.value for each in await consume(runtime, len(values))] == values

    with BrokerWorld() as world:
        world.create_topic(max_message_bytes="400")
        world.tell(story)


@pytest.mark.slow
def test_sending_waits_for_room_and_names_a_topic_that_is_not_there() -> None:
    async def story(runtime: Runtime) -> None:
        config = producer_config(buffer_memory="400", max_block_ms="300", delivery_timeout_ms="60000")
        async with Producer.connect(config, runtime) as producer:
            with pytest.raises(TopicUnavailable, match="'nope'"):
                await producer.send_batch("nope", 0, encoded(b"a"), 1)
            await (await producer.send_batch("t", 0, encoded(b"x" * 200), 1))
            world.kill_broker()
            await producer.send_batch("t", 0, encoded(b"x" * 200), 1)
            with pytest.raises(BufferExhausted, match=r"buffer\.memory=400"):
                await producer.send_batch("t", 0, encoded(b"x" * 200), 1)
            await producer.close(timeout_ms=0)

    with BrokerWorld() as world:
        world.create_topic()
        world.tell(story)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1", "2"])
def test_they_count_with_their_transaction(version: str) -> None:
    async def story(runtime: Runtime) -> list[bytes]:
        config = transactions.producer_config(world, tidelog_transaction_version_max=version)
        async with Producer.connect(config, runtime) as producer:
            await producer.init_transactions()
            for is_committed in (True, False, True):
                producer.begin_transaction()
                for partition in (0, 1):
                    await producer.send_batch("t", partition, encoded(b"yes" if is_committed else b"no"), 1)
                await (producer.commit_transaction() if is_committed else producer.abort_transaction())
        return await transactions.committed_values(world, runtime, transactions.T0, transactions.T1)

    with BrokerWorld(
        transaction_state_log_replication_factor="1",
        transaction_state_log_min_isr="1",
        offsets_topic_replication_factor="1",
    ) as world:
        world.create_topic(partitions=2)
        assert world.tell(story) == [b"yes"] * 4


class OrdealOfBatches(Ordeal):
    """The same with whole batches of three."""

    async def _produce(self, runtime: Runtime) -> None:
        settings = {"request_timeout_ms": "2000", "delivery_timeout_ms": "8000", "linger_ms": "0"}
        async with Producer.connect(producer_config(**settings), runtime) as producer:
            futures = {
                index: await producer.send_batch("t", 0, encoded(*(b"%d" % (index + i) for i in range(3))), 3)
                for index in range(0, RECORDS, 3)
            }
            for index, future in futures.items():
                await self._note(index, future)
            await self._calm
            for index in range(RECORDS, RECORDS + RECORDS_AFTER):
                metadata = await (await producer.send_batch("t", 0, encoded(b"%d" % index), 1))
                self.acknowledged[metadata.offset] = index
            self._end_offset = max(self.acknowledged) + 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_proven(range(4)))
def test_batches_are_there_once_and_in_order_through_resets_cuts_and_kills(seed: int) -> None:
    with BrokerWorld(seed) as world:
        world.create_topic(flush_messages="1")
        ordeal = OrdealOfBatches(world)
        ordeal.run()
    assert ordeal.read == sorted(set(ordeal.read))
    assert all(ordeal.read[offset] == index for offset, index in ordeal.acknowledged.items())
