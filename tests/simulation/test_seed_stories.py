"""The two stories people tell about truncating by high watermark, and both again with leader epochs.

Two replicas, A (broker 1) and B (broker 2), and a controller beside them that holds none. The columns are typed from the articles,
corrected where they differ from Kafka: a high watermark is exclusive, and an epoch begins with its election, not with its first record.
None is a broker that is down. Never write these tables from what the program prints.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.simulation.clusters import LAB, T0, contents, kills, make_topic, produce
from tidelog.controller import layout
from tidelog.simulation.cluster import SimulatedCluster

A, B, CONTROLLER = 1, 2, 3
QUIET = {"replica.high.watermark.checkpoint.interval.ms": "1000", "auto.leader.rebalance.enable": "false"}
LAGGING = {"replica.lag.time.max.ms": "2000"}


class Replica(NamedTuple):
    """One replica in a line of a story's table."""

    leo: int
    hw: int
    epochs: str  # "0@0 1@2": epoch 0 began at offset 0, epoch 1 at offset 2


class Row(NamedTuple):
    """One line."""

    a: Replica | None
    b: Replica | None


def row(cluster: SimulatedCluster) -> Row:
    return Row(*(_cell(cluster, broker_id) for broker_id in (A, B)))


def _cell(cluster: SimulatedCluster, broker_id: int) -> Replica | None:
    view = cluster.replica(broker_id, T0)
    if view is None:
        return None
    epochs = " ".join(f"{epoch}@{start}" for epoch, start in view.epochs)
    return Replica(view.log_end_offset, view.high_watermark, epochs)


def expect(cluster: SimulatedCluster, a: Replica | None, b: Replica | None, step: str) -> None:
    cluster.until(lambda: row(cluster) == Row(a, b), f"{step}: {Row(a, b)}, not {row(cluster)}", within_ms=20_000)


def two_replicas(seed: int, settings: dict[str, str]) -> SimulatedCluster:
    cluster = SimulatedCluster(seed, brokers=3, first=CONTROLLER, settings={**QUIET, **settings})
    cluster.checkers.clear()  # The stories break what the checkers guard; that is their point.
    return cluster


def let_checkpoints_be_written(cluster: SimulatedCluster) -> None:
    cluster.world.run_for_ms(3_000)


def cut_off(cluster: SimulatedCluster) -> None:
    """A and B no longer hear each other; both hear the controller, the registry and the clients."""
    cluster.world.fabric.faults.partition(["broker-1"], ["broker-2"])


def restart_b(cluster: SimulatedCluster) -> None:
    """B has m1, but not yet the news that it is committed. It restarts so quickly that it keeps its place in the ISR, and does not reach A."""
    make_topic(cluster, [A, B])
    assert produce(cluster, b"m0") == 0
    expect(cluster, Replica(1, 1, "0@0"), Replica(1, 1, "0@0"), "m0 is committed, and both know")
    let_checkpoints_be_written(cluster)
    assert produce(cluster, b"m1") == 1
    expect(cluster, Replica(2, 2, "0@0"), Replica(2, 1, "0@0"), "m1 is acknowledged; B's next answer would tell it so")
    cut_off(cluster)
    cluster.brokers[CONTROLLER].pause()
    cluster.brokers[B].bounce()
    cluster.world.run_for_ms(100)
    cluster.brokers[CONTROLLER].resume()


@kills
def test_truncating_by_high_watermark_loses_an_acknowledged_record() -> None:
    """R01 as it was before Kafka 0.11."""
    with two_replicas(1, LAB) as cluster:
        restart_b(cluster)
        expect(
            cluster, Replica(2, 2, "0@0"), Replica(1, 1, "0@0"), "B cut m1 away: its high watermark vouches for m0 only"
        )
        cluster.brokers[A].kill()
        cluster.until(lambda: cluster.state(T0).leader == B, "B leads")
        expect(cluster, None, Replica(1, 1, "0@0 1@1"), "B leads without m1")
        cluster.world.fabric.faults.heal()
        cluster.brokers[A].restart()
        expect(cluster, Replica(1, 1, "0@0"), Replica(1, 1, "0@0 1@1"), "A follows B and cuts m1 away as well")
        assert contents(cluster, A) == contents(cluster, B) == {0: b"m0"}, "m1 was acknowledged, and is nowhere"


