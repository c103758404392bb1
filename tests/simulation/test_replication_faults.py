"""Replication under faults, row by row of the fault matrix. The checkers look on at every step; each story ends healed and whole."""

from __future__ import annotations

import pytest

from tests.simulation.clusters import (
    SAFE,
    T0,
    Load,
    consumed,
    contents,
    end_well,
    heal,
    kills,
    make_topic,
    produce,
)
from tests.simulation.workload import properties
from tests.tiers import rest_proven
from tidelog.client import Admin, ClientConfig, ClientError, Consumer, ConsumerConfig, NewTopic
from tidelog.runtime import Runtime
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.simulation.registry_session import RegistryTiming

CONTROLLER = 4
REPLICAS = (1, 2, 3)
QUICK = {"replica.lag.time.max.ms": "2000", "auto.leader.rebalance.enable": "false", **SAFE}


def four_brokers(seed: int, **settings: str) -> SimulatedCluster:
    """Three replicas, and a controller beside them that holds none."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return SimulatedCluster(seed, brokers=4, first=CONTROLLER, settings={**QUICK, **named})


@kills
@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_proven(range(3)))
def test_a_killed_leader_takes_nothing_with_it(seed: int) -> None:
    with four_brokers(seed) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        for _ in range(3):
            load.until_more()
            leader = cluster.leader(T0)
            leader.kill()
            until_another_leads(cluster, leader.broker_id)
            load.until_more()
            leader.restart()
            cluster.until(lambda: is_whole_or_moving(cluster), "the replica is back")
        end_well(cluster, load)


def until_another_leads(cluster: SimulatedCluster, gone: int) -> None:
    cluster.until(lambda: cluster.state(T0).leader not in (gone, -1), "another leads")


def is_whole_or_moving(cluster: SimulatedCluster) -> bool:
    """Whether all replicas are in sync; under load their ends differ from one instant to the next."""
    state = cluster.state(T0)
    return sorted(state.isr) == sorted(state.assignment)


@kills
@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_proven(range(2)))
def test_r04_a_follower_that_missed_an_election_is_fenced_and_comes_round(seed: int) -> None:
    with four_brokers(seed) as cluster:
        make_topic(cluster, (1, 3, 2))
        load = Load(cluster)
        load.until_more()
        cluster.world.fabric.faults.partition(["broker-4"], ["broker-2"])
        cluster.brokers[1].kill()
        cluster.until(lambda: cluster.state(T0).leader == 3, "broker 3 leads, which broker 2 has not heard")
        cluster.brokers[1].restart()
        load.until_more()
        end_well(cluster, load)


@kills
@pytest.mark.slow
def test_r11_a_consumer_sees_every_record_once_while_leaders_move() -> None:
    with four_brokers(11) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        seen: list[tuple[int, bytes]] = []

        async def follow(runtime: Runtime) -> None:
            config = ConsumerConfig.from_properties(properties(cluster, auto_offset_reset="earliest"))
            async with Consumer.connect(config, runtime) as consumer:
                consumer.assign([T0])
                while True:
                    seen.extend((record.offset, record.value or b"") for record in await consumer.poll(timeout_ms=500))

        following = cluster.client.spawn(follow(cluster.client.runtime))
        for _ in range(3):
            load.until_more()
            leader = cluster.leader(T0)
            leader.kill()
            load.until_more()
            leader.restart()
            cluster.until(lambda: is_whole_or_moving(cluster), "the replica is back")
        load.stop()
        heal(cluster)
        end = max(contents(cluster, 1)) + 1
        cluster.until(lambda: bool(seen) and seen[-1][0] == end - 1, "the consumer has read everything")
        following.cancel()
        assert [offset for offset, _ in seen] == list(range(end)), "nothing twice, nothing skipped, no step back"
        assert dict(seen) == contents(cluster, 1)


@kills
@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_proven(range(3)))
def test_r13_an_isr_change_whose_answer_is_lost_is_made_once(seed: int) -> None:
    with four_brokers(seed) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        load.until_more()
        cluster.brokers[3].pause()
        cluster.until(lambda: 3 not in cluster.state(T0).isr, "the ISR has shrunk")
        cluster.brokers[3].resume()
        cluster.until(lambda: 3 in cluster.state(T0).isr, "and grown: leader and controller are connected")
        cluster.world.fabric.faults.isolate("broker-3")
        # The controller hears the leader; its answers do not arrive.
        cluster.world.fabric.faults.cut("broker-4", "broker-1")
        cluster.until(lambda: 3 not in cluster.state(T0).isr, "the ISR has shrunk", within_ms=120_000)
        cluster.world.fabric.faults.mend("broker-4", "broker-1")
        load.until_more()
        end_well(cluster, load)


@kills
@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_proven(range(3)))
def test_r14_a_leader_cut_off_from_everybody_but_its_clients_acknowledges_nothing(seed: int) -> None:
    with four_brokers(seed) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        load.until_more()
        cluster.store.cut("broker-1")
        cluster.world.fabric.faults.partition(["broker-1"], ["broker-2", "broker-3", "broker-4"])
        cluster.until(lambda: cluster.state(T0).leader != 1, "another leads")
        load.until_more()
        end_well(cluster, load)


@kills
@pytest.mark.parametrize("seed", rest_proven(range(3)))
def test_r15_a_broker_that_comes_back_with_an_empty_disk_does_not_lead(seed: int) -> None:
    with four_brokers(seed, min_insync_replicas="1") as cluster:
        make_topic(cluster, (1, 2))
        for number in range(5):
            produce(cluster, b"%d" % number)
        cluster.brokers[2].kill()
        cluster.brokers[2].node.disk.wipe()
        cluster.brokers[2].restart()
        cluster.brokers[1].kill()
        cluster.world.run_for_ms(5_000)
        assert cluster.state(T0).leader != 2, "its disk is empty"
        cluster.brokers[1].restart()
        heal(cluster)
        assert contents(cluster, 1) == contents(cluster, 2) == {number: b"%d" % number for number in range(5)}


@kills
def test_r16_without_unclean_election_a_partition_waits_for_the_replica_that_knows_everything() -> None:
    with four_brokers(16, min_insync_replicas="1") as cluster:
        make_topic(cluster, (1, 2))
        produce(cluster, b"both have it")
        cluster.brokers[2].kill()
        cluster.until(lambda: cluster.state(T0).isr == (1,), "broker 2 left the ISR")
        assert produce(cluster, b"only broker 1 has it") == 1
        cluster.brokers[1].kill()
        cluster.until(lambda: cluster.state(T0).leader == -1, "nobody leads")
        cluster.brokers[2].restart()
        cluster.world.run_for_ms(10_000)
        assert cluster.state(T0).leader == -1, "broker 2 lacks a record"
        assert cluster.state(T0).isr == (1,)
        with pytest.raises(ClientError):
            produce(cluster, b"nobody takes this", timeout_ms=5_000)
        cluster.brokers[1].restart()
        heal(cluster)
        assert contents(cluster, 1) == contents(cluster, 2) == {0: b"both have it", 1: b"only broker 1 has it"}


@kills
def test_r16_with_unclean_election_the_survivor_leads_and_the_others_follow_its_history() -> None:
    with four_brokers(17, min_insync_replicas="1") as cluster:
        cluster.checkers.clear()  # An unclean election changes what was committed; that is what the setting says.
        make_topic(cluster, (1, 2), {"unclean.leader.election.enable": "true"})
        produce(cluster, b"both have it")
        cluster.brokers[2].kill()
        cluster.until(lambda: cluster.state(T0).isr == (1,), "broker 2 left the ISR")
        produce(cluster, b"only broker 1 has it")
        epoch = cluster.state(T0).leader_epoch
        cluster.brokers[1].kill()
        cluster.brokers[2].restart()
        cluster.until(lambda: cluster.state(T0).leader == 2, "broker 2 leads")
        assert cluster.state(T0).leader_epoch > epoch
        assert "unclean leader elected" in cluster.world.trace.text()
        assert produce(cluster, b"instead of it") == 1
        cluster.brokers[1].restart()
        heal(cluster)
        assert contents(cluster, 1) == contents(cluster, 2) == {0: b"both have it", 1: b"instead of it"}


@kills
@pytest.mark.parametrize("seed", rest_proven(range(3)))
def test_r17_the_last_replica_that_loses_power_does_not_lead_over_one_that_kept_everything(seed: int) -> None:
    with four_brokers(seed) as cluster:
        make_topic(cluster, REPLICAS)
        for number in range(5):
            produce(cluster, b"%d" % number)
        cluster.brokers[3].kill()
        cluster.until(lambda: 3 not in cluster.state(T0).isr, "broker 3 left the ISR")
        cluster.brokers[2].kill()
        cluster.until(lambda: cluster.state(T0).isr == (1,), "broker 1 stands alone")
        cluster.brokers[1].power_cut()
        cluster.until(lambda: cluster.state(T0).leader == -1, "nobody leads", within_ms=30_000)
        cluster.brokers[1].restart()
        cluster.brokers[2].restart()
        cluster.until(lambda: cluster.state(T0).leader == 2, "broker 2 leads: it lost nothing")
        heal(cluster)
        assert consumed(cluster, end=5) == {number: b"%d" % number for number in range(5)}


@kills
@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_proven(range(2)))
def test_all_replicas_lose_power_and_the_one_with_most_leads(seed: int) -> None:
    """With flush.messages=1 whatever was acknowledged is on every ISR member's disk."""
    with four_brokers(seed, log_flush_interval_messages="1") as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        load.until_more(50)
        for broker in REPLICAS:
            cluster.brokers[broker].power_cut()
        cluster.world.run_for_ms(1_000)
        for broker in REPLICAS:
            cluster.brokers[broker].restart()
        load.until_more()
        end_well(cluster, load)


