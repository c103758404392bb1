"""What reviewers found in clusters: each was a bug once."""

from __future__ import annotations

import pytest

from tests.simulation.clusters import SAFE, T0, ask, contents, is_whole, kills, make_topic, produce
from tests.simulation.story import passed
from tests.simulation.workload import properties
from tidelog.client import (
    Admin,
    ClientConfig,
    ConfigChange,
    ConfigResource,
    DeliveryTimeout,
    Producer,
    ProducerConfig,
    ResourceKind,
)
from tidelog.controller import layout
from tidelog.model import BrokerId, ErrorCode, Offset
from tidelog.records import RecordBatchBuilder
from tidelog.runtime import Runtime
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

QUICK = {"replica.lag.time.max.ms": "2000", "auto.leader.rebalance.enable": "false", **SAFE}
PATIENT = {**QUICK, "replica.lag.time.max.ms": "600000", "tidelog.registry.session.timeout.ms": "600000"}


@kills
@pytest.mark.slow
def test_a_follower_between_two_registrations_fetches_under_the_former() -> None:
    """Under no epoch at all its fetches would let it into an ISR in whatever life the controller finds it then (KIP-903)."""
    with SimulatedCluster(1, brokers=3, settings=QUICK) as cluster:
        make_topic(cluster, (1, 2, 3))
        cluster.until(lambda: len(cluster.state(T0).isr) == 3, "all are in sync")
        registered = cluster.store.tree.peek(layout.broker_path(2))
        assert registered is not None
        assert registered.owner is not None
        cluster.store.expire(registered.owner)
        seen = set()
        for _ in range(2_000):
            cluster.world.run_for_ms(0.25)
            broker = cluster.brokers[2].broker
            assert broker is not None
            seen.add(broker.broker_epoch)
        again = cluster.store.tree.peek(layout.broker_path(2))
        assert again is not None
        assert seen == {registered.czxid, again.czxid}


@kills
@pytest.mark.slow
def test_a_broker_whose_disk_failed_has_no_standing_after_a_restart() -> None:
    """What an fsync could not write is gone, whatever later ones say: on the next start nobody can tell how much that was."""
    settings = {**QUICK, "log.dirs": "/data,/other", "log.flush.interval.messages": "1"}
    with SimulatedCluster(1, brokers=3, settings=settings) as cluster:
        make_topic(cluster, (1, 2, 3))
        cluster.until(lambda: len(cluster.state(T0).isr) == 3, "all are in sync")
        victim = cluster.brokers[2]
        victim.node.disk.faults.fail("fsync", path="*/t-0/*.log")
        produce(cluster, b"one")
        cluster.until(lambda: 2 not in cluster.state(T0).isr, "the replica is offline")
        victim.node.disk.faults.heal()
        victim.bounce()
        cluster.until(lambda: victim.is_ready, "it is back")
        registered = cluster.store.tree.peek(layout.broker_path(2))
        assert registered is not None
        assert not layout.decode_broker(2, registered).is_intact
        cluster.until(lambda: is_whole(cluster, T0), "it has caught up")


def alter_topic(cluster: SimulatedCluster, name: str, value: str) -> None:
    async def story(runtime: Runtime) -> None:
        async with Admin.connect(ClientConfig.from_properties(properties(cluster)), runtime) as admin:
            change = ConfigChange(name=name, value=value)
            (result,) = await admin.alter_configs({ConfigResource(ResourceKind.TOPIC, "t"): [change]})
            assert result.is_ok, result

    cluster.tell(story)


@kills
@pytest.mark.slow
def test_a_minimum_raised_right_before_a_controller_dies_makes_nobody_eligible_under_the_next() -> None:
    """The leader has not heard of it and commits alone: whoever leaves its ISR then does not know all that is committed."""
    settings = {**QUICK, "min.insync.replicas": "1"}
    with SimulatedCluster(1, brokers=4, first=4, settings=settings) as cluster:
        make_topic(cluster, (1, 2))
        produce(cluster, b"first")
        cluster.store.cut("broker-1")
        alter_topic(cluster, "min.insync.replicas", "2")
        cluster.brokers[4].kill()
        cluster.until(lambda: cluster.controller is not None, "another controller reigns")
        cluster.brokers[2].kill()
        cluster.until(lambda: cluster.state(T0).isr == (1,), "the follower has left the ISR")
        offset = produce(cluster, b"acknowledged alone")
        cluster.brokers[1].kill()
        cluster.until(lambda: cluster.state(T0).leader != 1, "the leader is missed")
        cluster.brokers[2].restart()
        cluster.until(lambda: cluster.brokers[2].is_ready, "the follower is back")
        cluster.world.run_for_ms(1_000)
        assert cluster.state(T0).leader == -1
        cluster.store.heal()
        cluster.brokers[1].restart()
        cluster.until(lambda: is_whole(cluster, T0), "all are back")
        assert contents(cluster, 2)[offset] == b"acknowledged alone"


