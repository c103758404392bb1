"""Retries of batches, and indexes of aborted transactions, through crashes (T01, T03, T16)."""

from __future__ import annotations

import pytest

from tests.simulation.by_hand import T0, ByHand, Line, bank, open_bank, seen, until_stable
from tests.simulation.clusters import heal, kills
from tidelog.model import ErrorCode, Offset
from tidelog.simulation.checkers.transaction_logs import transaction_log
from tidelog.simulation.cluster import LOG_DIR, SimulatedCluster
from tidelog.simulation.disk_image import Loss
from tidelog.wire.messages.produce import ProduceRequest

pytestmark = pytest.mark.slow

VERSIONS = pytest.mark.parametrize("version", [1, 2], ids=["old", "new"])


def sent(line: Line, request: tuple[ProduceRequest, int]) -> tuple[ErrorCode, Offset]:
    answer = line.ask(*request).responses[0].partition_responses[0]
    return answer.error_code, answer.base_offset


@kills
@VERSIONS
def test_t01_t03_a_batch_whose_ack_was_lost_is_there_once_also_for_the_next_leader(version: int) -> None:
    with bank() as cluster:
        open_bank(cluster)
        one = ByHand(cluster, version=version)
        one.init()
        one.join(one.line(), T0)
        batches = [one.produce_request(b"m%d" % number) for number in range(5)]
        line = one.line(1)
        told = [sent(line, batch) for batch in batches]
        assert told == [(ErrorCode.NONE, offset) for offset in range(5)]
        again = one.line(1)
        assert [sent(again, batch) for batch in batches] == told
        cluster.brokers[1].kill()
        cluster.until(lambda: cluster.state(T0).leader in (2, 3), "another leads")
        next_line = one.line(cluster.state(T0).leader)
        assert [sent(next_line, batch) for batch in batches] == told
        assert one.end(one.line(), committed=True) is ErrorCode.NONE
        heal(cluster)
        until_stable(cluster, T0)
        assert seen(cluster) == [f"m{number}" for number in range(5)]


def every_other_aborted(cluster: SimulatedCluster) -> None:
    """Six transactions, every other one aborted, in segments of a few batches."""
    for number in range(6):
        one = ByHand(cluster, version=2, transactional_id=f"t{number}")
        one.init()
        assert one.produce(b"m%d" % number, line=one.line(1)) is ErrorCode.NONE
        assert one.end(one.line(), committed=number % 2 == 0) is ErrorCode.NONE
    until_stable(cluster, T0)


@kills
def test_t16_a_replica_whose_index_of_aborted_transactions_is_lost_makes_it_anew() -> None:
    with bank(log_segment_bytes="300", log_index_interval_bytes="0") as cluster:
        open_bank(cluster)
        every_other_aborted(cluster)
        expected = ["m0", "m2", "m4"]
        assert seen(cluster) == expected
        for broker in cluster.brokers.values():
            broker.kill()
            disk = broker.node.disk
            disk.crash(lose=Loss.NOTHING)
            lost = [name for name in disk.listdir(f"{LOG_DIR}/t-0") if name.endswith(".txnindex")]
            assert lost
            for name in lost:
                disk.unlink(f"{LOG_DIR}/t-0/{name}")
        for broker in cluster.brokers.values():
            broker.restart()
        cluster.until_ready()
        heal(cluster, T0)
        assert seen(cluster) == expected
        for broker in cluster.brokers.values():
            log = next(transaction_log(each) for each in broker.partitions() if each.topic_partition == T0)
            assert len(log.aborted) == 3
            assert sorted(log.aborted) == sorted(log.aborted_by_markers)