@kills
def test_with_leader_epochs_the_acknowledged_record_stays() -> None:
    """R01."""
    with two_replicas(1, {}) as cluster:
        restart_b(cluster)
        expect(
            cluster, Replica(2, 2, "0@0"), Replica(2, 1, "0@0"), "B keeps m1 until a leader says where their logs part"
        )
        cluster.brokers[A].kill()
        cluster.until(lambda: cluster.state(T0).leader == B, "B leads")
        expect(cluster, None, Replica(2, 2, "0@0 1@2"), "B leads alone, and what it has is committed")
        cluster.world.fabric.faults.heal()
        cluster.brokers[A].restart()
        expect(cluster, Replica(2, 2, "0@0"), Replica(2, 2, "0@0 1@2"), "A finds that their logs do not part")
        assert contents(cluster, A) == contents(cluster, B) == {0: b"m0", 1: b"m1"}


def fork(cluster: SimulatedCluster) -> None:
    """A commits m1 alone, both die, B comes back first, leads without m1 and writes m2 in its place."""
    make_topic(cluster, [A, B], {"unclean.leader.election.enable": "true"})
    assert produce(cluster, b"m0") == 0
    expect(cluster, Replica(1, 1, "0@0"), Replica(1, 1, "0@0"), "m0 is committed, and both know")
    cut_off(cluster)
    assert produce(cluster, b"m1") == 1, "acknowledged once B has fallen behind and left the ISR"
    assert cluster.state(T0).isr == (A,)
    expect(cluster, Replica(2, 2, "0@0"), Replica(1, 1, "0@0"), "A commits m1 alone")
    let_checkpoints_be_written(cluster)
    cluster.brokers[B].kill()
    cluster.until(
        lambda: cluster.store.tree.peek(layout.broker_path(B)) is None, "the controller can see that B is dead"
    )
    cluster.world.run_for_ms(100)
    cluster.brokers[A].kill()
    cluster.world.fabric.faults.heal()
    cluster.until(lambda: cluster.state(T0).leader == -1, "nobody leads")
    cluster.brokers[B].restart()
    cluster.until(lambda: cluster.state(T0).leader == B, "B leads, though it was not in the ISR")
    assert cluster.state(T0).leader_epoch == 2, "1 was nobody's"
    expect(cluster, None, Replica(1, 1, "0@0 2@1"), "B has only m0")
    assert produce(cluster, b"m2") == 1
    expect(cluster, None, Replica(2, 2, "0@0 2@1"), "m2 lies where m1 lay")
    cluster.brokers[A].restart()


@kills
def test_truncating_by_high_watermark_leaves_two_histories() -> None:
    """R02 as it was before Kafka 0.11."""
    with two_replicas(2, {**LAB, **LAGGING}) as cluster:
        fork(cluster)
        expect(
            cluster, Replica(2, 2, "0@0"), Replica(2, 2, "0@0 2@1"), "A's high watermark equals B's, so A cuts nothing"
        )
        assert contents(cluster, A) == {0: b"m0", 1: b"m1"}
        assert contents(cluster, B) == {0: b"m0", 1: b"m2"}, "one offset, two records, for ever"


@kills
def test_with_leader_epochs_there_is_one_history() -> None:
    """R02: m1 is gone, as unclean election says; but no two replicas tell different stories."""
    with two_replicas(2, LAGGING) as cluster:
        fork(cluster)
        expect(cluster, Replica(2, 2, "0@0 2@1"), Replica(2, 2, "0@0 2@1"), "A cuts m1 away and fetches m2")
        assert contents(cluster, A) == contents(cluster, B) == {0: b"m0", 1: b"m2"}