@kills
@pytest.mark.slow
def test_the_last_in_sync_replica_that_lost_its_disk_does_not_lead_over_one_that_has_the_records() -> None:
    """Only its own log was asked for, and it was empty; the others had everything, but no standing."""
    settings = {**QUICK, "min.insync.replicas": "1"}
    with SimulatedCluster(1, brokers=4, first=4, settings=settings) as cluster:
        cluster.checkers.clear()  # With one in-sync replica and no disk nothing is promised; it is saved all the same.
        make_topic(cluster, (1, 2, 3))
        produce(cluster, b"kept")
        cluster.until(lambda: contents(cluster, 2) == contents(cluster, 3) == {0: b"kept"}, "all have it")
        for broker_id in (2, 3):
            cluster.brokers[broker_id].kill()
        cluster.until(lambda: cluster.state(T0).isr == (1,), "broker 1 is alone")
        cluster.brokers[1].power_cut()
        cluster.brokers[1].node.disk.wipe()
        cluster.until(lambda: cluster.state(T0).leader == -1, "nobody leads")
        for broker_id in (2, 3, 1):
            cluster.brokers[broker_id].restart()
            cluster.until_ready()
        cluster.until(lambda: is_whole(cluster, T0), "all follow one of those that have it")
        assert [contents(cluster, broker_id) for broker_id in (1, 2, 3)] == [{0: b"kept"}] * 3


@kills
@pytest.mark.slow
def test_a_minimum_changed_right_before_a_controller_dies_leaves_those_eligible_who_were() -> None:
    """The next controller counted with 1 while leaders may not have heard, and forgot who else knows all that is committed (seed 1385)."""
    with SimulatedCluster(1, brokers=4, first=4, settings=QUICK) as cluster:
        make_topic(cluster, (1, 2, 3))
        offset = produce(cluster, b"known to two")
        cluster.until(
            lambda: all(contents(cluster, one) == {offset: b"known to two"} for one in (1, 2, 3)), "all have it"
        )
        cluster.brokers[2].kill()
        cluster.until(lambda: cluster.state(T0).isr == (1, 3), "a follower is missed")
        cluster.brokers[3].kill()
        cluster.until(lambda: cluster.state(T0).isr == (1,), "the other is missed")
        assert cluster.state(T0).eligible == (3,)
        alter_topic(cluster, "retention.ms", "3600000")
        cluster.brokers[4].kill()
        cluster.until(lambda: cluster.controller is not None, "another controller reigns")
        cluster.world.run_for_ms(500)
        assert cluster.state(T0).eligible == (3,)


@kills
@pytest.mark.slow
def test_a_batch_that_a_deposed_leader_had_appended_is_not_numbered_anew() -> None:
    """NOT_LEADER_OR_FOLLOWER is no proof that nothing was written: the next leader may have it (seed 2149390531)."""
    with SimulatedCluster(1, brokers=4, first=4, settings=PATIENT) as cluster:
        make_topic(cluster, (1, 2, 3))
        produce(cluster, b"before")
        cluster.until(lambda: len(contents(cluster, 2)) == len(contents(cluster, 3)) == 1, "all have it")

        async def story(runtime: Runtime) -> None:
            config = ProducerConfig.from_properties(
                properties(cluster, linger_ms="0", delivery_timeout_ms="8000", request_timeout_ms="5000")
            )
            async with Producer.connect(config, runtime) as producer:
                await (await producer.send("t", b"known", partition=0))
                cluster.brokers[3].pause()
                expiring = await producer.send("t", b"expires", partition=0)
                await passed(4)
                later = await producer.send("t", b"later", partition=0)
                await passed(1)
                await cluster.brokers[1].stop()
                with pytest.raises(DeliveryTimeout):
                    await expiring
                cluster.brokers[3].resume()
                await later

        cluster.tell(story)
        assert list(contents(cluster, 2).values()) == [b"before", b"known", b"expires", b"later"]


