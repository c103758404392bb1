"""Fetching under faults, row by row of the fault matrix: the races between a fetch and the word of a controller, and sessions.

The test is the controller, so that it can tell one broker and not another, at the very moment an answer is under way.
"""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.broker.replication_rig import CLIENTS, T0, TOPIC_ID, Rig, RigBroker, rig
from tests.simulation.clusters import SAFE, Load, check_promises, heal, kills, make_topic, produce
from tests.simulation.workload import properties
from tidelog.broker.fetch_sessions import FetchPartition as SessionPartition
from tidelog.broker.fetch_sessions import FetchSessionCache
from tidelog.broker.session_terms import PartitionKey
from tidelog.client import Admin, ClientConfig, Consumer, ConsumerConfig, NewTopic
from tidelog.client.connection import Connection
from tidelog.config import LogConfig
from tidelog.model import Acks, ErrorCode, TopicPartition
from tidelog.records import RecordBatchBuilder
from tidelog.runtime import Runtime
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from tidelog.wire.messages.list_offsets import (
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

FETCH_VERSION = 17
LIST_OFFSETS_VERSION = 7


def end(one: Rig, broker_id: int) -> int:
    return one.brokers[broker_id].partition.log.log_end_offset


def epochs(broker: RigBroker) -> list[tuple[int, int]]:
    return [(entry.leader_epoch, entry.start_offset) for entry in broker.partition.log.epochs]


def have_all(one: Rig, offset: int, *broker_ids: int) -> None:
    """Wait until these replicas end there and know it committed."""
    one.until(
        lambda: all(
            one.brokers[each].partition.high_watermark == offset == end(one, each)
            for each in broker_ids or tuple(one.brokers)
        )
    )


def are_equal(one: Rig, *broker_ids: int) -> bool:
    return len({one.brokers[each].values() for each in broker_ids or tuple(one.brokers)}) == 1


def newest_offset(one: Rig, *, broker_id: int) -> ListOffsetsPartitionResponse:
    """What a consumer hears that asks for the end of the log."""
    asked = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=LATEST_TIMESTAMP)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=0, topics=(ListOffsetsTopic(name="t", partitions=(asked,)),)
    )

    async def story(connection: Connection) -> ListOffsetsResponse:
        return await connection.request(request, version=LIST_OFFSETS_VERSION)

    [topic] = one.talk(broker_id, story, listener=CLIENTS).topics
    return topic.partitions[0]


def test_r03_logs_of_two_quick_elections_are_compared_until_they_agree() -> None:
    """The follower's newest epoch is one the leader never had, and the leader's answer names one the follower never had."""
    with rig(2) as one:
        one.tell(1, 0)
        one.brokers[1].produce(b"a")
        have_all(one, 1)
        one.world.fabric.faults.partition(["broker-1"], ["broker-2"])
        one.tell(1, 1, isr=(1,), to=(1,))
        one.brokers[1].produce(b"x1")
        one.brokers[1].produce(b"x2")
        one.tell(2, 2, isr=(2,), to=(2,))  # writes nothing
        one.tell(2, 4, isr=(2,), to=(2,))
        for value in (b"y1", b"y2", b"y3", b"y4"):
            one.brokers[2].produce(value)
        one.tell(1, 5, isr=(1,), to=(1,))
        one.brokers[1].produce(b"x3")
        assert epochs(one.brokers[1]) == [(0, 0), (1, 1), (5, 3)]
        assert epochs(one.brokers[2]) == [(0, 0), (4, 1)]
        one.world.fabric.faults.heal()
        one.tell(2, 6, isr=(2,))
        have_all(one, 5)
        assert are_equal(one)
        cuts = [line for line in one.trace().splitlines() if "log truncated" in line and "broker-1" in line]
        assert len(cuts) == 2, "to the end of epoch 1, which the leader never had, and from there to the end of epoch 0"


def parted(one: Rig) -> None:
    """Broker 2 holds a and b, which broker 3 led; broker 1 leads with a alone, and its answer says so. It takes a fifth of a second."""
    one.tell(3, 0, isr=(1, 2, 3))
    one.brokers[3].produce(b"a")
    have_all(one, 1)
    one.world.fabric.faults.partition(["broker-1"], ["broker-3"])
    one.brokers[3].produce(b"b")
    one.until(lambda: end(one, 2) == 2)
    one.world.fabric.faults.slow("broker-1", "broker-2", latency_ms=(200, 200))
    one.tell(1, 1, isr=(1, 2), to=(1, 2))
    one.world.fabric.faults.mend("broker-1", "broker-3")
    one.world.fabric.faults.mend("broker-3", "broker-1")
    # The connection takes two answers of broker 1, the fetch a third, which is on its way now.
    one.world.run_for_ms(450)


