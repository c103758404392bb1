from __future__ import annotations

import pytest

from tests.simulation.clusters import SAFE, T0, kills, make_topic, produce
from tidelog.partition import Partition
from tidelog.simulation.checkers import CommitsNeedMinimum
from tidelog.simulation.cluster import SimulatedCluster


def leading(cluster: SimulatedCluster) -> Partition:
    return next(one for one in cluster.brokers[1].partitions() if one.topic_partition == T0)


def broken(checker: CommitsNeedMinimum, cluster: SimulatedCluster) -> list[str]:
    return list(checker.look(cluster.snapshot()))


@kills
@pytest.mark.slow
def test_a_leader_that_commits_with_too_small_an_isr_is_noticed() -> None:
    with SimulatedCluster(3, brokers=3, settings={"replica.lag.time.max.ms": "1000"}, first=1) as cluster:
        make_topic(cluster, (1, 2, 3), SAFE)
        checker = CommitsNeedMinimum(cluster.brokers.values())
        assert broken(checker, cluster) == []
        produce(cluster, b"committed by all")
        assert broken(checker, cluster) == []
        for broker_id in (2, 3):
            cluster.brokers[broker_id].kill()
        cluster.until(lambda: leading(cluster).isr == (1,), "the leader is alone")
        assert broken(checker, cluster) == []
        produce(cluster, b"committed by nobody", acks="1")
        assert broken(checker, cluster) == []

        partition = leading(cluster)
        partition.high_watermark = partition.log.log_end_offset
        assert broken(checker, cluster) == [
            "t-0: broker 1 in epoch 1 committed from 1 to 2 with the ISR [1], of which at least 2 are wanted"
        ]
        partition.high_watermark = 1
        assert broken(checker, cluster) == []
        for broker_id in (2, 3):
            cluster.brokers[broker_id].restart()
        cluster.until(lambda: partition.high_watermark == 2, "it is committed as it should be")
        assert broken(checker, cluster) == []
