"""What reviewers found in clusters: each was a bug once."""

from __future__ import annotations

import pytest

from tests.simulation.clusters import SAFE, T0, is_whole, kills, make_topic, produce
from tidelog.controller import layout
from tidelog.simulation.cluster import SimulatedCluster

QUICK = {"replica.lag.time.max.ms": "2000", "auto.leader.rebalance.enable": "false", **SAFE}


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