def lowest_end_while(one: Rig, broker_id: int, duration_ms: int) -> int:
    lowest = end(one, broker_id)
    for _ in range(duration_ms):
        one.world.run_for_ms(1)
        lowest = min(lowest, end(one, broker_id))
    return lowest


def test_the_late_answer_of_these_stories_cuts_the_log_unless_something_intervenes() -> None:
    """What the next two tests rely on."""
    with rig(3) as one:
        parted(one)
        assert end(one, 2) == 2
        assert lowest_end_while(one, 2, 300) == 1


def test_r05_an_answer_to_an_earlier_epoch_is_not_used_although_its_leader_leads_again() -> None:
    with rig(3) as one:
        parted(one)
        one.tell(3, 2, isr=(3,), to=(1, 3))
        one.until(lambda: end(one, 1) == 2, within_ms=100)  # Broker 1 has b by now: its answer is wrong.
        one.tell(1, 3, isr=(1, 2, 3))
        assert lowest_end_while(one, 2, 300) == 2, "b, which is committed, stays"
        one.brokers[1].produce(b"c")
        have_all(one, 3)
        assert are_equal(one)


def test_r08_a_fetcher_that_lost_a_partition_to_another_does_not_cut_it() -> None:
    with rig(3) as one:
        parted(one)
        one.tell(3, 2, isr=(2, 3))
        assert lowest_end_while(one, 2, 300) == 2, "b, which is committed, stays"
        one.brokers[3].produce(b"c")
        have_all(one, 3)
        assert are_equal(one)


def test_r06_a_tail_nobody_committed_is_not_readable_for_a_moment() -> None:
    """The answer that orders the cut carries a high watermark beyond the tail."""
    with rig(3) as one:
        one.tell(1, 0, isr=(1, 2, 3))
        one.brokers[1].produce(b"a")
        have_all(one, 1)
        one.world.fabric.faults.isolate("broker-1")
        one.brokers[1].produce(b"never committed")
        one.brokers[1].produce(b"nor this")
        one.tell(2, 1, isr=(2, 3), to=(2, 3))
        for value in (b"y1", b"y2", b"y3", b"y4"):
            one.brokers[2].produce(value)
        have_all(one, 5, 2, 3)
        assert (end(one, 1), one.brokers[1].partition.high_watermark) == (3, 1)
        one.world.fabric.faults.heal()
        one.tell(2, 2, isr=(2, 3))
        readable: set[bytes] = set()
        while one.brokers[1].partition.high_watermark < 5:
            one.world.run_for_ms(0.1)
            log, bound = one.brokers[1].partition.log, one.brokers[1].partition.high_watermark
            readable.add(bytes(log.read(0, max_bytes=1 << 20, end_offset=bound)))
        assert not [data for data in readable if b"never committed" in data or b"nor this" in data]
        assert are_equal(one)


def test_r07_a_fetch_from_a_log_that_parts_from_the_leaders_commits_nothing() -> None:
    with rig(2) as one:
        one.tell(2, 0)
        one.brokers[2].produce(b"a")
        have_all(one, 1)
        one.world.fabric.faults.partition(["broker-1"], ["broker-2"])
        one.brokers[2].produce(b"x1")
        one.brokers[2].produce(b"x2")
        one.world.fabric.faults.heal()
        one.world.fabric.faults.slow("broker-1", "broker-2", latency_ms=(300, 300))
        one.tell(1, 1)
        one.brokers[1].produce(b"y1")
        # Broker 2 fetches at offset 3, above all that broker 1 has, and hears the answer after 900 ms.
        one.world.run_for_ms(750)
        assert "log truncated" not in one.trace()
        [follower] = one.brokers[1].partition.describe(0, 0).remotes
        assert follower.log_end_offset == -1
        assert one.brokers[1].partition.high_watermark == 1
        have_all(one, 2)
        assert are_equal(one)


