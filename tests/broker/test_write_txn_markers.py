"""WriteTxnMarkers: how leaders write down what coordinators have decided."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from tests.broker.replication_rig import BROKERS_ONLY, PORTS, T0, Rig, RigBroker, rig, virtual_ms
from tidelog.broker.handlers import write_txn_markers
from tidelog.broker.internal_topics import GROUPS_TOPIC
from tidelog.client.connection import Connection, ConnectionLimits, open_connection
from tidelog.config import LogConfig
from tidelog.coordinator.internal_log import TransactionEnd
from tidelog.model import ApiError, ErrorCode, IsolationLevel, Offset, ProducerIdentity, TopicPartition
from tidelog.records import MarkerType, RecordBatchBuilder, Validated, headers, read_header, read_marker
from tidelog.runtime import Address
from tidelog.simulation.clock import SimulatedClock
from tidelog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

OK = ErrorCode.NONE
OFFSETS = TopicPartition(GROUPS_TOPIC, 0)


def marker(
    *partitions: TopicPartition,
    producer_id: int = 9,
    epoch: int = 0,
    is_committed: bool = True,
    coordinator_epoch: int = 3,
    version: int = 0,
) -> WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions or (T0,):
        topics.setdefault(topic, []).append(index)
    return WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=is_committed,
        topics=tuple(
            WritableTxnMarkerTopic(name=name, partition_indexes=tuple(indexes)) for name, indexes in topics.items()
        ),
        coordinator_epoch=coordinator_epoch,
        transaction_version=version,
    )


def codes(response: WriteTxnMarkersResponse) -> list[ErrorCode]:
    return [row.error_code for one in response.markers for topic in one.topics for row in topic.partitions]


def write(
    one: Rig, *markers: WritableTxnMarker, meanwhile: Callable[[], None] = lambda: None
) -> tuple[list[ErrorCode], float]:
    """What is answered, and after how many milliseconds; `meanwhile` happens 50 ms after the request left."""

    async def story(connection: Connection) -> tuple[list[ErrorCode], float]:
        begun = asyncio.get_running_loop().time()
        answer = connection.send(WriteTxnMarkersRequest(markers=markers), version=2).answer
        await virtual_ms(50)
        meanwhile()
        return codes(await answer), (asyncio.get_running_loop().time() - begun) * 1000

    return one.talk(1, story, listener=BROKERS_ONLY)


def open_transaction(broker: RigBroker, producer_id: int = 9, epoch: int = 0) -> None:
    builder = RecordBatchBuilder(producer_id=producer_id, producer_epoch=epoch, base_sequence=0, is_transactional=True)
    builder.append(timestamp_ms=1_000, key=None, value=b"v")
    sent = builder.build()
    broker.replicas.append_own(broker.partition, Validated(sent, read_header(sent), -1))


def markers_in(broker: RigBroker) -> list[tuple[MarkerType, int, int]]:
    """Type, coordinator epoch and producer epoch of all markers of a log."""
    log, found = broker.partition.log, []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, max_bytes=1 << 20, end_offset=log.log_end_offset)
        for position, header in headers(data):
            if header.is_control:
                found.append((*read_marker(data[position : position + header.size]), header.producer_epoch))
            offset = header.next_offset
    return found


def test_a_marker_is_answered_when_everybody_in_sync_has_it_and_ends_the_transaction_for_readers() -> None:
    with rig(2) as one:
        one.tell(1, 0, isr=(1, 2))
        open_transaction(one.brokers[1])
        answer, _ = write(one, marker(is_committed=False))
        assert answer == [OK]
        assert markers_in(one.brokers[1]) == [(MarkerType.ABORT, 3, 0)]
        one.until(lambda: one.brokers[2].partition.last_stable_offset == 2)
        read = one.brokers[1].partition.read(0, max_bytes=1 << 20, isolation=IsolationLevel.READ_COMMITTED)
        assert [(txn.producer_id, txn.first_offset) for txn in read.aborted_transactions or ()] == [(9, 0)]


def test_a_marker_that_followers_do_not_get_in_time_is_told_again_and_written_once_with_an_own_epoch() -> None:
    with rig(2, settings={"request.timeout.ms": "2000"}) as one:
        one.tell(1, 0, isr=(1, 2), to=(1,))
        open_transaction(one.brokers[1])
        answer, took_ms = write(one, marker(epoch=1, version=2))
        assert answer == [ErrorCode.REQUEST_TIMED_OUT]
        assert took_ms >= 2_000
        assert one.brokers[1].partition.last_stable_offset == 0
        answer, _ = write(one, marker(epoch=1, version=2), meanwhile=lambda: one.tell(1, 0, isr=(1, 2)))
        assert answer == [OK]
        assert markers_in(one.brokers[1]) == [(MarkerType.COMMIT, 3, 1)]


def test_each_producer_and_partition_has_its_own_answer() -> None:
    with rig(1) as one:
        one.tell(1, 0, isr=(1,))
        open_transaction(one.brokers[1], epoch=5)
        nowhere = TopicPartition("nowhere", 0)
        answer, _ = write(one, marker(T0, nowhere, epoch=4), marker(producer_id=8), marker(producer_id=-1))
        assert answer == [
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            OK,
            ErrorCode.INVALID_REQUEST,
        ]


def test_t13_what_an_older_coordinator_says_is_refused() -> None:
    with rig(1) as one:
        one.tell(1, 0, isr=(1,))
        open_transaction(one.brokers[1])
        assert write(one, marker(coordinator_epoch=7))[0] == [OK]
        assert write(one, marker(coordinator_epoch=6))[0] == [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
        assert write(one, marker(coordinator_epoch=8))[0] == [OK]


def test_a_late_marker_of_version_2_does_not_end_the_next_transaction() -> None:
    with rig(1) as one:
        one.tell(1, 0, isr=(1,))
        open_transaction(one.brokers[1])
        assert write(one, marker(epoch=1, version=2))[0] == [OK]
        open_transaction(one.brokers[1], epoch=1)
        assert write(one, marker(epoch=1, version=2))[0] == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert one.brokers[1].partition.last_stable_offset == 2


def test_who_does_not_lead_or_has_too_few_followers_says_so() -> None:
    with rig(2) as one:
        one.tell(1, 0, isr=(1,), config=LogConfig(min_insync_replicas=2))
        assert write(one, marker())[0] == [ErrorCode.NOT_ENOUGH_REPLICAS]
        one.tell(2, 1, isr=(1, 2))
        assert write(one, marker())[0] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert markers_in(one.brokers[1]) == []


def test_a_wait_ends_when_leadership_is_lost() -> None:
    with rig(2) as one:
        one.tell(1, 0, isr=(1, 2), to=(1,))
        answer, took_ms = write(one, marker(), meanwhile=lambda: one.tell(2, 1, isr=(1, 2)))
        assert answer == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert took_ms < 1_000


def by_two_connections(one: Rig, version: int, client_id: str = "outside") -> list[ErrorCode]:
    """Markers by a second connection, then by the first, which is called "outside"."""
    node = one.world.node("coordinator")
    limits = ConnectionLimits(
        client_id=client_id,
        setup_timeout_ms=5_000,
        request_timeout_ms=60_000,
        in_flight_max=5,
        receive_bytes_max=1 << 30,
    )

    async def story(older: Connection) -> list[ErrorCode]:
        await older.request(WriteTxnMarkersRequest(markers=(marker(epoch=1, version=version),)), version=2)
        newer = await open_connection(node.runtime.network, Address("broker-1", PORTS[BROKERS_ONLY]), limits)
        again = WriteTxnMarkersRequest(markers=(marker(epoch=2, version=version),))
        heard = codes(await newer.request(again, version=2)) + codes(await older.request(again, version=2))
        newer.close()
        return heard

    return one.talk(1, story, listener=BROKERS_ONLY)


def test_what_an_older_connection_of_a_coordinator_brings_late_ends_nothing() -> None:
    with rig(1) as one:
        one.tell(1, 0, isr=(1,))
        assert by_two_connections(one, version=0) == [OK, ErrorCode.NOT_ENOUGH_REPLICAS]
        assert len(markers_in(one.brokers[1])) == 2


@pytest.mark.parametrize(("version", "client_id"), [(2, "outside"), (0, "another broker")])
def test_markers_of_version_2_and_those_of_another_coordinator_come_by_any_connection(
    version: int, client_id: str
) -> None:
    with rig(1) as one:
        one.tell(1, 0, isr=(1,))
        assert by_two_connections(one, version, client_id) == [OK, OK]


def test_markers_of_committed_offsets_go_through_the_groups() -> None:
    with rig(1) as one:
        one.tell(1, 0, isr=(1,), keys=(OFFSETS,))
        broker = one.brokers[1]
        heard: list[tuple[int, TransactionEnd]] = []

        def end_transaction(index: int, end: TransactionEnd) -> Offset:
            if end.producer.producer_id == 7:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            heard.append((index, end))
            return broker.replicas.append_marker(OFFSETS, end)[1].last_offset

        cast("SimpleNamespace", broker.node).groups = SimpleNamespace(end_transaction=end_transaction)
        answer, _ = write(one, marker(OFFSETS, version=2), marker(OFFSETS, producer_id=7))
        assert answer == [OK, ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert heard == [(0, TransactionEnd(ProducerIdentity(9, 0), True, 3, True))]


def test_many_markers_are_written_a_few_at_a_time() -> None:
    """Others have their turn in between, on the loop and, where they wait for our core, beside it."""
    with rig(1) as one:
        one.tell(1, 0, isr=(1,))
        node = one.brokers[1].node
        clock = cast("SimulatedClock", node.runtime.clock)
        many = WriteTxnMarkersRequest(markers=tuple(marker(producer_id=number) for number in range(1_000)))

        async def story(_: Connection) -> int:
            looks = 0
            writing = asyncio.get_running_loop().create_task(write_txn_markers.write(node, many))
            while not writing.done():
                await asyncio.sleep(0)  # noqa: TID251  # on the simulated loop
                looks += 1
            assert codes(await writing) == [OK] * 1_000
            assert clock.ways_given >= 10
            return looks

        assert one.talk(1, story, listener=BROKERS_ONLY) >= 10