@kills
@pytest.mark.slow
def test_r18_a_follower_that_pauses_at_the_limit_does_not_flap() -> None:
    with four_brokers(18) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        load.until_more()
        before = cluster.state(T0).partition_epoch
        for _ in range(10):
            cluster.brokers[3].pause()
            cluster.world.run_for_ms(1_900)
            cluster.brokers[3].resume()
            load.until_more()
        changes = cluster.state(T0).partition_epoch - before
        assert changes <= 20, "at most one leave and one return per pause"
        end_well(cluster, load)


@kills
@pytest.mark.slow
@pytest.mark.parametrize("victim", ["controller", "newcomer", "leader"])
def test_r19_a_reassignment_survives_the_death_of(victim: str) -> None:
    with SimulatedCluster(19, brokers=5, first=CONTROLLER, settings=QUICK) as cluster:
        make_topic(cluster, REPLICAS)
        load = Load(cluster)
        load.until_more(100)
        cluster.world.fabric.faults.slow("broker-1", "broker-5", latency_ms=(50, 100))

        async def move(runtime: Runtime) -> None:
            async with Admin.connect(ClientConfig.from_properties(properties(cluster)), runtime) as admin:
                answers = await admin.alter_reassignments({T0: (5, 2, 3)})
                assert all(answer.is_ok for answer in answers.values()), answers

        cluster.tell(move)
        killed = cluster.brokers[{"controller": CONTROLLER, "newcomer": 5, "leader": 1}[victim]]
        killed.kill()
        load.until_more()
        killed.restart()
        cluster.until(
            lambda: cluster.state(T0).assignment == (5, 2, 3), "the reassignment is complete", within_ms=120_000
        )
        load.until_more()
        end_well(cluster, load)
        cluster.until(lambda: cluster.replica(1, T0) is None, "the replica that moved away is gone")