@kills
def test_r09_an_epoch_in_which_nobody_wrote_does_not_outlive_the_next_leader() -> None:
    """Nor does it come back with a restart; epoch 0 stays."""
    with rig(3) as one:
        one.tell(1, 0, isr=(1, 2, 3))
        one.brokers[1].produce(b"a")
        have_all(one, 1)
        one.world.fabric.faults.isolate("broker-2")
        one.tell(2, 1, isr=(2,), to=(2,))
        assert epochs(one.brokers[2]) == [(0, 0), (1, 1)]
        one.world.fabric.faults.heal()
        one.tell(3, 2, isr=(1, 2, 3))
        one.brokers[3].produce(b"b")
        have_all(one, 2)
        assert epochs(one.brokers[2]) == epochs(one.brokers[1]) == [(0, 0), (2, 1)]
        one.world.node("broker-2").kill()
        del one.brokers[2]
        one.world.node("broker-2").restart()
        one.until(lambda: 2 in one.brokers)
        one.tell(3, 3, isr=(1, 2, 3))
        have_all(one, 2)
        assert epochs(one.brokers[2]) == [(0, 0), (2, 1)], "as the batches tell it"
        assert are_equal(one)


def append_numbered(broker: RigBroker, value: bytes, *, producer_id: int) -> None:
    """What an idempotent producer sends first."""
    builder = RecordBatchBuilder(producer_id=producer_id, producer_epoch=0, base_sequence=0)
    builder.append(timestamp_ms=1_000, key=None, value=value)
    broker.replicas.append(T0, builder.build(), acks=Acks.LEADER, produce_version=9)


def test_r10_a_follower_below_the_leaders_beginning_begins_anew_with_all_it_knows() -> None:
    """Its tail parts from the leader's log too; that it is out of range is what counts."""
    config = LogConfig(segment_bytes=1_000, retention_bytes=1_000, retention_ms=None)
    with rig(2) as one:
        one.tell(1, 0, config=config)
        append_numbered(one.brokers[1], b"a", producer_id=7)
        have_all(one, 1)
        one.world.fabric.faults.isolate("broker-2")
        one.tell(2, 1, isr=(2,), to=(2,), config=config)
        append_numbered(one.brokers[2], b"x", producer_id=8)
        one.live.remove(2)
        one.tell(1, 0, isr=(1,), to=(1,), config=config)
        for _ in range(20):
            one.brokers[1].produce(bytes(300))
        leader = one.brokers[1].partition
        leader.log.delete_old_segments(one.brokers[1].runtime.clock.wall_ms(), leader.high_watermark)
        start = leader.log.log_start_offset
        assert start > 2
        one.world.fabric.faults.heal()
        one.live.add(2)
        one.tell(1, 2, isr=(1,), config=config)
        one.until(lambda: end(one, 2) != 2)
        log = one.brokers[2].partition.log
        offsets = (log.log_start_offset, one.brokers[2].partition.high_watermark, log.log_end_offset)
        assert (offsets, epochs(one.brokers[2]), log.active_producers()) == ((start, start, start), [], [])
        have_all(one, 21)
        assert are_equal(one)
        assert one.trace().count("log truncated") == 1


def test_r11_a_consumer_ahead_of_a_new_leaders_watermark_waits() -> None:
    """It has read b, which the new leader has and does not know to be committed. Nothing sends it back."""
    with rig(3) as one:
        one.tell(1, 0, isr=(1, 2, 3))
        one.brokers[1].produce(b"a")
        have_all(one, 1)
        one.brokers[1].produce(b"b")
        one.until(lambda: one.brokers[1].partition.high_watermark == 2)
        one.world.fabric.faults.isolate("broker-1")
        one.world.node("broker-3").pause()
        one.tell(2, 1, isr=(2, 3), to=(2,))
        assert (one.brokers[2].partition.high_watermark, end(one, 2)) == (1, 2)
        _, [data] = ask(one, wanted(2, epoch=1), broker_id=2)
        assert (data.error_code, data.records or b"") == (ErrorCode.NONE, b"")
        assert newest_offset(one, broker_id=2).error_code is ErrorCode.OFFSET_NOT_AVAILABLE, (
            "not 1, which was the end before"
        )
        one.world.node("broker-3").resume()
        one.tell(2, 1, isr=(2, 3), to=(3,))
        one.until(lambda: one.brokers[2].partition.high_watermark == 2)
        assert newest_offset(one, broker_id=2).offset == 2


