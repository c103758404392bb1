"""What a leader says to followers: in which order it checks, what it counts, and what it tells when."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from tests.broker.replication_rig import BROKERS_ONLY, CLIENTS, T0, TOPIC_ID, Rig, rig, virtual_ms
from tidelog.broker.follower_sessions import FollowerSession, FollowerSessions
from tidelog.broker.waiters import Waiters
from tidelog.client.connection import Connection
from tidelog.config import LogConfig
from tidelog.model import ApiError, ErrorCode, TopicPartition
from tidelog.partition import FollowerFetch
from tidelog.records import headers
from tidelog.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tidelog.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from tidelog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

VERSION = 17


def row(offset: int, *, index: int = 0, epoch: int = 0, fetched_epoch: int = 0, start: int = 0) -> FetchPartition:
    return FetchPartition(
        partition=index,
        fetch_offset=offset,
        current_leader_epoch=epoch,
        last_fetched_epoch=fetched_epoch,
        log_start_offset=start,
        partition_max_bytes=1 << 20,
    )


def fetch(
    *rows: FetchPartition,
    replica_id: int = 2,
    session: tuple[int, int] = (0, -1),
    topic_id: UUID = TOPIC_ID,
    max_wait_ms: int = 0,
    forgotten: tuple[int, ...] = (),
) -> FetchRequest:
    return FetchRequest(
        replica_state=ReplicaState(replica_id=replica_id, replica_epoch=100 + replica_id),
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        session_id=session[0],
        session_epoch=session[1],
        topics=(FetchTopic(topic_id=topic_id, partitions=rows),) if rows else (),
        forgotten_topics_data=(ForgottenTopic(topic_id=topic_id, partitions=forgotten),) if forgotten else (),
    )


def ask(one: Rig, request: FetchRequest, *, listener: str = BROKERS_ONLY) -> FetchResponse:
    """One fetch at broker 1."""

    async def story(connection: Connection) -> FetchResponse:
        return await connection.request(request, version=VERSION)

    return one.talk(1, story, listener=listener)


def rows_of(response: FetchResponse) -> dict[int, PartitionData]:
    assert response.error_code is ErrorCode.NONE
    return {data.partition_index: data for topic in response.responses for data in topic.partitions}


def offsets(data: PartitionData) -> list[int]:
    return [header.base_offset for _, header in headers(data.records or b"")]


def led(one: Rig, **wanted: object) -> None:
    """Broker 1 leads; broker 2 is played by the test."""
    one.tell(1, 0, to=(1,), **wanted)  # type: ignore[arg-type]


def test_followers_are_served_only_where_brokers_talk() -> None:
    with rig(2) as one:
        led(one)
        refused = ask(one, fetch(row(0)), listener=CLIENTS)
        assert refused.error_code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert rows_of(ask(one, fetch(row(0))))[0].error_code is ErrorCode.NONE

        async def others(connection: Connection) -> list[ErrorCode]:
            listed = ListOffsetsRequest(
                replica_id=2,
                topics=(
                    ListOffsetsTopic(name="t", partitions=(ListOffsetsPartition(partition_index=0, timestamp=-1),)),
                ),
            )
            epochs = OffsetForLeaderEpochRequest(
                replica_id=2,
                topics=(
                    OffsetForLeaderTopic(
                        topic="t", partitions=(OffsetForLeaderPartition(partition=0, leader_epoch=0),)
                    ),
                ),
            )
            return [
                (await connection.request(listed, version=9)).topics[0].partitions[0].error_code,
                (await connection.request(epochs, version=4)).topics[0].partitions[0].error_code,
            ]

        assert one.talk(1, others, listener=CLIENTS) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2
        assert one.talk(1, others, listener=BROKERS_ONLY) == [ErrorCode.NONE] * 2


def test_a_follower_reads_to_the_log_end_and_its_next_fetch_commits() -> None:
    with rig(2) as one:
        led(one)
        one.brokers[1].produce(b"a")
        one.brokers[1].produce(b"b")
        first = rows_of(ask(one, fetch(row(0))))[0]
        assert (offsets(first), first.high_watermark) == ([0, 1], 0)
        second = rows_of(ask(one, fetch(row(2))))[0]
        assert (offsets(second), second.high_watermark) == ([], 0), "what a fetch commits shows in the next answer"
        assert one.brokers[1].partition.high_watermark == 2
        assert rows_of(ask(one, fetch(row(2))))[0].high_watermark == 2


def test_a_parked_fetch_is_answered_by_an_append_and_counts_once() -> None:
    with rig(2) as one:
        led(one)

        async def story(connection: Connection) -> tuple[FetchResponse, float]:
            begun = asyncio.get_running_loop().time()
            sent = connection.send(fetch(row(0), max_wait_ms=5_000), version=VERSION)
            await virtual_ms(50)
            one.brokers[1].produce(b"a")
            return await sent.answer, asyncio.get_running_loop().time() - begun

        answer, took_s = one.talk(1, story, listener=BROKERS_ONLY)
        assert offsets(rows_of(answer)[0]) == [0]
        assert took_s < 0.1
        assert one.brokers[1].partition.high_watermark == 0


def test_a_high_watermark_alone_does_not_answer_a_parked_follower() -> None:
    with rig(3) as one:
        led(one, isr=(1, 2, 3))
        one.brokers[1].produce(b"a")

        async def story(connection: Connection) -> tuple[FetchResponse, float]:
            full = await connection.request(fetch(row(1), session=(0, 0)), version=VERSION)
            begun = asyncio.get_running_loop().time()
            parked = connection.send(fetch(session=(full.session_id, 1), max_wait_ms=400), version=VERSION)
            await virtual_ms(50)
            partition, leader = one.brokers[1].partition, one.brokers[1]
            _, events = partition.read_for_follower(
                FollowerFetch(
                    replica_id=3,
                    broker_epoch=103,
                    fetch_offset=1,
                    current_leader_epoch=0,
                    last_fetched_epoch=0,
                    log_start_offset=0,
                ),
                max_bytes=0,
                at_least_one=False,
                monotonic_ms=leader.runtime.clock.monotonic_ms(),
            )
            leader.replicas.perform(partition, events)
            assert partition.high_watermark == 1
            return await parked.answer, asyncio.get_running_loop().time() - begun

        answer, took_s = one.talk(1, story, listener=BROKERS_ONLY)
        assert 0.4 <= took_s < 0.5
        assert rows_of(answer)[0].high_watermark == 1, "but it is told then"


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (row(0, epoch=1), ErrorCode.FENCED_LEADER_EPOCH),
        (row(0, epoch=3), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (row(9, epoch=2, fetched_epoch=-1), ErrorCode.OFFSET_OUT_OF_RANGE),
        (row(0, index=4, epoch=2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_r04_a_follower_of_another_epoch_or_place_is_told_so(asked: FetchPartition, code: ErrorCode) -> None:
    with rig(2) as one:
        one.tell(1, 2, to=(1,))
        assert rows_of(ask(one, fetch(asked, max_wait_ms=1_000)))[asked.partition].error_code is code


def test_a_stranger_is_no_follower() -> None:
    with rig(2) as one:
        led(one)
        data = rows_of(ask(one, fetch(row(0), replica_id=9)))[0]
        assert data.error_code is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_r07_a_follower_whose_log_parts_from_ours_is_told_at_once_and_counts_for_nothing() -> None:
    with rig(2) as one:
        led(one)
        one.brokers[1].produce(b"a")
        one.tell(1, 3, to=(1,))
        one.brokers[1].produce(b"b")
        data = rows_of(ask(one, fetch(row(5, epoch=3, fetched_epoch=2), max_wait_ms=60_000)))[0]
        assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 1)
        assert not data.records
        assert one.brokers[1].partition.high_watermark == 0


def test_f01_only_the_next_request_of_a_session_is_served() -> None:
    with rig(2) as one:
        led(one)
        full = ask(one, fetch(row(0), session=(0, 0)))
        assert full.session_id != 0
        assert ask(one, fetch(session=(full.session_id, 1))).error_code is ErrorCode.NONE
        for session_id, epoch, code in (
            (full.session_id, 1, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
            (full.session_id, 3, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
            (full.session_id + 1, 2, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        ):
            assert ask(one, fetch(session=(session_id, epoch))).error_code is code
        stranger = fetch(session=(full.session_id, 2), replica_id=3)
        assert ask(one, stranger).error_code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        one.brokers[1].produce(b"a")
        assert offsets(rows_of(ask(one, fetch(session=(full.session_id, 2))))[0]) == [0]


def test_f01_what_was_sent_and_not_used_is_sent_again() -> None:
    with rig(2) as one:
        led(one)
        one.brokers[1].produce(b"a")
        full = ask(one, fetch(row(0), session=(0, 0)))
        for epoch in (1, 2):
            assert offsets(rows_of(ask(one, fetch(session=(full.session_id, epoch))))[0]) == [0]
        assert offsets(rows_of(ask(one, fetch(row(1), session=(full.session_id, 3)))).get(0, rows_of(full)[0])) == [0]
        assert rows_of(ask(one, fetch(session=(full.session_id, 4))))[0].high_watermark == 1
        assert rows_of(ask(one, fetch(session=(full.session_id, 5)))) == {}


def test_f02_every_fetch_of_a_session_is_checked_against_the_epoch_of_now() -> None:
    with rig(2) as one:
        led(one)
        full = ask(one, fetch(row(0), session=(0, 0)))
        one.tell(1, 1, to=(1,))
        for epoch in (1, 2):
            data = rows_of(ask(one, fetch(session=(full.session_id, epoch), max_wait_ms=60_000)))[0]
            assert data.error_code is ErrorCode.FENCED_LEADER_EPOCH
        healed = ask(one, fetch(row(0, epoch=1), session=(full.session_id, 3)))
        assert rows_of(healed)[0].error_code is ErrorCode.NONE


def test_f02_a_leader_that_loses_its_role_answers_the_parked_fetch_at_once() -> None:
    with rig(2) as one:
        led(one)

        async def story(connection: Connection) -> FetchResponse:
            full = await connection.request(fetch(row(0), session=(0, 0)), version=VERSION)
            parked = connection.send(fetch(session=(full.session_id, 1), max_wait_ms=30_000), version=VERSION)
            await virtual_ms(50)
            one.tell(2, 1, to=(1,))
            async with asyncio.timeout(0.1):
                return await parked.answer

        assert rows_of(one.talk(1, story, listener=BROKERS_ONLY))[0].error_code is ErrorCode.FENCED_LEADER_EPOCH


def test_f03_a_topic_made_anew_under_the_same_name_is_another_topic() -> None:
    with rig(2) as one:
        led(one)
        full = ask(one, fetch(row(0), session=(0, 0)))
        one.brokers[1].roles.stop(T0, is_deleted=True)
        gone = rows_of(ask(one, fetch(session=(full.session_id, 1), max_wait_ms=60_000)))[0]
        assert gone.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        del one.states[T0]
        led(one, topic_id=UUID(int=8))
        other = rows_of(ask(one, fetch(session=(full.session_id, 2), max_wait_ms=60_000)))[0]
        assert other.error_code is ErrorCode.INCONSISTENT_TOPIC_ID
        fresh = rows_of(ask(one, fetch(row(0, fetched_epoch=-1), topic_id=UUID(int=8))))[0]
        assert fresh.error_code is ErrorCode.NONE
        old = rows_of(ask(one, fetch(row(0))))[0]
        assert old.error_code is ErrorCode.UNKNOWN_TOPIC_ID


def test_f04_a_crowd_of_consumers_cannot_push_a_followers_session_out() -> None:
    with rig(2) as one:
        led(one)
        full = ask(one, fetch(row(0), session=(0, 0)))
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            session_epoch=0,
            topics=(FetchTopic(topic_id=TOPIC_ID, partitions=(row(0, epoch=-1, fetched_epoch=-1),)),),
        )

        async def crowd(connection: Connection) -> None:
            for _ in range(150):
                await connection.request(request, version=VERSION)

        one.talk(1, crowd, listener=CLIENTS)
        assert len(one.brokers[1].fetch_sessions) == 100
        assert ask(one, fetch(session=(full.session_id, 1))).error_code is ErrorCode.NONE


def test_f04_followers_have_one_session_each_and_all_of_them_are_bounded() -> None:
    replicas = Waiters[TopicPartition]()
    sessions = FollowerSessions()
    for replica_id in range(1, 1_501):
        sessions.begin(FollowerSession(replica_id, replica_id, replicas, replicas), 0)
    assert len(sessions) == 1_000
    with pytest.raises(ApiError) as pushed_out:
        sessions.resume(1, 1, 1)
    assert pushed_out.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    sessions.begin(FollowerSession(7_000, 1_500, replicas, replicas), 0)
    assert len(sessions) == 1_000
    assert sessions.resume(7_000, 1, 1_500).epoch == 2


def test_forgotten_partitions_are_told_of_no_more_and_leave_no_watch() -> None:
    with rig(2) as one:
        led(one)
        full = ask(one, fetch(row(0), session=(0, 0)))
        ask(one, fetch(session=(full.session_id, 1), forgotten=(0,)))
        one.brokers[1].produce(b"a")
        assert rows_of(ask(one, fetch(session=(full.session_id, 2)))) == {}
        assert one.brokers[1].replicas.follower_waiters.watcher_count == 0
        assert one.brokers[1].replicas.fetch_waiters.watcher_count == 0


def test_a_fetch_without_a_session_leaves_no_watch() -> None:
    with rig(2) as one:
        led(one)
        ask(one, fetch(row(0), max_wait_ms=20))
        assert one.brokers[1].replicas.follower_waiters.watcher_count == 0


def test_deleting_records_waits_for_the_replicas_that_live() -> None:
    def deletion(timeout_ms: int) -> DeleteRecordsRequest:
        rows = (DeleteRecordsPartition(partition_index=0, offset=1),)
        return DeleteRecordsRequest(topics=(DeleteRecordsTopic(name="t", partitions=rows),), timeout_ms=timeout_ms)

    with rig(2) as one:
        one.tell(1, 0)
        one.brokers[1].produce(b"a")
        one.brokers[1].produce(b"b")
        one.until(lambda: one.brokers[1].partition.high_watermark == 2)
        one.world.fabric.faults.partition(["broker-1"], ["broker-2"])

        async def delete(connection: Connection) -> tuple[ErrorCode, int]:
            answer = await connection.request(deletion(200), version=2)
            result = answer.topics[0].partitions[0]
            return result.error_code, result.low_watermark

        assert one.talk(1, delete, listener=CLIENTS) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        one.world.fabric.faults.heal()
        one.until(lambda: one.brokers[1].partition.low_watermark == 1, within_ms=3_000)
        assert one.talk(1, delete, listener=CLIENTS) == (ErrorCode.NONE, 1)
        one.brokers[1].produce(b"c")
        one.until(lambda: one.brokers[1].partition.high_watermark == 3)
        one.world.fabric.faults.partition(["broker-1"], ["broker-2"])
        one.live.remove(2)
        assert one.talk(1, delete, listener=CLIENTS) == (ErrorCode.NONE, 1)


def test_deleted_records_reach_followers_without_waiting_for_new_ones() -> None:
    with rig(2) as one:
        one.tell(1, 0, config=LogConfig())
        one.brokers[1].produce(b"a")
        one.brokers[1].produce(b"b")
        one.until(lambda: one.brokers[2].partition.high_watermark == 2)
        one.world.run_for_ms(2_000)

        async def delete(connection: Connection) -> float:
            begun = asyncio.get_running_loop().time()
            rows = (DeleteRecordsPartition(partition_index=0, offset=1),)
            request = DeleteRecordsRequest(topics=(DeleteRecordsTopic(name="t", partitions=rows),), timeout_ms=5_000)
            answer = await connection.request(request, version=2)
            assert answer.topics[0].partitions[0].error_code is ErrorCode.NONE
            return asyncio.get_running_loop().time() - begun

        assert one.talk(1, delete, listener=CLIENTS) < 0.1
        assert one.brokers[2].partition.log.log_start_offset == 1
