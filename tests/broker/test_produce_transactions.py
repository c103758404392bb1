"""Produce in transactions: who is asked before the first batch, what the producer hears, and what never gets in."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, Protocol

import pytest

from tests.broker.replication_rig import BROKERS_ONLY, CLIENTS, PORTS, T0, Rig, rig, virtual_ms
from tidelog.client.connection import Connection, ConnectionLimits, open_connection
from tidelog.coordinator.internal_log import TransactionEnd
from tidelog.model import ErrorCode, ProducerIdentity, TopicPartition
from tidelog.records import RecordBatchBuilder
from tidelog.runtime import Address
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

PRODUCER = ProducerIdentity(9, 0)
T1 = TopicPartition("t", 1)
TV1, TV2 = 11, 12


class Story(Protocol):
    """What a client does with its connection."""

    def __call__(self, connection: Connection, /) -> Coroutine[Any, Any, None]: ...


@pytest.fixture
def one() -> Iterator[Rig]:
    """One broker that leads two partitions."""
    with rig(1) as made:
        made.tell(1, 0, isr=(1,), keys=(T0, T1))
        yield made


def sent(
    sequence: int = 0,
    *,
    producer: ProducerIdentity = PRODUCER,
    is_transactional: bool = True,
    value: bytes = b"v",
    timestamp_ms: int = 1_000,
) -> bytearray:
    builder = RecordBatchBuilder(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=sequence,
        is_transactional=is_transactional,
    )
    builder.append(timestamp_ms=timestamp_ms, key=None, value=value)
    return builder.build()


def request(*batches: bytearray, acks: int = -1, transactional_id: str | None = "id") -> ProduceRequest:
    """One batch for each partition, from 0 on."""
    data = tuple(PartitionProduceData(index=index, records=batch) for index, batch in enumerate(batches))
    topic = TopicProduceData(name="t", partition_data=data)
    return ProduceRequest(acks=acks, timeout_ms=5_000, topic_data=(topic,), transactional_id=transactional_id)


def rows(response: ProduceResponse) -> list[PartitionProduceResponse]:
    return list(response.responses[0].partition_responses)


def codes(response: ProduceResponse) -> list[ErrorCode]:
    return [row.error_code for row in rows(response)]


def produce(one: Rig, asked: ProduceRequest, *, version: int = TV1, listener: str = CLIENTS) -> list[ErrorCode]:
    async def story(connection: Connection) -> list[ErrorCode]:
        return codes(await connection.request(asked, version=version))

    return one.talk(1, story, listener=listener)


def end(one: Rig, *, epoch: int = 0, has_own_epoch: bool = False, key: TopicPartition = T0) -> None:
    producer = PRODUCER._replace(producer_epoch=epoch)
    decided = TransactionEnd(producer, is_committed=False, coordinator_epoch=0, has_own_epoch=has_own_epoch)
    one.brokers[1].replicas.append_marker(key, decided)


def end_offset(one: Rig, key: TopicPartition = T0) -> int:
    return one.brokers[1].replicas.partition(key).log.log_end_offset


@pytest.mark.parametrize(("version", "is_verification"), [(9, True), (TV1, True), (TV2, False), (13, False)])
def test_the_coordinator_is_asked_once_per_partition_and_transaction(
    one: Rig, version: int, *, is_verification: bool
) -> None:
    if version == 13:
        topic = TopicProduceData(
            topic_id=one.states[T0].topic_id, partition_data=(PartitionProduceData(index=0, records=sent()),)
        )
        first = ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=(topic,), transactional_id="id")
        assert produce(one, first, version=version) == [ErrorCode.NONE]
    else:
        assert produce(one, request(sent()), version=version) == [ErrorCode.NONE]
    (asked,) = one.coordinator.asked
    assert (asked.transactional_id, asked.producer, asked.partitions) == ("id", PRODUCER, (T0,))
    assert asked.is_verification is is_verification
    assert produce(one, request(sent(1))) == [ErrorCode.NONE]
    assert len(one.coordinator.asked) == 1
    end(one)
    assert produce(one, request(sent(2))) == [ErrorCode.NONE]
    assert len(one.coordinator.asked) == 2


def test_partitions_of_one_request_are_asked_about_together_and_fail_by_themselves(one: Rig) -> None:
    one.coordinator.codes = {T1: ErrorCode.TRANSACTION_ABORTABLE}
    assert produce(one, request(sent(), sent())) == [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]
    assert [asked.partitions for asked in one.coordinator.asked] == [(T0, T1)]
    assert (end_offset(one), end_offset(one, T1)) == (1, 0)


@pytest.mark.parametrize(
    ("said", "version", "heard"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, 10, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, TV1, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.INVALID_TXN_STATE, 10, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.INVALID_TXN_STATE, TV1, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.PRODUCER_FENCED, TV1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_EPOCH, TV1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, TV1, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.CONCURRENT_TRANSACTIONS, TV1, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, TV2, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.NETWORK_EXCEPTION, TV2, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, TV1, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, TV1, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_COORDINATOR, TV2, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, TV2, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, TV2, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.REQUEST_TIMED_OUT, TV2, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
def test_a_producer_hears_what_it_understands(one: Rig, said: ErrorCode, version: int, heard: ErrorCode) -> None:
    one.coordinator.codes = {T0: said}
    assert produce(one, request(sent()), version=version) == [heard]
    assert end_offset(one) == 0
    is_for_good = heard not in {ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS}
    assert (len(one.brokers[1].partition.log.verification) == 0) is is_for_good


def test_t07_a_batch_that_comes_after_its_transaction_has_ended_is_refused_and_holds_nobody_up(one: Rig) -> None:
    produce(one, request(sent()))
    end(one)
    one.coordinator.codes = {T0: ErrorCode.TRANSACTION_ABORTABLE}
    assert produce(one, request(sent(1)), version=10) == [ErrorCode.INVALID_TXN_STATE]
    assert one.brokers[1].partition.last_stable_offset == 2


def test_a_marker_that_comes_while_the_coordinator_is_asked_keeps_the_batch_out(one: Rig) -> None:
    one.coordinator.leave = asyncio.Event()

    async def story(connection: Connection) -> None:
        answer = connection.send(request(sent()), version=TV1).answer
        await virtual_ms(50)
        end(one)
        assert one.coordinator.leave is not None
        one.coordinator.leave.set()
        assert codes(await answer) == [ErrorCode.INVALID_TXN_STATE]

    one.talk(1, story, listener=CLIENTS)
    assert one.brokers[1].partition.last_stable_offset == end_offset(one) == 1


def test_requests_behind_one_that_is_asked_about_do_not_overtake_it(one: Rig) -> None:
    one.coordinator.leave = asyncio.Event()

    async def story(connection: Connection) -> None:
        plain = request(
            sent(is_transactional=False, producer=ProducerIdentity(-1, -1), sequence=-1), transactional_id=None
        )
        answers = [connection.send(asked, version=TV1).answer for asked in (request(sent()), request(sent(1)), plain)]
        await virtual_ms(50)
        assert (len(one.coordinator.asked), end_offset(one)) == (1, 0)
        assert one.coordinator.leave is not None
        one.coordinator.leave.set()
        heard = [rows(await answer)[0] for answer in answers]
        assert [(row.error_code, row.base_offset) for row in heard] == [(ErrorCode.NONE, offset) for offset in range(3)]

    one.talk(1, story, listener=CLIENTS)


def test_a_batch_that_was_verified_and_waits_for_its_followers_lets_the_next_begin() -> None:
    with rig(2) as made:
        made.tell(1, 0, isr=(1, 2), to=(1,))  # Broker 2 hears nothing, and fetches nothing.

        async def story(connection: Connection) -> None:
            answers = [connection.send(request(sent(number)), version=TV1).answer for number in range(3)]
            await virtual_ms(50)
            assert end_offset(made) == 3
            assert not any(answer.done() for answer in answers)
            for answer in answers:
                answer.cancel()

        made.talk(1, story, listener=CLIENTS)


def test_without_verification_nobody_is_asked_but_where_leaders_add_partitions() -> None:
    with rig(1, settings={"transaction.partition.verification.enable": "false"}) as made:
        made.tell(1, 0, isr=(1,), keys=(T0, T1))
        assert produce(made, request(sent()), version=TV1) == [ErrorCode.NONE]
        assert made.coordinator.asked == []
        end(made)
        assert produce(made, request(sent(1)), version=TV2) == [ErrorCode.NONE]
        assert len(made.coordinator.asked) == 1


def test_a_batch_of_a_transaction_needs_a_transactional_id(one: Rig) -> None:
    refused = [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    assert produce(one, request(sent(), transactional_id=None)) == refused
    produce(one, request(sent()))
    assert produce(one, request(sent(1), transactional_id=None)) == refused
    assert end_offset(one) == 1


def test_a_transactional_id_takes_nothing_from_plain_batches(one: Rig) -> None:
    plain = sent(is_transactional=False, producer=ProducerIdentity(-1, -1), sequence=-1)
    assert produce(one, request(plain)) == [ErrorCode.NONE]
    assert one.coordinator.asked == []


def test_two_producers_do_not_share_a_transaction(one: Rig) -> None:
    other = sent(producer=ProducerIdentity(8, 0))
    assert produce(one, request(sent(), other)) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
    assert one.coordinator.asked == []


def test_what_is_no_batch_is_refused_as_ever_and_nobody_is_asked(one: Rig) -> None:
    wrong_magic = sent()
    wrong_magic[16] = 1
    nobody = sent(producer=ProducerIdentity(-1, -1))
    assert produce(one, request(wrong_magic, nobody)) == [ErrorCode.INVALID_RECORD] * 2
    assert produce(one, request(sent(), acks=7)) == [ErrorCode.INVALID_REQUIRED_ACKS]
    assert one.coordinator.asked == []


def test_a_partition_that_is_not_led_here_is_not_asked_about(one: Rig) -> None:
    topic = TopicProduceData(name="nowhere", partition_data=(PartitionProduceData(index=0, records=sent()),))
    asked = ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=(topic,), transactional_id="id")
    assert produce(one, asked) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert one.coordinator.asked == []


def test_a_partition_that_is_named_twice_takes_the_batches_in_order(one: Rig) -> None:
    data = tuple(PartitionProduceData(index=0, records=sent(sequence)) for sequence in (0, 1))
    topic = TopicProduceData(name="t", partition_data=data)
    twice = ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=(topic,), transactional_id="id")
    assert produce(one, twice) == [ErrorCode.NONE] * 2
    assert len(one.brokers[1].partition.log.verification) == 0


def test_t18_a_batch_whose_coordinator_could_not_say_is_the_first_to_get_in_later(one: Rig) -> None:
    one.coordinator.codes = {T0: ErrorCode.NOT_COORDINATOR}
    assert produce(one, request(sent())) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    one.coordinator.codes = {}
    assert produce(one, request(sent(1))) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    assert produce(one, request(sent())) == [ErrorCode.NONE]
    assert produce(one, request(sent(1))) == [ErrorCode.NONE]


def test_a_connection_that_goes_away_while_its_batch_is_asked_about_leaves_nothing_behind(one: Rig) -> None:
    one.coordinator.leave = asyncio.Event()

    async def story(connection: Connection) -> None:
        answer = connection.send(request(sent()), version=TV1).answer
        await virtual_ms(50)
        answer.cancel()

    one.talk(1, story, listener=CLIENTS)
    one.until(lambda: not one.brokers[1].replicas.produce_waiters.count)
    one.coordinator.leave = None
    assert produce(one, request(sent())) == [ErrorCode.NONE]
    assert end_offset(one) == 1


# Late mail.


def by_two_connections(
    one: Rig, version: int, listener: str = CLIENTS, *, first: ProducerIdentity = PRODUCER
) -> list[ErrorCode]:
    """A batch by a second connection, then one by the first."""
    node = one.world.node("client")
    limits = ConnectionLimits(
        client_id="c", setup_timeout_ms=5_000, request_timeout_ms=60_000, in_flight_max=5, receive_bytes_max=1 << 30
    )

    async def story(older: Connection) -> list[ErrorCode]:
        await older.request(request(sent(producer=first)), version=version)
        newer = await open_connection(node.runtime.network, Address("broker-1", PORTS[listener]), limits)
        heard = codes(await newer.request(request(sent(1)), version=version))
        further = sent(2 if first == PRODUCER else 1, producer=first)
        heard += codes(await older.request(request(further), version=version))
        newer.close()
        return heard

    return one.talk(1, story, listener=listener)


@pytest.mark.parametrize("listener", [CLIENTS, BROKERS_ONLY])
def test_t08_what_an_older_connection_brings_late_is_refused_to_be_sent_again(one: Rig, listener: str) -> None:
    """Clients may use the listener of the brokers, where a cluster has only one."""
    assert by_two_connections(one, TV1, listener) == [ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS]
    assert end_offset(one) == 2
    assert produce(one, request(sent(2)), listener=listener) == [ErrorCode.NONE]


def test_a_zombie_that_connects_anew_does_not_silence_who_has_fenced_it(one: Rig) -> None:
    heir = PRODUCER._replace(producer_epoch=PRODUCER.producer_epoch + 1)
    assert by_two_connections(one, TV1, first=heir) == [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.NONE]


def test_where_each_transaction_has_its_own_epoch_connections_do_not_matter(one: Rig) -> None:
    assert by_two_connections(one, TV2) == [ErrorCode.NONE, ErrorCode.NONE]