@kills
@pytest.mark.slow
def test_a_batch_that_a_cut_link_kept_back_does_not_arrive_after_it_was_given_up() -> None:
    """The leader said that it had not come, the client numbered it anew, and then it came (seed 1127)."""
    with SimulatedCluster(1, brokers=1, settings={"min.insync.replicas": "1"}) as cluster:
        make_topic(cluster, (1,))
        faults = cluster.world.fabric.faults

        async def story(runtime: Runtime) -> None:
            haste = {"reconnect_backoff_max_ms": "50", "socket_connection_setup_timeout_ms": "200"}
            config = ProducerConfig.from_properties(
                properties(cluster, linger_ms="0", delivery_timeout_ms="8000", request_timeout_ms="2000", **haste)
            )
            async with Producer.connect(config, runtime) as producer:
                await (await producer.send("t", b"known", partition=0))
                faults.cut("client", "broker-1")
                expiring = await producer.send("t", b"expires", partition=0)
                await passed(1.9)
                later = await producer.send("t", b"later", partition=0)
                with pytest.raises(DeliveryTimeout):
                    await expiring
                faults.heal()
                await later

        cluster.tell(story)
        assert list(contents(cluster, 1).values()) == [b"known", b"later"]


@kills
@pytest.mark.slow
def test_a_leader_that_was_deposed_unheard_sends_nobody_back_to_the_start() -> None:
    """It told consumers that what they had committed was out of range, and their groups read everything again (seed 206)."""
    with SimulatedCluster(1, brokers=3, settings=QUICK) as cluster:
        make_topic(cluster, (1, 2, 3))
        produce(cluster, b"one")
        assert _fetched(cluster, 1, 2) is ErrorCode.OFFSET_OUT_OF_RANGE, "whoever leads may say so"
        _depose_unheard(cluster)
        assert produce(cluster, b"two") == 1
        assert _fetched(cluster, 1, 2) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@kills
@pytest.mark.slow
def test_a_leader_that_was_deposed_unheard_sends_producers_to_look_for_another() -> None:
    """It said that a write took too long, again and again, and librdkafka asked nobody else who leads."""
    with SimulatedCluster(1, brokers=3, settings=QUICK) as cluster:
        make_topic(cluster, (1, 2, 3))
        produce(cluster, b"one")
        cluster.world.fabric.faults.partition(["broker-1"], ["broker-2", "broker-3"])
        assert _produced(cluster, 1) is ErrorCode.REQUEST_TIMED_OUT, "it leads, and its followers are merely late"
        cluster.world.fabric.faults.heal()
        _depose_unheard(cluster)
        assert _produced(cluster, 1) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def _depose_unheard(cluster: SimulatedCluster) -> None:
    """Have another broker lead in place of the first, which believes that it still does."""
    registered = cluster.store.tree.peek(layout.broker_path(1))
    assert registered is not None
    assert registered.owner is not None
    cluster.world.fabric.faults.partition(["broker-1"], ["broker-2", "broker-3"])
    cluster.store.expire(registered.owner)
    cluster.until(lambda: cluster.state(T0).leader != 1, "another one leads")
    cluster.until(lambda: cluster.store.tree.peek(layout.broker_path(1)) is not None, "the first one is there again")
    replica = cluster.replica(1, T0)
    assert replica is not None
    assert replica.is_leader, "by what it has heard"


def _produced(cluster: SimulatedCluster, broker_id: BrokerId) -> ErrorCode:
    """What a producer hears that wants its record safe within a second."""
    builder = RecordBatchBuilder()
    builder.append(timestamp_ms=1_000, key=None, value=b"late")
    data = PartitionProduceData(index=0, records=builder.build())
    request = ProduceRequest(
        acks=-1, timeout_ms=1_000, topic_data=(TopicProduceData(name="t", partition_data=(data,)),)
    )
    (topic,) = ask(cluster, broker_id, request, 9).responses
    return topic.partition_responses[0].error_code


def _fetched(cluster: SimulatedCluster, broker_id: BrokerId, offset: Offset) -> ErrorCode:
    """What a consumer hears that reads from there on, and knows of no leader epoch."""
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=(FetchTopic(topic="t", partitions=(asked,)),))
    (topic,) = ask(cluster, broker_id, request, 12).responses
    return topic.partitions[0].error_code
