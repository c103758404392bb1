"""Produce with several replicas: what is waited for, what ends the wait, and who is named beside an error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.broker.replication_rig import CLIENTS, TOPIC_ID, Rig, batch, rig, virtual_ms
from tidelog.client.connection import Connection
from tidelog.config import LogConfig
from tidelog.config.replication import RACK_AWARE_SELECTOR
from tidelog.model import ErrorCode
from tidelog.records import headers
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)


def nothing() -> None:
    """Happens."""


def produced(acks: int = -1, timeout_ms: int = 5_000) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=batch(b"x"))
    topic = TopicProduceData(name="t", partition_data=(data,))
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=(topic,))


def produce(
    one: Rig, broker_id: int = 1, *, acks: int = -1, timeout_ms: int = 5_000, meanwhile: Callable[[], None] = nothing
) -> tuple[ProduceResponse, float]:
    """The answer, and how many milliseconds it took; `meanwhile` happens 50 ms after the request left."""

    async def story(connection: Connection) -> tuple[ProduceResponse, float]:
        begun = asyncio.get_running_loop().time()
        sent = connection.send(produced(acks, timeout_ms), version=10)
        await virtual_ms(50)
        meanwhile()
        answer = await sent.answer
        return answer, (asyncio.get_running_loop().time() - begun) * 1000

    return one.talk(broker_id, story, listener=CLIENTS)


def only(response: ProduceResponse) -> PartitionProduceResponse:
    return response.responses[0].partition_responses[0]


def test_acks_all_is_answered_when_everybody_in_sync_has_it() -> None:
    with rig(3) as one:
        one.tell(1, 0, isr=(1, 2, 3))
        answer, took_ms = produce(one)
        assert (only(answer).error_code, only(answer).base_offset) == (ErrorCode.NONE, 0)
        assert took_ms < 150
        assert one.brokers[2].values() == one.brokers[3].values() == one.brokers[1].values()


def test_too_few_in_sync_replicas_are_an_error_before_the_append() -> None:
    with rig(3) as one:
        one.tell(1, 0, isr=(1,), to=(1,), config=LogConfig(min_insync_replicas=2))
        answer, _ = produce(one)
        assert only(answer).error_code is ErrorCode.NOT_ENOUGH_REPLICAS
        assert one.brokers[1].partition.log.log_end_offset == 0
        assert only(produce(one, acks=1)[0]).error_code is ErrorCode.NONE


def test_a_wait_ends_with_the_clients_patience_and_the_record_stays() -> None:
    with rig(2) as one:
        one.tell(1, 0, to=(1,))
        answer, took_ms = produce(one, timeout_ms=300)
        assert only(answer).error_code is ErrorCode.REQUEST_TIMED_OUT
        assert 300 <= took_ms < 330
        assert one.brokers[1].partition.log.log_end_offset == 1


def test_r22_a_wait_ends_at_once_when_leadership_is_lost_and_names_the_new_leader() -> None:
    with rig(2) as one:
        one.tell(1, 0, to=(1,))
        answer, took_ms = produce(one, meanwhile=lambda: one.tell(2, 1, to=(1,)))
        data = only(answer)
        assert data.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert took_ms < 60
        assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (2, 1)
        (endpoint,) = answer.node_endpoints
        assert (endpoint.node_id, endpoint.host, endpoint.port) == (2, "broker-2", 9092)


def test_a_new_epoch_of_the_same_leader_does_not_end_the_wait() -> None:
    with rig(2) as one:
        one.tell(1, 0, to=(1,))
        answer, _ = produce(one, meanwhile=lambda: one.tell(1, 1))
        assert only(answer).error_code is ErrorCode.NONE


def test_a_follower_says_who_leads() -> None:
    with rig(2) as one:
        one.tell(1, 4)
        answer, _ = produce(one, 2)
        assert only(answer).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert only(answer).current_leader.leader_id == 1


def test_a_broker_without_a_replica_says_who_leads() -> None:
    with rig(2) as one:
        one.tell(1, 4, to=(1,))
        one.tell_metadata(one.brokers[2])
        answer, _ = produce(one, 2)
        assert only(answer).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (only(answer).current_leader.leader_id, only(answer).current_leader.leader_epoch) == (1, 4)


# Consumers.


def consume(
    one: Rig, broker_id: int, offset: int, *, rack: str = "", version: int = 16, epoch: int = -1, wait_ms: int = 0
) -> FetchResponse:
    row = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=epoch)
    topic = FetchTopic(topic="t", topic_id=TOPIC_ID if version >= 13 else None, partitions=(row,))
    request = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, topics=(topic,), rack_id=rack)

    async def story(connection: Connection) -> FetchResponse:
        return await connection.request(request, version=version)

    return one.talk(broker_id, story, listener=CLIENTS)


def nearest(one: Rig) -> None:
    one.racks = {1: "a", 2: "b", 3: "c"}
    one.tell(1, 0, isr=(1, 2, 3))
    one.brokers[1].produce(b"x")
    one.until(lambda: all(broker.partition.high_watermark == 1 for broker in one.brokers.values()))


RACK_AWARE = {"replica.selector.class": RACK_AWARE_SELECTOR}


def test_a_consumer_is_sent_to_the_replica_in_its_rack_and_served_there() -> None:
    with rig(3, settings=RACK_AWARE) as one:
        nearest(one)
        data = consume(one, 1, 0, rack="b", wait_ms=60_000).responses[0].partitions[0]
        assert (data.error_code, data.preferred_read_replica, data.records) == (ErrorCode.NONE, 2, b"")
        there = consume(one, 2, 0, rack="b").responses[0].partitions[0]
        assert (there.error_code, there.preferred_read_replica) == (ErrorCode.NONE, -1)
        assert [header.base_offset for _, header in headers(there.records or b"")] == [0]
        for rack in ("a", "nowhere", ""):
            here = consume(one, 1, 0, rack=rack).responses[0].partitions[0]
            assert (here.preferred_read_replica, len(here.records or b"") > 0) == (-1, True)


def test_without_a_selector_nobody_is_sent_anywhere() -> None:
    with rig(3) as one:
        nearest(one)
        assert consume(one, 1, 0, rack="b").responses[0].partitions[0].preferred_read_replica == -1


def test_a_follower_serves_up_to_its_own_high_watermark_and_says_what_it_does_not_have() -> None:
    with rig(3, settings=RACK_AWARE) as one:
        nearest(one)
        at_end = consume(one, 2, 1).responses[0].partitions[0]
        assert (at_end.error_code, at_end.records) == (ErrorCode.NONE, b"")
        beyond = consume(one, 2, 2).responses[0].partitions[0]
        assert beyond.error_code is ErrorCode.OFFSET_OUT_OF_RANGE
        old = consume(one, 2, 0, version=10).responses[0].partitions[0]
        assert old.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER, "before version 11 nobody reads from followers"


def test_a_consumer_parked_at_a_follower_hears_of_new_records() -> None:
    with rig(2) as one:
        one.tell(1, 0)

        async def story(connection: Connection) -> FetchResponse:
            row = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
            request = FetchRequest(max_wait_ms=10_000, min_bytes=1, topics=(FetchTopic(topic="t", partitions=(row,)),))
            sent = connection.send(request, version=12)
            await virtual_ms(50)
            one.brokers[1].produce(b"x")
            async with asyncio.timeout(1):
                return await sent.answer

        answer = one.talk(2, story, listener=CLIENTS)
        assert answer.responses[0].partitions[0].records


@pytest.mark.parametrize("version", [12, 16])
def test_a_consumer_with_an_old_epoch_is_told_the_new_leader(version: int) -> None:
    with rig(2) as one:
        one.tell(1, 0)
        one.tell(2, 1)
        answer = consume(one, 1, 0, version=version, epoch=0)
        data = answer.responses[0].partitions[0]
        assert data.error_code is ErrorCode.FENCED_LEADER_EPOCH
        assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (2, 1)
        assert [each.node_id for each in answer.node_endpoints] == ([2] if version >= 16 else [])


def test_the_end_of_a_log_is_not_told_before_the_new_leader_knows_it() -> None:
    with rig(2) as one:
        one.tell(1, 0)
        one.brokers[1].produce(b"a")
        one.until(lambda: one.brokers[2].partition.log.log_end_offset == 1)
        one.world.fabric.faults.partition(["broker-1"], ["broker-2"])
        one.tell(2, 1, isr=(1, 2), to=(2,))

        async def end(connection: Connection) -> tuple[ErrorCode, int]:
            asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
            request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name="t", partitions=(asked,)),))
            found = (await connection.request(request, version=7)).topics[0].partitions[0]
            return found.error_code, found.offset

        if one.brokers[2].partition.high_watermark == 0:
            assert one.talk(2, end, listener=CLIENTS) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
        one.world.fabric.faults.heal()
        one.tell(2, 2, isr=(1, 2))
        one.until(lambda: one.brokers[2].partition.high_watermark == 1)
        assert one.talk(2, end, listener=CLIENTS) == (ErrorCode.NONE, 1)