@kills
def test_r20_a_log_of_a_deleted_topic_is_never_taken_for_its_successor() -> None:
    with four_brokers(20, min_insync_replicas="1") as cluster:
        make_topic(cluster, (1, 2))
        produce(cluster, b"of the first topic")
        cluster.until(lambda: contents(cluster, 2) == {0: b"of the first topic"}, "broker 2 has it")
        cluster.brokers[2].kill()

        async def delete(runtime: Runtime) -> None:
            async with Admin.connect(ClientConfig.from_properties(properties(cluster)), runtime) as admin:
                (result,) = await admin.delete_topics(["t"])
                assert result.is_ok, result

        cluster.until(lambda: cluster.state(T0).isr == (1,), "broker 2 left the ISR")
        cluster.tell(delete)
        make_topic_on(cluster, (1, 3))
        produce(cluster, b"of the second")
        cluster.brokers[2].restart()
        cluster.until(lambda: cluster.brokers[2].is_ready, "broker 2 is back with the old log")

        async def move(runtime: Runtime) -> None:
            async with Admin.connect(ClientConfig.from_properties(properties(cluster)), runtime) as admin:
                answers = await admin.alter_reassignments({T0: (1, 2)})
                assert all(answer.is_ok for answer in answers.values()), answers

        cluster.tell(move)
        cluster.until(lambda: cluster.state(T0).assignment == (1, 2), "the new topic has moved there")
        heal(cluster)
        assert contents(cluster, 1) == contents(cluster, 2) == {0: b"of the second"}


