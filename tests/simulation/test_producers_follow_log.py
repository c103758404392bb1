from __future__ import annotations

import pytest

from tests.simulation.clusters import T0, Load, make_topic
from tidelog.partition import Partition
from tidelog.simulation.checkers import ProducersFollowLog
from tidelog.simulation.cluster import SimulatedCluster


def replica(cluster: SimulatedCluster) -> Partition:
    return next(one for one in cluster.brokers[1].partitions() if one.topic_partition == T0)


@pytest.mark.slow
def test_a_memory_of_batches_that_are_gone_is_noticed() -> None:
    with SimulatedCluster(3) as cluster:
        make_topic(cluster, (1,))
        load = Load(cluster)
        load.until_more()
        load.stop()
        checker = ProducersFollowLog(cluster.brokers.values())
        assert list(checker.look(cluster.snapshot())) == []

        log = replica(cluster).log
        end_offset, log.log_end_offset = log.log_end_offset, 3
        (sentence,) = checker.look(cluster.snapshot())
        assert sentence.endswith(f"up to offset {end_offset - 1}, and its log ends at 3")
        log.log_end_offset = end_offset
        assert list(checker.look(cluster.snapshot())) == []