def test_r12_a_follower_joins_the_isr_when_it_has_all_the_new_leader_was_elected_with() -> None:
    """The new leader does not know yet that b and c are committed: its high watermark would let in a follower without them."""
    with rig(4) as one:
        one.tell(1, 0, isr=(1, 2, 3, 4))
        one.brokers[1].produce(b"a")
        have_all(one, 1)
        one.world.fabric.faults.partition(["broker-1"], ["broker-3"])
        one.brokers[1].produce(b"b")
        one.brokers[1].produce(b"c")
        one.until(lambda: end(one, 2) == end(one, 4) == 3)
        one.world.node("broker-4").pause()
        one.world.fabric.faults.slow("broker-2", "broker-3", latency_ms=(200, 200))
        one.live.remove(1)
        one.tell(2, 1, isr=(2, 4), to=(2, 3))
        leader = one.brokers[2].partition
        one.until(lambda: 3 in [each.broker_id for each in leader.describe(0, 0).remotes if each.log_end_offset == 1])
        one.world.run_for_ms(100)
        assert leader.high_watermark == 1, "broker 4 has not fetched yet"
        assert one.proposals == [], "broker 3 has fetched from there"
        one.until(lambda: bool(one.proposals))
        assert [each.log_end_offset for each in leader.describe(0, 0).remotes if each.broker_id == 3] == [3]
        one.world.node("broker-4").resume()
        one.tell(2, 1, isr=(2, 3, 4), to=(4,))
        have_all(one, 3, 2, 3, 4)


def test_r13_whoever_may_be_in_the_isr_counts_until_that_is_decided() -> None:
    """The controller's answer is missing: first to the wish that broker 3 should leave, then to the wish that it may return."""
    with rig(3, settings={"replica.lag.time.max.ms": "1000"}) as one:
        one.tell(1, 0, isr=(1, 2, 3))
        one.brokers[1].produce(b"a")
        have_all(one, 1)
        one.verdicts += [ErrorCode.NOT_CONTROLLER] * 1_000
        one.world.fabric.faults.isolate("broker-3")
        is_held_back(one, b"b")
        assert one.proposals, "broker 3 is late"
        one.verdicts.clear()
        one.until(lambda: one.brokers[1].partition.high_watermark == 2)
        one.verdicts += [ErrorCode.NOT_CONTROLLER] * 1_000
        one.world.fabric.faults.heal()
        one.until(lambda: end(one, 3) == 2 and 3 in one.brokers[1].partition.maximal_isr)
        one.world.fabric.faults.isolate("broker-3")
        is_held_back(one, b"c")
        one.verdicts.clear()
        one.until(lambda: one.brokers[1].partition.high_watermark == 3)
        assert one.states[T0].isr == (1, 2), "it came, and left again"


def is_held_back(one: Rig, value: bytes) -> None:
    """Broker 2 gets a record, and in two seconds it is not committed."""
    before = one.brokers[1].partition.high_watermark
    one.brokers[1].produce(value)
    one.until(lambda: end(one, 2) == end(one, 1))
    one.world.run_for_ms(2_000)
    assert one.brokers[1].partition.high_watermark == before


# Sessions.


@kills
@pytest.mark.slow
def test_f01_a_fetch_session_broken_at_any_moment_loses_no_partition() -> None:
    with SimulatedCluster(31, brokers=3, settings=SAFE) as cluster:
        partitions = [TopicPartition("t", index) for index in range(6)]

        async def make(runtime: Runtime) -> None:
            async with Admin.connect(ClientConfig.from_properties(properties(cluster)), runtime) as admin:
                (result,) = await admin.create_topics([NewTopic(name="t", partition_count=6, replication_factor=3)])
                assert result.is_ok, result

        cluster.until_ready()
        cluster.tell(make)
        load = Load(cluster, partitions=6)
        for _ in range(20):
            cluster.world.run_for_ms(cluster.world.faults.below(200))
            one, other = (1 + cluster.world.faults.below(3), 1 + cluster.world.faults.below(3))
            cluster.world.fabric.faults.reset(f"broker-{one}", f"broker-{other}")
        load.until_more()
        load.stop()
        heal(cluster, *partitions)
        check_promises(cluster, load)


def wanted(offset: int, *, epoch: int) -> FetchPartition:
    return FetchPartition(
        partition=0,
        fetch_offset=offset,
        current_leader_epoch=epoch,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=1 << 20,
    )


