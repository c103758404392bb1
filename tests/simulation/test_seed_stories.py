"""The two stories people tell about truncating by high watermark, and both again with leader epochs.

Two replicas, A (broker 1) and B (broker 2). The columns are typed from the articles, corrected where they differ from Kafka (a high watermark
is exclusive; an epoch begins with its election, not with its first record). A cell that is None is a broker that is down.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.simulation.clusters import LAB, T0, contents, kills, make_topic, produce
from tidelog.simulation.cluster import SimulatedCluster

A, B, CONTROLLER = 1, 2, 3
QUIET = {"replica.high.watermark.checkpoint.interval.ms": "1000", "auto.leader.rebalance.enable": "false"}


class Row(NamedTuple):
    """One line of a story's table: log end and high watermark of each replica, and which epochs begin where in its log."""

    a: tuple[int, int] | None
    b: tuple[int, int] | None


def row(cluster: SimulatedCluster) -> Row:
    views = {broker: cluster.replica(broker, T0) for broker in (A, B)}
    cells = {key: None if view is None else (view.log_end_offset, view.high_watermark) for key, view in views.items()}
    return Row(cells[A], cells[B])


def expect(cluster: SimulatedCluster, expected: Row, step: str) -> None:
    cluster.until(lambda: row(cluster) == expected, f"{step}: {expected}, not {row(cluster)}", within_ms=20_000)


def two_replicas(seed: int, settings: dict[str, str]) -> SimulatedCluster:
    """A and B, and a controller beside them that holds no replica."""
    cluster = SimulatedCluster(seed, brokers=3, first=CONTROLLER, settings={**QUIET, **settings})
    cluster.checkers.clear()  # The stories break what the checkers guard; that is their point.
    return cluster


def cut_off(cluster: SimulatedCluster) -> None:
    """A and B no longer hear each other; both hear the registry and the clients."""
    cluster.world.fabric.faults.partition(["broker-1"], ["broker-2"])


def restart_b_and_lose_a(cluster: SimulatedCluster) -> None:
    """B has m1 but not yet the news that it is committed; it restarts, and A dies before B's first fetch is answered."""
    make_topic(cluster, [A, B])
    assert produce(cluster, b"m0") == 0
    expect(cluster, Row(a=(1, 1), b=(1, 1)), "m0 is committed, and both know")
    assert produce(cluster, b"m1") == 1
    expect(cluster, Row(a=(2, 2), b=(2, 1)), "m1 is acknowledged; B's next answer would tell it so")
    cut_off(cluster)
    # B is back before the controller has looked: it has kept its log, and so its place in the ISR.
    cluster.brokers[CONTROLLER].pause()
    cluster.brokers[B].bounce()
    cluster.world.run_for_ms(100)
    cluster.brokers[CONTROLLER].resume()


@kills
def test_truncating_by_high_watermark_loses_an_acknowledged_record() -> None:
    """R01 as it was before Kafka 0.11."""
    with two_replicas(1, LAB) as cluster:
        restart_b_and_lose_a(cluster)
        expect(cluster, Row(a=(2, 2), b=(1, 1)), "B cut m1 away, because its high watermark says that only m0 is safe")
        cluster.brokers[A].kill()
        expect(cluster, Row(a=None, b=(1, 1)), "A is gone")
        cluster.until(lambda: cluster.state(T0).leader == B, "B leads")
        cluster.world.fabric.faults.heal()
        cluster.brokers[A].restart()
        expect(cluster, Row(a=(1, 1), b=(1, 1)), "A follows B and cuts m1 away as well")
        assert contents(cluster, A) == contents(cluster, B) == {0: b"m0"}, "m1 was acknowledged, and is nowhere"


@kills
def test_with_leader_epochs_the_acknowledged_record_stays() -> None:
    """R01."""
    with two_replicas(1, {}) as cluster:
        restart_b_and_lose_a(cluster)
        expect(cluster, Row(a=(2, 2), b=(2, 1)), "B keeps m1 until its leader tells it where their logs part")
        cluster.brokers[A].kill()
        cluster.until(lambda: cluster.state(T0).leader == B, "B leads")
        expect(cluster, Row(a=None, b=(2, 2)), "B leads alone, and what it has is committed")
        cluster.world.fabric.faults.heal()
        cluster.brokers[A].restart()
        expect(cluster, Row(a=(2, 2), b=(2, 2)), "A finds its log equal to B's")
        assert contents(cluster, A) == contents(cluster, B) == {0: b"m0", 1: b"m1"}


def fork(cluster: SimulatedCluster) -> None:
    """A commits m1 alone, both die, B comes back first, leads without m1 and writes m2 in its place."""
    make_topic(cluster, [A, B], {"unclean.leader.election.enable": "true"})
    assert produce(cluster, b"m0") == 0
    expect(cluster, Row(a=(1, 1), b=(1, 1)), "m0 is committed, and both know")
    cut_off(cluster)
    assert produce(cluster, b"m1") == 1, "acknowledged once B has fallen behind and left the ISR"
    assert cluster.state(T0).isr == (A,)
    expect(cluster, Row(a=(2, 2), b=(1, 1)), "A commits m1 alone")
    cluster.world.run_for_ms(3_000)  # A's high watermark is checkpointed.
    cluster.brokers[A].kill()
    cluster.brokers[B].kill()
    cluster.world.fabric.faults.heal()
    cluster.brokers[B].restart()
    cluster.until(lambda: cluster.state(T0).leader == B, "B leads, though it was not in the ISR")
    expect(cluster, Row(a=None, b=(1, 1)), "B has only m0")
    assert produce(cluster, b"m2") == 1
    expect(cluster, Row(a=None, b=(2, 2)), "m2 lies where m1 lay")
    cluster.brokers[A].restart()


LAGGING = {"replica.lag.time.max.ms": "2000"}


@kills
def test_truncating_by_high_watermark_leaves_two_histories() -> None:
    """R02 as it was before Kafka 0.11."""
    with two_replicas(2, {**LAB, **LAGGING}) as cluster:
        fork(cluster)
        expect(cluster, Row(a=(2, 2), b=(2, 2)), "A's high watermark equals B's, so A cuts nothing")
        assert contents(cluster, A) == {0: b"m0", 1: b"m1"}
        assert contents(cluster, B) == {0: b"m0", 1: b"m2"}, "one offset, two records, for ever"


@kills
def test_with_leader_epochs_there_is_one_history() -> None:
    """R02: m1 is gone, which unclean election said; but no two replicas tell different stories."""
    with two_replicas(2, LAGGING) as cluster:
        fork(cluster)
        expect(cluster, Row(a=(2, 2), b=(2, 2)), "A cuts m1 away and fetches m2")
        cluster.until(lambda: contents(cluster, A) == contents(cluster, B), "the logs are equal")
        assert contents(cluster, A) == {0: b"m0", 1: b"m2"}