@kills
def test_r20_a_broker_that_slept_through_it_begins_the_successor_anew() -> None:
    timing = RegistryTiming(session_timeout_ms=60_000)
    settings = {**QUICK, "min.insync.replicas": "1"}
    with SimulatedCluster(20, brokers=4, first=CONTROLLER, settings=settings, timing=timing) as cluster:
        make_topic(cluster, (1, 2))
        produce(cluster, b"of the first topic")
        cluster.until(lambda: contents(cluster, 2) == {0: b"of the first topic"}, "broker 2 has it")
        cluster.brokers[2].pause()

        async def delete(runtime: Runtime) -> None:
            async with Admin.connect(ClientConfig.from_properties(properties(cluster)), runtime) as admin:
                (result,) = await admin.delete_topics(["t"])
                assert result.is_ok, result

        cluster.tell(delete)
        make_topic_on(cluster, (1, 2))
        cluster.brokers[2].bounce()
        heal(cluster)
        assert contents(cluster, 1) == contents(cluster, 2) == {}
        assert produce(cluster, b"of the second") == 0


def make_topic_on(cluster: SimulatedCluster, replicas: tuple[int, ...]) -> None:
    """Make the topic although some broker is down."""

    async def story(runtime: Runtime) -> None:
        async with Admin.connect(ClientConfig.from_properties(properties(cluster)), runtime) as admin:
            (result,) = await admin.create_topics([NewTopic(name="t", assignment={0: replicas})])
            assert result.is_ok, result

    cluster.tell(story)


@kills
@pytest.mark.slow
@pytest.mark.parametrize("limit", ["retention.ms", "retention.bytes"])
def test_r21_retention_deletes_nothing_that_is_not_committed(limit: str) -> None:
    with four_brokers(21, replica_lag_time_max_ms="600000", log_retention_check_interval_ms="1000") as cluster:
        make_topic(cluster, REPLICAS, {"segment.bytes": "500", limit: "1000"})
        for number in range(3):
            produce(cluster, b"committed %d" % number)
        cluster.world.fabric.faults.partition(["broker-1"], ["broker-2", "broker-3"])
        for number in range(20):
            produce(cluster, b"%d" % number * 50, acks="1")
        cluster.world.run_for_ms(120_000)
        held = cluster.replica(1, T0)
        assert held is not None
        assert held.log_start_offset <= held.high_watermark == 3
        assert sorted(contents(cluster, 1))[-20:] == list(range(3, 23)), "all that nobody else has"
        heal(cluster)
        cluster.until(lambda: all(is_emptied(cluster, each) for each in REPLICAS), "what is committed goes")
        assert produce(cluster, b"goes on") == 23


def is_emptied(cluster: SimulatedCluster, broker_id: int) -> bool:
    replica = cluster.replica(broker_id, T0)
    return replica is not None and replica.log_start_offset > 15


@kills
def test_r22_a_produce_that_waits_for_followers_hears_at_once_that_its_leader_fell() -> None:
    with four_brokers(22, replica_lag_time_max_ms="30000") as cluster:
        make_topic(cluster, REPLICAS)
        produce(cluster, b"first")
        cluster.world.fabric.faults.partition(["broker-1"], ["broker-2", "broker-3"])
        load = Load(cluster)
        cluster.world.run_for_ms(1_000)
        assert load.acknowledged.count == 0, "no follower can fetch it"
        cluster.store.expire_node("broker-1")
        cluster.until(lambda: cluster.state(T0).leader in (2, 3), "another leads")
        assert load.acknowledged.count == 0
        load.until_more(within_ms=5_000)  # What waited was told to look for another leader.
        end_well(cluster, load)