def ask(
    one: Rig,
    *rows: FetchPartition,
    session: tuple[int, int] = (0, 0),
    topic_id: UUID = TOPIC_ID,
    broker_id: int = 1,
) -> tuple[FetchResponse, list[PartitionData]]:
    """A consumer's fetch, and what the answer says of each partition."""
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        session_id=session[0],
        session_epoch=session[1],
        topics=(FetchTopic(topic_id=topic_id, partitions=rows),) if rows else (),
    )

    async def story(connection: Connection) -> FetchResponse:
        return await connection.request(request, version=FETCH_VERSION)

    response = one.talk(broker_id, story, listener=CLIENTS)
    return response, [data for topic in response.responses for data in topic.partitions]


def test_f02_a_session_does_not_carry_a_consumer_over_to_another_epoch() -> None:
    """It says nothing about its partitions any more; that does not mean that it knows who leads now."""
    with rig(2) as one:
        one.tell(1, 0)
        one.brokers[1].produce(b"a")
        have_all(one, 1)
        full, [data] = ask(one, wanted(1, epoch=0))
        assert data.error_code is ErrorCode.NONE
        one.tell(2, 1)
        one.until(lambda: one.brokers[1].partition.is_follower)
        _, [fenced] = ask(one, session=(full.session_id, 1))
        assert fenced.error_code is ErrorCode.FENCED_LEADER_EPOCH
        one.tell(1, 2)
        one.brokers[1].produce(b"b")
        _, [fenced] = ask(one, session=(full.session_id, 2))
        assert (fenced.error_code, fenced.records or b"") == (ErrorCode.FENCED_LEADER_EPOCH, b"")
        have_all(one, 2)
        _, [healed] = ask(one, wanted(1, epoch=2), session=(full.session_id, 3))
        assert healed.error_code is ErrorCode.NONE
        assert healed.records


def test_f03_a_session_on_a_topic_made_anew_reads_nothing_of_the_new_one() -> None:
    with rig(2) as one:
        one.tell(1, 0, isr=(1,), to=(1,))
        full, _ = ask(one, wanted(0, epoch=-1))
        one.brokers[1].roles.stop(T0, is_deleted=True)
        del one.states[T0]
        one.tell(1, 0, isr=(1,), to=(1,), topic_id=UUID(int=8))
        one.brokers[1].produce(b"of the new topic")
        _, [other] = ask(one, session=(full.session_id, 1))
        assert (other.error_code, other.records or b"") == (ErrorCode.UNKNOWN_TOPIC_ID, b"")
        fresh, [data] = ask(one, wanted(0, epoch=-1), topic_id=UUID(int=8))
        assert data.error_code is ErrorCode.NONE
        assert b"of the new topic" in bytes(data.records or b"")
        assert fresh.session_id not in (0, full.session_id)


def test_f04_ten_thousand_sessions_take_no_more_room_than_a_thousand() -> None:
    cache = FetchSessionCache(slots_max=1_000)
    for number in range(1, 10_001):
        partition = SessionPartition(
            key=PartitionKey("t", None, 0),
            fetch_offset=0,
            max_bytes=1,
            current_leader_epoch=-1,
            last_fetched_epoch=-1,
            log_start_offset=-1,
        )
        cache.create(number, [partition], uses_topic_ids=False, now_ms=number * 1_000.0)
        assert len(cache) <= 1_000
    assert len(cache) == 1_000


@kills
@pytest.mark.slow
def test_f04_consumers_that_lost_their_place_in_the_cache_go_on_with_a_full_fetch() -> None:
    """Three sessions for six consumers: those that stand still for two minutes lose theirs to the others."""
    with SimulatedCluster(4, settings={"max.incremental.fetch.session.cache.slots": "3"}) as cluster:
        make_topic(cluster, (1,))
        seen: dict[str, list[int]] = {}

        async def read(runtime: Runtime, name: str) -> None:
            offsets = seen[name] = []
            config = ConsumerConfig.from_properties(properties(cluster, auto_offset_reset="earliest"))
            async with Consumer.connect(config, runtime) as consumer:
                consumer.assign([T0])
                while True:
                    offsets += [record.offset for record in await consumer.poll(timeout_ms=1_000)]

        first, second = cluster.world.node("first"), cluster.world.node("second")
        for node in (first, second):
            for number in range(3):
                node.spawn(read(node.runtime, f"{node.name}-{number}"))
            assert produce(cluster, b"read by all") in (0, 1)
            cluster.world.run_for_ms(1_000)
            if node is first:
                first.pause()
                cluster.world.run_for_ms(130_000)
        first.resume()
        assert produce(cluster, b"read by all") == 2
        cluster.until(lambda: all(offsets == [0, 1, 2] for offsets in seen.values()), "all have read all of it")
        assert len(seen) == 6
